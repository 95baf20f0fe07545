"""What a run remembers of the commit before, from round to round."""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite.services.cut.former_cut import FormerCut
from offsite.services.groups.snapshots import FormerGroups


@dataclass(frozen=True, slots=True)
class Former:
    """The groups and the cut that it has, each read once."""

    groups: FormerGroups = field(default_factory=FormerGroups)
    cut: FormerCut = field(default_factory=FormerCut)
