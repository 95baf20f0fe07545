"""What reconcilers ask of the world beside stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from offsite.operator.decide.seen import AgentsSeen
from offsite.operator.decide.wanted import AgentsWanted, Place
from offsite.stores.store import Store

OpenStore = Callable[[Place], Store]
"""The store of a place, with its account's credentials. Raises `BadResource`, `BadRepositoryUrl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What a backup in a repository holds. `is_whole`: a commit held all of its topics once. Restorable points: commit
    (0: none) and time (epoch ms, -1: none). `partial_ms`: when the pass under way was seen to get on last.
    `left_behind`: partitions that the newest run could not back up, and the ids of the errors; empty for none."""

    is_whole: bool = False
    oldest_commit: int = 0
    oldest_ms: int = -1
    latest_commit: int = 0
    latest_ms: int = -1
    partial_ms: int = -1
    left_behind: str = ""


class Facts(Protocol):
    def of(self, place: Place, store: Store, backup: str) -> BackupFacts:
        """What the backup of that name holds; nothing where there is none yet. `place`: where `store` is; two may
        have one URL. Raises what reading one raises."""


class Agents(Protocol):
    """The processes that copy, of all resources of a home."""

    def seen(self, uid: str) -> AgentsSeen: ...

    def configure(self, uid: str, agents: AgentsWanted | None) -> None:
        """Let so many run, for that; None: let none run any more. Returns before they do."""
