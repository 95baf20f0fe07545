"""The observed state of a declared backup: in repositories, and of its processes."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.repository.declared.history import BackupPhase, LowLevelBackup


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLowLevel:
    """One low-level backup. `is_whole`: a commit held all topics of the backup once, so a restore is possible.
    `is_copied`: an agent holds the backup now. `oldest_*`, `latest_*`: oldest and latest restorable point, commit (0:
    none) and time (epoch ms, -1: none). `partial_ms`: time of the newest commit of a pass under way. `well_ms`: last
    known progress, and `quiet_ms`: time since then, while the backup runs; both by the store's clock. `outage`: error
    that the agent waits out since then. `ahead`: times in the future, not believed. `left_behind`: partitions missing
    in the newest commit, with reasons. `missing`: topics that the source does not have. `problem`: why nothing else is
    known; empty if the backup was read."""

    place: RepositoryPlace
    low: LowLevelBackup
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
        """Whether the backup copies, or will copy, all records of the source for the first time."""
        return self.is_live and not self.is_whole

    @property
    def copies_first(self) -> bool:
        """Whether the backup makes its initial copy now: decided to run, or still held by an agent."""
        return not self.is_whole and (self.low.phase is BackupPhase.RUNNING or self.is_copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAgents:
    """`configured`: the configuration of the last start; None: no agents. `ready`: number of running agents. `problem`:
    why they may not reach their cluster as declared; empty: nothing is known."""

    configured: DesiredAgents | None = None
    ready: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBackup:
    """`backups`: low-level backups with objects left, of all repositories, in the order of ledgers, oldest first.
    `removed_ms`: time of the last removal, by the store's clock; 0: none."""

    backups: tuple[ObservedLowLevel, ...] = ()
    agents: ObservedAgents = ObservedAgents()
    removed_ms: int = 0

    @property
    def live(self) -> ObservedLowLevel | None:
        """The newest low-level backup that runs or is paused."""
        return next((backup for backup in reversed(self.backups) if backup.is_live), None)
