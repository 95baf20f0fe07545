"""The outcome of a restore: `report.json`, written once, as the restore's last object. A restore without a report is
unfinished.

The report states, for each restored partition, the source range and the target, so the two can be compared again at any
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import PartitionId
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """The records of `source` below `source_end` went to `target`, from `target_start` on: at their own offsets, or
    without gaps. `digest`: the digest of the proof (see `copy.compare.records`), empty without a proof."""

    source: PartitionId
    source_end: int
    target: TopicPartition
    target_start: int
    same_offsets: bool
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionedTopic:
    """All of `sources` (pairs of partition and end) below their ends went to `partitions` partitions of `target`, by
    key."""

    target: str
    partitions: int
    keyless_in_turn: bool
    sources: tuple[tuple[PartitionId, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOutcome:
    """The outcome of a restore. `verified` is None if nothing was compared; `findings`: the first difference of each
    partition."""

    records: int
    size_bytes: int
    verified: bool | None
    findings: tuple[str, ...]
    partitions: tuple[RestoredPartition, ...]
    repartitioned: tuple[RepartitionedTopic, ...] = ()


def put_outcome(store: Store, layout: RestoreLayout, outcome: RestoreOutcome) -> None:
    """Write the report: the restore is finished from now on."""
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "records": outcome.records,
        "bytes": outcome.size_bytes,
        "verified": outcome.verified,
        "findings": list(outcome.findings),
        "partitions": [_fields(each) for each in outcome.partitions],
        "repartitioned": [_topic_fields(each) for each in outcome.repartitioned],
    }
    store.put_if_absent(layout.report_key, encode_object(fields))


def get_outcome(store: Store, layout: RestoreLayout) -> RestoreOutcome | None:
    """The outcome of a restore; None while the restore is unfinished. Raises `DamagedObject`, `FormatTooNew`."""
    data = store.get(layout.report_key)
    if data is None:
        return None
    item = parse_json_object(data, source=layout.report_key, damaged=DamagedObject)
    return RestoreOutcome(
        records=item.integer("records"),
        size_bytes=item.integer("bytes"),
        verified=None if item.fields.get("verified") is None else item.flag("verified"),
        findings=item.texts("findings"),
        partitions=tuple(map(_partition, item.children("partitions"))),
        repartitioned=tuple(map(_topic, item.children("repartitioned"))),
    )


def _fields(each: RestoredPartition) -> Mapping[str, JsonValue]:
    return {
        **_source_fields(each.source, each.source_end),
        "target": each.target.topic,
        "target_partition": each.target.partition,
        "target_start": each.target_start,
        "same_offsets": each.same_offsets,
        "digest": each.digest,
    }


def _topic_fields(each: RepartitionedTopic) -> Mapping[str, JsonValue]:
    return {
        "target": each.target,
        "partitions": each.partitions,
        "keyless_in_turn": each.keyless_in_turn,
        "sources": [_source_fields(*source) for source in each.sources],
    }


def _source_fields(source: PartitionId, end: int) -> Mapping[str, JsonValue]:
    return {"topic": source.topic, "topic_id": source.topic_id, "partition": source.partition, "end": end}


def _partition(item: JsonObject) -> RestoredPartition:
    source, end = _source(item)
    return RestoredPartition(
        source=source,
        source_end=end,
        target=TopicPartition(topic=item.text("target"), partition=item.integer("target_partition")),
        target_start=item.integer("target_start"),
        same_offsets=item.flag("same_offsets"),
        digest=item.text("digest"),
    )


def _topic(item: JsonObject) -> RepartitionedTopic:
    return RepartitionedTopic(
        target=item.text("target"),
        partitions=item.integer("partitions"),
        keyless_in_turn=item.flag("keyless_in_turn"),
        sources=tuple(map(_source, item.children("sources"))),
    )


def _source(item: JsonObject) -> tuple[PartitionId, int]:
    found = PartitionId(topic=item.text("topic"), topic_id=item.text("topic_id"), partition=item.integer("partition"))
    return found, item.integer("end")
