"""What was seen of a declared backup: in the repositories, and of its processes."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.operator.decide.wanted import AgentsWanted, Place
from offsite.repository.declared.history import LowLevel, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLevelSeen:
    """One low-level backup. `is_whole`: a commit of it held all of its topics once, so one can restore from it.
    `is_copied`: an agent has it in hand now. Oldest and latest restorable point: commit (0: none) and time (epoch ms,
    -1: none), and the time of the newest commit of a pass under way. `well_ms`: when it was last known to go on,
    `quiet_ms`: how long ago that is, while it runs, both by the store's clock; `outage`: what its agent waits out
    since; `ahead`: what is dated in the future, and not believed. `left_behind`: partitions that its newest commit
    lacks, and why; `missing`: topics that its source does not have. `problem`: why nothing else is known of it; empty
    where it was read."""

    place: Place
    low: LowLevel
    is_whole: bool = False
    is_copied: bool = False
    oldest_commit: int = 0
    oldest_ms: int = -1
    latest_commit: int = 0
    latest_ms: int = -1
    partial_ms: int = -1
    well_ms: int = 0
    quiet_ms: int = 0
    outage: str = ""
    ahead: str = ""
    left_behind: str = ""
    missing: str = ""
    problem: str = ""

    @property
    def is_live(self) -> bool:
        return self.low.phase.is_live

    @property
    def is_initial(self) -> bool:
        """Whether it copies, or will, what the source holds for the first time."""
        return self.is_live and not self.is_whole

    @property
    def copies_first(self) -> bool:
        """Whether it is in its initial copy now: decided to run, or still in the hands of an agent."""
        return not self.is_whole and (self.low.phase is Phase.RUNNING or self.is_copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSeen:
    """`configured`: what they were last started for; None: there are none. `ready`: so many of them run."""

    configured: AgentsWanted | None = None
    ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSeen:
    """`backups`: the low-level ones of which something is left, of all repositories, older ones first as ledgers tell;
    `removed_ms`: when the last one was removed, by the store's clock, 0 for none."""

    backups: tuple[LowLevelSeen, ...] = ()
    agents: AgentsSeen = AgentsSeen()
    removed_ms: int = 0

    @property
    def live(self) -> LowLevelSeen | None:
        """The newest one that runs or is paused."""
        return next((each for each in reversed(self.backups) if each.is_live), None)
