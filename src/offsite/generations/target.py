"""The port into which a generation is read, and the comparison of two generations. A topic of a set that is not
compacted is named: a new generation lacks its older records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from offsite.archives.export.run import ExportResult
from offsite.backup.outages import Outages
from offsite.engine.runner import Runner
from offsite.follow.follower import Round
from offsite.generations.decision import CompletedEffect
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.log.range import PartitionId
from offsite.model.cleanup_policy import is_compacted
from offsite.model.clock import Clock
from offsite.model.selection import TopicSelection, drill_copies
from offsite.repository.removal import Announce
from offsite.repository.repository import Repository

GenerationEnds = Mapping[PartitionId, int]
"""(topic, topic id, partition) → the offset behind the last offset that a generation holds, above 0."""


class RoleChangedError(Exception):
    """The process may no longer write to the generation, by a newer decision."""


Guard = Callable[[], None]
"""Called when the predecessor of the next bytes is known, and before the bytes can count. Raises `RoleChangedError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """The result of a round. `at_end`: the round reached the end of every partition that its leader told in the round,
    and none was left out. `ends`: the contents by that time, as of commit `commit` (0 without commits). `topics`: name
    and id of all existing selected topics. `partitions`: the highest number of partitions of a topic."""

    at_end: bool
    ends: GenerationEnds
    topics: frozenset[tuple[str, str]]
    commit: int
    partitions: int


def _unheard(_: ExportResult) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The parts that an instance works with, and its callbacks."""

    repository: Repository
    cluster: Cluster
    runner: Runner
    outages: Outages
    clock: Clock
    collect_after_s: float
    on_round: Callable[[Round], None]
    on_effect: Callable[[CompletedEffect], None]
    on_export: Callable[[ExportResult], None] = _unheard


class GenerationTarget(Protocol):
    """Where generations lie, each in a place of its own for ever: numbers are not reused."""

    def uncompacted(self) -> Sequence[str]:
        """The topics to read that nobody can prove to be compacted."""

    def place_taken(self, generation: int) -> str:
        """The place of foreign contents in the place of a generation that has not begun; empty without contents."""

    def copy(self, generation: int, guard: Guard) -> RoundResult:
        """A round: read new records since the last round, from offset 0 on in the first."""

    def ends(self, generation: int) -> GenerationEnds:
        """The ends of a generation, as readable from its place; changes nothing."""

    def lost(self, old: int, new: int, topics: Collection[tuple[str, str]] | None = None) -> tuple[str, ...]:
        """What generation `old` holds and `new` lacks, compared key by key: a sentence each. `topics`: names and ids of
        the compared topics (None: all). May take as long as reading both."""

    def seal(self, generation: int) -> None:
        """Ensure that every process about to add to the generation fails. Repeatable."""

    def is_read(self, generation: int) -> bool:
        """Whether somebody is known to read the generation now."""

    def is_pinned(self, generation: int) -> bool:
        """Whether a person has pinned a restore point of the generation."""

    def disputed_pin(self, generation: int) -> str:
        """Why a removed pin still holds: its remover is not believed. Asked right before the generation goes; empty
        without such a pin."""

    def is_there(self, generation: int) -> bool:
        """Whether the first object of a removal still exists, so that nothing is gone yet."""

    def remove(self, generation: int, announce: Announce) -> bool:
        """Remove all of the generation, beginning with the object that proves the existence; False while a reader
        exists, and the rest has to wait. Repeatable, also after a crash."""

    def sweep(self, generation: int, announce: Announce, *, removed_ms: int) -> None:
        """Remove returned objects of a generation that was removed at `removed_ms`: a process may have been stopped for
        long before its last put."""


def lacking(new: GenerationEnds, old: GenerationEnds) -> tuple[str, ...]:
    """What `old` holds and `new` does not, in words."""
    lines = (
        f"{partition_id} up to offset {end}"
        + ("" if partition_id in new else " (another topic of that name, or deleted)")
        for partition_id, end in sorted(old.items())
        if new.get(partition_id, 0) < end
    )
    return tuple(lines)


def uncompacted(admin: ClusterAdmin, selection: TopicSelection) -> Sequence[str]:
    """The selected topics whose settings, with the cluster's defaults, do not name compaction or may not be read.
    Raises the errors of the cluster."""
    topics = admin.topics()
    internal = frozenset(name for name, topic in topics.items() if topic.internal)
    names = selection.select(topics, internal=internal, hidden=drill_copies(topics))
    configs = admin.readable_topic_configs(names, with_defaults=True).configs if names else {}
    return [name for name in names if not is_compacted(configs.get(name, {}))]
