"""The consistent cut of a commit as one small object beside it: the transactions that a restore leaves out, and the
reasons.

The commit names the object's key and hash. A cut equal to the previous one is not stored again. Its size is bounded by
the transactions near the ends, not by history. External participants declare their positions when a checkpoint is
taken: stored with the checkpoint, and with the cut compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

from offsite.log.range import PartitionId
from offsite.model.errors import DamagedObject
from offsite.model.names import named
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import SnapshotRef
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPosition:
    """The saved state has read one partition up to offset `end` (exclusive)."""

    topic: str
    partition: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} up to {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointParticipant:
    """A participant of a checkpoint, with its state saved. Without `positions` the participant reads no topic of the
    cluster. With `can_replay` the participant continues from its positions after a restore; otherwise it must stand at
    the cut's ends."""

    name: str
    can_replay: bool = False
    positions: tuple[DeclaredPosition, ...] = ()

    @property
    def described(self) -> str:
        """What a person should know about the participant before a restore."""
        if not self.positions:
            return f"{self.name}: own state, reads none of these topics"
        behaviour = "reads the rest again" if self.can_replay else "must be restored with the cut that ends there"
        return f"{self.name}: had read {named(list(map(str, self.positions)), most=_NAMED_MAX)} and {behaviour}"


def participants_to_json(participants: Iterable[CheckpointParticipant]) -> dict[str, JsonValue]:
    """The JSON field for the participants; no field without participants, as before participants existed."""
    documents: list[JsonValue] = [
        {
            "name": participant.name,
            "can_replay": participant.can_replay,
            "positions": [
                {"topic": at.topic, "partition": at.partition, "end": at.end} for at in participant.positions
            ],
        }
        for participant in participants
    ]
    return {_FIELD: documents} if documents else {}


def participants_from_json(document: JsonObject) -> tuple[CheckpointParticipant, ...]:
    """Raises errors of `document` for fields that differ from their stored form."""
    if _FIELD not in document.fields:
        return ()
    return tuple(
        CheckpointParticipant(
            name=participant.text("name"),
            can_replay=participant.flag("can_replay"),
            positions=tuple(_positions(participant)),
        )
        for participant in document.children(_FIELD)
    )


_FIELD = "participants"


def _positions(document: JsonObject) -> Iterable[DeclaredPosition]:
    for position in document.children("positions"):
        yield DeclaredPosition(topic=position.topic(), partition=position.partition(), end=position.count("end"))


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPartition:
    """A partition whose cut differs from the commit's own end. The cut ends at offset `end` (exclusive). Transactions
    with commit markers at the offsets `markers` (rising, below `end`) are left out, as if aborted. `floor`: the first
    offset with a possible record of such a transaction; `end` if none is left out."""

    partition_id: PartitionId
    end: int
    floor: int
    markers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutGroup:
    """The offset of a group in the cut, with the `metadata` committed with that offset, if the commit's group snapshot
    differs; -1: the group has no offset there."""

    group: str
    partition_id: PartitionId
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutTransactions:
    """One or more transactions of one producer left out by the cut. `name`: the transactional id, or `producer N`.
    `partitions`: the partitions written to, as `topic/partition`. `why`: one of `open`, `unfinished`, `order`, `read`.
    `because`: the missing partition, group or producer."""

    name: str
    partitions: tuple[str, ...]
    why: str
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAtEnd:
    """A transaction open at the commit's end, and the offset of its first record in the partition."""

    partition_id: PartitionId
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCut:
    """The consistent cut of a commit.

    `classes`: the class of each topic by name. `left_out` names at most the first hundred of `left_out_count`.
    `refused`: why the cut must not be used, empty if usable. `participants`: the participants whose positions the cut
    was compared with, and keeps. `behind`: groups below records deleted by the source before any backup, if known.
    `exactly_once`: groups seen to commit in transactions, now or earlier.
    """

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
    """Store `cut` for the commit after `base`. If `base` has an equal cut, its object is named again."""
    key = partial(BackupLayout(backup=base.backup).cuts_key, base.seq + 1)
    return put_named(store, encode_cut(cut), recorded=base.cut, key=key)


