"""Remembers state of the previous pass from round to round: its groups, its cut, and the partitions lately emptied.

The cut of the previous commit tells where transactions began that are still open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.groups.snapshots import PreviousGroups
from offsite.log.range import PartitionId
from offsite.log.transactions import OpenTransaction
from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.commit import SnapshotRef
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.repository.state import BackupState


class PreviousCut:
    """The cut of the previous commit, read once and kept for the rounds of a run that follows."""

    def __init__(self) -> None:
        self._ref: SnapshotRef | None = None
        self._cut = CommitCut()
        self._amid: tuple[str, CommitCut] | None = None

    def open_at(self, backup: Backup, base: BackupState) -> Mapping[PartitionId, Sequence[OpenTransaction]] | None:
        """The transactions open at the end of `base`; None: `base` has no usable cut."""
        if (former := self._get(backup, base)) is None:
            return None
        open_transactions: defaultdict[PartitionId, list[OpenTransaction]] = defaultdict(list)
        for transaction in former.open:
            first = transaction.first_offset
            open_transactions[transaction.partition_id].append(
                OpenTransaction(producer_id=transaction.producer_id, first_offset=first, last_offset=first)
            )
        return open_transactions

    def exactly_once(self, backup: Backup, base: BackupState) -> frozenset[str]:
        """The groups known to have committed in transactions up to `base`."""
        former = self._get(backup, base)
        if former is None and base.cuts:  # the previous commit was made amid a run, or has no cut
            former = self._read(backup, base.cuts[-1].ref)
        return frozenset(former.exactly_once) if former is not None else frozenset()

    def is_healed_by(self, cut: CommitCut | None, backup: Backup, base: BackupState) -> bool:
        """Whether `cut`, of the same ends, keeps transactions that the cut of `base` had to leave out. A producer that
        ended meanwhile may never write again, and no later commit would bring its last transaction back."""
        if cut is None or cut.refused:
            return False
        former = self._get(backup, base)
        is_hurt = former is not None and bool(
            former.refused or any(partition.markers for partition in former.partitions)
        )
        return former is not None and is_hurt and (former.refused, former.partitions) != (cut.refused, cut.partitions)

    def keep(self, ref: SnapshotRef, cut: CommitCut) -> None:
        self._ref, self._cut = ref, cut

    def keep_amid(self, base: BackupState, cut: CommitCut) -> None:
        """Keep `cut`, found for the ends of `base`; `base` is amid a run and has no cut."""
        self._amid = base.head_hash, cut

    def _get(self, backup: Backup, base: BackupState) -> CommitCut | None:
        if self._amid is not None and self._amid[0] == base.head_hash:
            return self._amid[1]
        return None if base.cut is None else self._read(backup, base.cut)

    def _read(self, backup: Backup, ref: SnapshotRef) -> CommitCut | None:
        if ref != self._ref:
            try:
                self.keep(ref, get_commit_cut(backup.store, ref))
            except DamagedObject:
                return None
        return self._cut


REMEMBERED_PASSES = 100
"""Kafka Streams deletes every 30 s, and a run that follows has a round every 10 s."""


@dataclass(frozen=True, slots=True)
class PassMemory:
    """The groups and the cut of the previous commit, both read once. `emptied_partitions`: partitions with records
    deleted at the source shortly before the copy, and the number of passes to remember a partition for."""

    groups: PreviousGroups = field(default_factory=PreviousGroups)
    cut: PreviousCut = field(default_factory=PreviousCut)
    emptied_partitions: dict[PartitionId, int] = field(default_factory=dict)

    def note_deletions(self, partitions: Iterable[PartitionId]) -> None:
        """Take the partitions in which a pass found holes."""
        for partition_id, passes in list(self.emptied_partitions.items()):
            self.emptied_partitions[partition_id] = passes - 1
            if passes == 1:
                del self.emptied_partitions[partition_id]
        self.emptied_partitions.update(dict.fromkeys(partitions, REMEMBERED_PASSES))
