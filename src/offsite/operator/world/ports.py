"""The ports of reconcilers beside stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from offsite.operator.decide.seen import ObservedAgents
from offsite.operator.decide.wanted import DesiredAgents, RepositoryPlace
from offsite.stores.store import Store

OpenStore = Callable[[RepositoryPlace], Store]
"""Open the store of a place with the credentials of its account. Raises `BadResource`, `BadRepositoryUrl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """The facts about a backup in a repository. `is_whole`: a commit held all topics of the backup once. Restorable
    points: commit (0: none) and time (epoch ms, -1: none). `partial_ms`: the last time the pass under way made
    progress. `left_behind`: partitions that the newest run could not back up, with error ids; empty: none."""

    is_whole: bool = False
    oldest_commit: int = 0
    oldest_ms: int = -1
    latest_commit: int = 0
    latest_ms: int = -1
    partial_ms: int = -1
    left_behind: str = ""


class FactsReader(Protocol):
    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        """Return the facts about the backup of that name; empty facts if the backup does not exist yet. `place`: the
        place of `store`; two places may have one URL. Raises the errors of reading a backup."""


class AgentRuntime(Protocol):
    """The processes that copy, of all resources of a home."""

    def observe(self, uid: str) -> ObservedAgents: ...

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        """Run the agents as configured; None: run no agents. Returns before the change takes effect."""
