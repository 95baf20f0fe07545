"""Which stretches were compacted at once, as the last compaction left word: a hint, overwritten and never trusted.

The state of a backup says what was compacted, in as few spans as can be. When points are dropped, stretches become one,
and what was compacted in two pieces can become smaller still: that needs the pieces. Without the note, or with a wrong
one, a region is compacted too early or too late; what is left of it is right either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.copy.compaction.regions import Region
from offsite.log.range import Span
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.state import BackupState

Stretches = Mapping[PartitionId, tuple[Span, ...]]


def get_stretches(backup: Backup) -> Stretches:
    """The stretches that were compacted at once, of each partition; nothing where no word was left."""
    key = backup.layout.compaction_key
    try:
        data = backup.store.get(key)
        if data is None:
            return {}
        item = parse_json_object(data, source=key, damaged=DamagedObject)
        return {partition_from_json(each): _spans(each) for each in item.children("partitions")}
    except OffsiteError as error:
        noted("hint_unusable", what=key, why=error.message)
        return {}


def put_stretches(backup: Backup, regions: Iterable[Region]) -> None:
    """Leave word that the stretches of `regions` were compacted, each at once. Nothing depends on it, so nothing fails
    by it."""
    known = dict(get_stretches(backup))
    for region in regions:
        others = (span for span in known.get(region.partition, ()) if span[1] <= region.start or region.end <= span[0])
        known[region.partition] = tuple(sorted((*others, *region.stretches)))
    partitions: list[JsonValue] = [_to_json(partition, known[partition]) for partition in sorted(known)]
    try:
        data = encode_object({"format": FORMAT, "partitions": partitions})
        backup.store.put_overwrite(backup.layout.compaction_key, data)
    except OffsiteError as error:
        noted("no_note", what="what was compacted", why=error.message)


def clean_spans(state: BackupState, partition: PartitionId, known: Stretches) -> tuple[Span, ...]:
    """What of the partition was compacted at once, as far as it is known; the spans of the state where it is not."""
    pieces = known.get(partition, ())
    found: list[Span] = []
    for low, high in state.compacted.get(partition, ()):
        inside = [(max(low, start), min(high, end)) for start, end in pieces if start < high and low < end]
        found += inside or [(low, high)]
    return tuple(found)


def _to_json(partition: PartitionId, spans: Iterable[Span]) -> dict[str, JsonValue]:
    return {**partition_to_json(partition), "spans": [{"start": start, "end": end} for start, end in spans]}


def _spans(item: JsonObject) -> tuple[Span, ...]:
    return tuple((each.count("start"), each.count("end")) for each in item.children("spans"))