def get_commit_cut(store: Store, ref: SnapshotRef) -> CommitCut:
    """The cut named by a commit. Raises `DamagedObject` if the object is missing or differs from its hash,
    `FormatTooNew`."""
    return decode_cut(get_named(store, ref, damaged=_damaged), key=ref.key)


def encode_cut(cut: CommitCut) -> bytes:
    """The canonical bytes of `cut`."""
    return encode_object(
        {
            "format": FORMAT,
            "partitions": [_partition_to_json(partition) for partition in cut.partitions],
            "groups": [_group_to_json(group) for group in cut.groups],
            "classes": dict(cut.classes),
            "left_out": [_left_out_to_json(transactions) for transactions in cut.left_out],
            "left_out_count": cut.left_out_count,
            "open": [
                {
                    **partition_to_json(transaction.partition_id),
                    "producer_id": transaction.producer_id,
                    "first_offset": transaction.first_offset,
                }
                for transaction in cut.open
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
    document = parse_json_object(data, source=key, damaged=_damaged)
    return CommitCut(
        partitions=_parts(document, "partitions", _partition),
        groups=_parts(document, "groups", _group),
        classes=document.text_map("classes"),
        left_out=_parts(document, "left_out", _left_out),
        left_out_count=document.count("left_out_count"),
        open=_parts(document, "open", _open),
        notes=document.texts("notes"),
        refused=document.text("refused"),
        participants=participants_from_json(document),
        behind=_parts(document, "behind", _group),
        exactly_once=document.texts("exactly_once"),
    )


def _parts(document: JsonObject, name: str, read: Callable[[JsonObject], T]) -> tuple[T, ...]:
    return tuple(map(read, document.children(name)))


def _partition_to_json(partition: CutPartition) -> JsonValue:
    fields: dict[str, JsonValue] = {
        **partition_to_json(partition.partition_id),
        "end": partition.end,
        "floor": partition.floor,
    }
    return fields | {"markers": list(partition.markers)}


def _partition(document: JsonObject) -> CutPartition:
    end, markers = document.count("end"), document.integers("markers")
    floor = document.integer("floor", least=0, most=end)
    if not _is_rising((floor - 1, *markers, end)):
        raise document.wrong("markers", "rising offsets between floor and end")
    return CutPartition(partition_id=partition_from_json(document), end=end, floor=floor, markers=markers)


def _is_rising(offsets: Sequence[int]) -> bool:
    return all(low < high for low, high in pairwise(offsets))


def _group_to_json(group: CutGroup) -> JsonValue:
    fields: dict[str, JsonValue] = {"group": group.group, **partition_to_json(group.partition_id)}
    fields["offset"] = group.offset
    return fields | ({"metadata": group.metadata} if group.metadata else {})


def _group(document: JsonObject) -> CutGroup:
    return CutGroup(
        group=document.text("group"),
        partition_id=partition_from_json(document),
        offset=document.integer("offset"),
        metadata=document.optional_text("metadata") or "",
    )


def _left_out_to_json(transactions: LeftOutTransactions) -> JsonValue:
    partitions: list[JsonValue] = list(transactions.partitions)
    return {
        "name": transactions.name,
        "partitions": partitions,
        "why": transactions.why,
        "because": transactions.because,
    }


def _left_out(document: JsonObject) -> LeftOutTransactions:
    return LeftOutTransactions(
        name=document.text("name"),
        partitions=document.texts("partitions"),
        why=document.text("why"),
        because=document.text("because"),
    )


def _open(document: JsonObject) -> OpenAtEnd:
    return OpenAtEnd(
        partition_id=partition_from_json(document),
        producer_id=document.integer("producer_id"),
        first_offset=document.count("first_offset"),
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore what was copied (--cut as-copied), or another commit (--commit)")
