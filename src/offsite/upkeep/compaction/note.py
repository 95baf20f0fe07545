"""A note of the stretches compacted at once by the last compaction: a hint, overwritten and never trusted.

The state of a backup records compacted data in the smallest number of spans. When points are dropped, stretches become
adjacent, and two pieces compacted separately can shrink further together: that requires the pieces. Without the note,
or with a wrong note, a region is compacted too early or too late; the result is right either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.log.range import Span
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.state import BackupState
from offsite.upkeep.compaction.copy.regions import Region

Stretches = Mapping[PartitionId, tuple[Span, ...]]


def get_stretches(backup: Backup) -> Stretches:
    """The stretches compacted at once, of each partition; empty without a note."""
    key = backup.layout.compaction_key
    try:
        data = backup.store.get(key)
        if data is None:
            return {}
        document = parse_json_object(data, source=key, damaged=DamagedObject)
        return {partition_from_json(partition): _spans(partition) for partition in document.children("partitions")}
    except OffsiteError as error:
        noted("hint_unusable", what=key, why=error.message)
        return {}


def put_stretches(backup: Backup, regions: Iterable[Region]) -> None:
    """Note the compacted stretches of `regions`, each compacted at once. A failure is logged and ignored."""
    stretches = dict(get_stretches(backup))
    for region in regions:
        untouched = (
            span for span in stretches.get(region.partition, ()) if span[1] <= region.start or region.end <= span[0]
        )
        stretches[region.partition] = tuple(sorted((*untouched, *region.stretches)))
    partitions: list[JsonValue] = [_to_json(partition, stretches[partition]) for partition in sorted(stretches)]
    try:
        data = encode_object({"format": FORMAT, "partitions": partitions})
        backup.store.put_overwrite(backup.layout.compaction_key, data)
    except OffsiteError as error:
        noted("no_note", what="what was compacted", why=error.message)


def clean_spans(state: BackupState, partition: PartitionId, stretches: Stretches) -> tuple[Span, ...]:
    """The parts of the partition compacted at once, if known; else the spans of the state."""
    pieces = stretches.get(partition, ())
    clean: list[Span] = []
    for low, high in state.compacted.get(partition, ()):
        inside = [(max(low, start), min(high, end)) for start, end in pieces if start < high and low < end]
        clean += inside or [(low, high)]
    return tuple(clean)


def _to_json(partition: PartitionId, spans: Iterable[Span]) -> dict[str, JsonValue]:
    return {**partition_to_json(partition), "spans": [{"start": start, "end": end} for start, end in spans]}


def _spans(document: JsonObject) -> tuple[Span, ...]:
    return tuple((span.count("start"), span.count("end")) for span in document.children("spans"))
