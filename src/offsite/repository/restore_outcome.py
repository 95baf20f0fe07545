"""How a restore ended: `report.json`, written once, as its last object. A restore without it is unfinished.

Says of each restored partition which part of the backup went where, so that it can be compared again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedObject
from offsite.repository.commit import PartitionId
from offsite.repository.json_object import FORMAT, JsonObject, JsonValue, encode_canonical, parse_json_object
from offsite.repository.restore_layout import RestoreLayout
from offsite.repository.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """What of `source` lies below `source_end` went to `target`, from `target_start` on: at its own offsets, or
    gap-free. `digest` is that of the proof (see `pipeline.lockstep`), empty where there was none."""

    source: PartitionId
    source_end: int
    target: TopicPartition
    target_start: int
    same_offsets: bool
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOutcome:
    """`verified` is None when nothing was compared; `findings` are the first difference of each partition."""

    records: int
    size_bytes: int
    verified: bool | None
    findings: tuple[str, ...]
    partitions: tuple[RestoredPartition, ...]


def put_outcome(store: Store, layout: RestoreLayout, outcome: RestoreOutcome) -> None:
    """End the restore: from now on it is finished."""
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "records": outcome.records,
        "bytes": outcome.size_bytes,
        "verified": outcome.verified,
        "findings": list(outcome.findings),
        "partitions": [_fields(each) for each in outcome.partitions],
    }
    store.put_if_absent(layout.report_key, encode_canonical(fields))


def get_outcome(store: Store, layout: RestoreLayout) -> RestoreOutcome | None:
    """None while the restore has not ended. Raises `DamagedObject`, `FormatTooNew`."""
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
    )


def _fields(each: RestoredPartition) -> Mapping[str, JsonValue]:
    return {
        "topic": each.source.topic,
        "topic_id": each.source.topic_id,
        "partition": each.source.partition,
        "end": each.source_end,
        "target": each.target.topic,
        "target_partition": each.target.partition,
        "target_start": each.target_start,
        "same_offsets": each.same_offsets,
        "digest": each.digest,
    }


def _partition(item: JsonObject) -> RestoredPartition:
    return RestoredPartition(
        source=PartitionId(
            topic=item.text("topic"), topic_id=item.text("topic_id"), partition=item.integer("partition")
        ),
        source_end=item.integer("end"),
        target=TopicPartition(topic=item.text("target"), partition=item.integer("target_partition")),
        target_start=item.integer("target_start"),
        same_offsets=item.flag("same_offsets"),
        digest=item.text("digest"),
    )
