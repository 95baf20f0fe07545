"""The outcome of a restore: `report.json`, written once, as the restore's last object. A restore without a report is
unfinished.

The report states, for each restored partition, the source range and the target, so the two can be compared again at any
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """The records of `source` below `source_end` went to `target`, from `target_start` on: at their own offsets, or
    without gaps. `digest`: the digest of the proof (see `restore.compare.records`), empty without a proof."""

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
        "partitions": [_fields(partition) for partition in outcome.partitions],
        "repartitioned": [_topic_fields(topic) for topic in outcome.repartitioned],
    }
    store.put_if_absent(layout.report_key, encode_object(fields))


def get_outcome(store: Store, layout: RestoreLayout) -> RestoreOutcome | None:
    """The outcome of a restore; None while the restore is unfinished. Raises `DamagedObject`, `FormatTooNew`."""
    data = store.get(layout.report_key)
    if data is None:
        return None
    document = parse_json_object(data, source=layout.report_key, damaged=DamagedObject)
    return RestoreOutcome(
        records=document.integer("records"),
        size_bytes=document.integer("bytes"),
        verified=None if document.fields.get("verified") is None else document.flag("verified"),
        findings=document.texts("findings"),
        partitions=tuple(map(_partition, document.children("partitions"))),
        repartitioned=tuple(map(_topic, document.children("repartitioned"))),
    )


def _fields(restored: RestoredPartition) -> Mapping[str, JsonValue]:
    return {
        **_source_fields(restored.source, restored.source_end),
        "target": restored.target.topic,
        "target_partition": restored.target.partition,
        "target_start": restored.target_start,
        "same_offsets": restored.same_offsets,
        "digest": restored.digest,
    }


def _topic_fields(topic: RepartitionedTopic) -> Mapping[str, JsonValue]:
    return {
        "target": topic.target,
        "partitions": topic.partitions,
        "keyless_in_turn": topic.keyless_in_turn,
        "sources": [_source_fields(*source) for source in topic.sources],
    }


def _source_fields(source: PartitionId, end: int) -> Mapping[str, JsonValue]:
    return {"topic": source.topic, "topic_id": source.topic_id, "partition": source.partition, "end": end}


def _partition(document: JsonObject) -> RestoredPartition:
    source, end = _source(document)
    return RestoredPartition(
        source=source,
        source_end=end,
        target=TopicPartition(topic=document.text("target"), partition=document.integer("target_partition")),
        target_start=document.integer("target_start"),
        same_offsets=document.flag("same_offsets"),
        digest=document.text("digest"),
    )


def _topic(document: JsonObject) -> RepartitionedTopic:
    return RepartitionedTopic(
        target=document.text("target"),
        partitions=document.integer("partitions"),
        keyless_in_turn=document.flag("keyless_in_turn"),
        sources=tuple(map(_source, document.children("sources"))),
    )


def _source(document: JsonObject) -> tuple[PartitionId, int]:
    partition_id = PartitionId(
        topic=document.text("topic"), topic_id=document.text("topic_id"), partition=document.integer("partition")
    )
    return partition_id, document.integer("end")
