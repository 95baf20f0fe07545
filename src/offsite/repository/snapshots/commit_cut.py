"""The consistent cut of a commit as one small object beside it: what a restore leaves out, and why.

The commit names its key and the hash of its bytes. A cut that is as the one before is not stored again. Bounded by the
transactions near the ends, never by history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import PartitionId, SnapshotRef
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.repository.snapshots.participant import (
    CheckpointParticipant,
    participants_from_json,
    participants_to_json,
)
from offsite.repository.state import BackupState
from offsite.stores.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPartition:
    """Where the cut is not the commit's own end: it ends at offset `end` (exclusive), and the transactions whose commit
    markers lie at the offsets `markers` (rising, below `end`) are left out as if they had been aborted. `floor`: the
    first offset that such a transaction may have a record at; `end` where none is left out."""

    partition_id: PartitionId
    end: int
    floor: int
    markers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutGroup:
    """The offset of a group that belongs to the cut, with the `metadata` that the group committed with that offset,
    where the commit's own snapshot of groups has others; -1: the group has none there."""

    group: str
    partition_id: PartitionId
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutTransactions:
    """One or more transactions of one producer that the cut leaves out. `name`: its transactional id, or `producer N`.
    `partitions`: those it wrote to, as `topic/partition`. `why`: one of `open`, `unfinished`, `order`, `read`, and
    `because`: the partition, group or producer that it lacked."""

    name: str
    partitions: tuple[str, ...]
    why: str
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAtEnd:
    """A transaction that was open where the commit ends, and the offset of its first record in the partition."""

    partition_id: PartitionId
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCut:
    """The consistent cut of a commit. `classes`: the class of each topic by name. `left_out` names at most the first
    hundred of `left_out_count`. `refused` says why the cut must not be used, and is empty where it may. `participants`:
    whose positions it was held against, and keeps. `behind`: groups below records that the source had deleted before
    they could be read, where that is known. `exactly_once`: groups that were seen to commit in transactions, now or
    before."""

    partitions: tuple[CutPartition, ...] = ()
    groups: tuple[CutGroup, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()
    left_out: tuple[LeftOutTransactions, ...] = ()
    left_out_count: int = 0
    open: tuple[OpenAtEnd, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    participants: tuple[CheckpointParticipant, ...] = ()
    behind: tuple[CutGroup, ...] = ()
    exactly_once: tuple[str, ...] = ()


def put_commit_cut(store: Store, base: BackupState, cut: CommitCut) -> SnapshotRef:
    """Store `cut` for the commit that follows `base`, unless `base` has the same: then that object is named again."""
    key = partial(BackupLayout(backup=base.backup).cuts_key, base.seq + 1)
    return put_named(store, encode_cut(cut), known=base.cut, key=key)


def get_commit_cut(store: Store, ref: SnapshotRef) -> CommitCut:
    """The cut that a commit names. Raises `DamagedObject` when it is missing or not what was stored, `FormatTooNew`."""
    return decode_cut(get_named(store, ref, damaged=_damaged), key=ref.key)


def encode_cut(cut: CommitCut) -> bytes:
    """The one byte form of `cut`."""
    return encode_object(
        {
            "format": FORMAT,
            "partitions": [_partition_to_json(each) for each in cut.partitions],
            "groups": [_group_to_json(group) for group in cut.groups],
            "classes": dict(cut.classes),
            "left_out": [_left_out_to_json(each) for each in cut.left_out],
            "left_out_count": cut.left_out_count,
            "open": [
                {
                    **partition_to_json(each.partition_id),
                    "producer_id": each.producer_id,
                    "first_offset": each.first_offset,
                }
                for each in cut.open
            ],
            "notes": list(cut.notes),
            "refused": cut.refused,
            **participants_to_json(cut.participants),
            **({"behind": [_group_to_json(group) for group in cut.behind]} if cut.behind else {}),
            **({"exactly_once": list(cut.exactly_once)} if cut.exactly_once else {}),
        }
    )


def decode_cut(data: bytes, *, key: str) -> CommitCut:
    """The cut in an object. Raises `DamagedObject`, `FormatTooNew`."""
    item = parse_json_object(data, source=key, damaged=_damaged)
    return CommitCut(
        partitions=_parts(item, "partitions", _partition),
        groups=_parts(item, "groups", _group),
        classes=item.text_map("classes"),
        left_out=_parts(item, "left_out", _left_out),
        left_out_count=item.count("left_out_count"),
        open=_parts(item, "open", _open),
        notes=item.texts("notes"),
        refused=item.text("refused"),
        participants=participants_from_json(item),
        behind=_parts(item, "behind", _group),
        exactly_once=item.texts("exactly_once"),
    )


def _parts(item: JsonObject, name: str, read: Callable[[JsonObject], T]) -> tuple[T, ...]:
    return tuple(map(read, item.children(name)))


def _partition_to_json(each: CutPartition) -> JsonValue:
    known: dict[str, JsonValue] = {**partition_to_json(each.partition_id), "end": each.end, "floor": each.floor}
    return known | {"markers": list(each.markers)}


def _partition(item: JsonObject) -> CutPartition:
    end, markers = item.count("end"), item.integers("markers")
    floor = item.integer("floor", least=0, most=end)
    if not _is_rising((floor - 1, *markers, end)):
        raise item.wrong("markers", "rising offsets between floor and end")
    return CutPartition(partition_id=partition_from_json(item), end=end, floor=floor, markers=markers)


def _is_rising(offsets: Sequence[int]) -> bool:
    return all(low < high for low, high in pairwise(offsets))


def _group_to_json(group: CutGroup) -> JsonValue:
    fields: dict[str, JsonValue] = {"group": group.group, **partition_to_json(group.partition_id)}
    fields["offset"] = group.offset
    return fields | ({"metadata": group.metadata} if group.metadata else {})


def _group(item: JsonObject) -> CutGroup:
    return CutGroup(
        group=item.text("group"),
        partition_id=partition_from_json(item),
        offset=item.integer("offset"),
        metadata=item.optional_text("metadata") or "",
    )


def _left_out_to_json(each: LeftOutTransactions) -> JsonValue:
    partitions: list[JsonValue] = list(each.partitions)
    return {"name": each.name, "partitions": partitions, "why": each.why, "because": each.because}


def _left_out(item: JsonObject) -> LeftOutTransactions:
    return LeftOutTransactions(
        name=item.text("name"), partitions=item.texts("partitions"), why=item.text("why"), because=item.text("because")
    )


def _open(item: JsonObject) -> OpenAtEnd:
    return OpenAtEnd(
        partition_id=partition_from_json(item),
        producer_id=item.integer("producer_id"),
        first_offset=item.count("first_offset"),
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore what was copied (--cut as-copied), or another commit (--commit)")
