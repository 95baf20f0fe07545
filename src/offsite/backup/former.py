"""Remembers state of the previous pass from round to round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from offsite.backup.cut.former_cut import PreviousCut
from offsite.groups.snapshots import PreviousGroups
from offsite.repository.commit import PartitionId

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
