"""The consistent cut of a commit as one small object beside it: the transactions that a restore leaves out, and the
reasons.

The commit names the object's key and hash. A cut equal to the previous one is not stored again. Its size is bounded by
the transactions near the ends, not by history. External participants declare their positions when a checkpoint is
taken: stored with the checkpoint, and with the cut compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated

from offsite.model.errors import DamagedObject
from offsite.model.names import named
from offsite.model.untrusted.json_codec import Count, First, Nullable, PartitionNumber, Spare, TopicName
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.commit import InlinePartition, SnapshotRef
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPosition:
    """The saved state has read one partition up to offset `end` (exclusive)."""

    topic: TopicName
    partition: PartitionNumber
    end: Count

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


def _check_rising(document: JsonObject, _: str) -> None:
    end, markers = document.count("end"), document.integers("markers")
    floor = document.integer("floor", least=0, most=end)
    if not all(low < high for low, high in pairwise((floor - 1, *markers, end))):
        raise document.wrong("markers", "rising offsets between floor and end")


_RISING = First(_check_rising)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPartition:
    """A partition whose cut differs from the commit's own end. The cut ends at offset `end` (exclusive). Transactions
    with commit markers at the offsets `markers` (rising, below `end`) are left out, as if aborted. `floor`: the first
    offset with a possible record of such a transaction; `end` if none is left out."""

    partition_id: InlinePartition
    end: int
    floor: int
    markers: Annotated[tuple[int, ...], _RISING] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutGroup:
    """The offset of a group in the cut, with the `metadata` committed with that offset, if the commit's group snapshot
    differs; -1: the group has no offset there."""

    group: str
    partition_id: InlinePartition
    offset: int
    metadata: Nullable[Spare[str]] = ""


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

    partition_id: InlinePartition
    producer_id: int
    first_offset: Count


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
    left_out_count: Count = 0
    open: tuple[OpenAtEnd, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    participants: Spare[tuple[CheckpointParticipant, ...]] = ()
    behind: Spare[tuple[CutGroup, ...]] = ()
    exactly_once: Spare[tuple[str, ...]] = ()


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore what was copied (--cut as-copied), or another commit (--commit)")


COMMIT_CUT = StoredForm(CommitCut, damaged=_damaged)


def put_commit_cut(store: Store, base: BackupState, cut: CommitCut) -> SnapshotRef:
    """Store `cut` for the commit after `base`. If `base` has an equal cut, its object is named again."""
    key = partial(BackupLayout(backup=base.backup).cuts_key, base.seq + 1)
    return put_named(store, COMMIT_CUT.encode(cut), recorded=base.cut, key=key)


def get_commit_cut(store: Store, ref: SnapshotRef) -> CommitCut:
    """The cut named by a commit. Raises `DamagedObject` if the object is missing or differs from its hash,
    `FormatTooNew`."""
    return COMMIT_CUT.decode(get_named(store, ref, damaged=_damaged), key=ref.key)
