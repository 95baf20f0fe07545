"""What a run remembers of the commit before, from round to round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from offsite.repository.commit import PartitionId
from offsite.services.cut.former_cut import FormerCut
from offsite.services.groups.snapshots import FormerGroups

REMEMBERED_PASSES = 100
"""Kafka Streams deletes every 30 s, and a run that follows goes round every 10 s."""


@dataclass(frozen=True, slots=True)
class Former:
    """The groups and the cut that it has, each read once. `emptied`: the partitions of which the source has deleted
    records lately, before they were copied, and for how many more passes that is remembered."""

    groups: FormerGroups = field(default_factory=FormerGroups)
    cut: FormerCut = field(default_factory=FormerCut)
    emptied: dict[PartitionId, int] = field(default_factory=dict)

    def note_deletions(self, partitions: Iterable[PartitionId]) -> None:
        """Take the partitions in which a pass has found holes."""
        for known, passes in list(self.emptied.items()):
            self.emptied[known] = passes - 1
            if passes == 1:
                del self.emptied[known]
        self.emptied.update(dict.fromkeys(partitions, REMEMBERED_PASSES))
