"""Rolls up a backup: a commit replaces small segments by large segments and changes nothing else.

The data of restore points stays the same: the present segments serve the data. Replaced objects stay for readers with
earlier plans, and are collected later (see `upkeep.collection`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.backup.copy import BackupEnds
from offsite.engine.runner import Done, Runner, job_named
from offsite.log.range import PartitionId, Span
from offsite.model.clock import Clock
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.names import amount
from offsite.model.uninterrupted import uninterrupted
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.layout import parse_pack_key
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition
from offsite.upkeep.roll_up_copy import FAN_IN, RollUp, deal_roll_ups, find_roll_ups, roll_up_all

PACKED_FOR_MS = 24 * 3_600_000
"""How long a segment may lie in a pack, by the times of commits. An older segment gets an object of its own."""
STEP_BYTES = 256 * MIB
"""Approximate raw bytes of a step: rounds of the backup wait for the step."""
IN_TURN = 100
"""Partitions that every round examines in turn."""
TURN_S = 6 * 3600.0
"""Seconds from one turn of all partitions to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpResult:
    """A step of a roll-up: `into` segments, of `bytes` in the log, replaced `segments` segments; `state` contains the
    commit."""

    segments: int
    into: int
    bytes: int
    state: BackupState


class RollUpWatch:
    """Chooses the partitions to examine: partitions with enough new segments, and all partitions in turn, a few at a
    time, so that old segments in packs are found within a day. Examining all partitions of a large backup at once would
    delay its rounds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._new: Counter[PartitionId] = Counter()
        self._in_turn: deque[PartitionId] = deque()
        self._next_turn_s = clock.monotonic_s()

    def note(self, partition_id: PartitionId) -> None:
        """Note a segment that was added to a partition."""
        self._new[partition_id] += 1

    def put_back(self, partitions: Iterable[PartitionId]) -> None:
        """Note partitions to examine next: the step had no room for them, or made segments in them."""
        for partition_id in partitions:
            self._new[partition_id] += FAN_IN

    def chosen(self, state: BackupState) -> list[PartitionId]:
        """The partitions to examine now."""
        if not self._in_turn and self._clock.monotonic_s() >= self._next_turn_s:
            self._in_turn.extend(sorted(state.segments))
            self._next_turn_s = self._clock.monotonic_s() + TURN_S
        due = {partition_id for partition_id, count in self._new.items() if count >= FAN_IN}
        for partition_id in due:
            del self._new[partition_id]
        due.update(self._in_turn.popleft() for _ in range(min(IN_TURN, len(self._in_turn))))
        return sorted(due & state.segments.keys())


def roll_up_step(  # noqa: PLR0913  # all by keyword but what is rolled up
    backup: Backup,
    state: BackupState,
    partitions: Sequence[PartitionId],
    *,
    runner: Runner,
    ends: BackupEnds,
    watch: RollUpWatch | None = None,
) -> RollUpResult | None:
    """Roll up the due segments in `partitions` of `state`, the newest state, but at most a step; None when nothing is
    due. An unreadable segment stays unchanged, with a log line. `watch` notes partitions without room in the step.
    Raises `CommitLost` when another writer was first."""
    chosen = list(_step(due_roll_ups(state, partitions)))
    if watch is not None and sum(roll_up.raw_bytes for roll_up in chosen) >= STEP_BYTES:
        last = segment_partition(chosen[-1].segments[0])
        watch.put_back(
            partition_id for partition_id in partitions if partition_id > last
        )  # but not what may be damaged
    tasks = deal_roll_ups(chosen, slots=runner.slots)
    if not tasks:
        return None
    large_segments: list[Segment] = []
    removed: list[str] = []
    with job_named(f"roll up {backup.layout.backup}: {amount(len(chosen), 'segment')}"):
        outcomes = runner.run_all(tasks, partial(roll_up_all, ends=ends, base=state.seq))
    for task, outcome in zip(tasks, outcomes, strict=True):
        if not isinstance(outcome, Done):
            warned("roll_up_failed", why=outcome.error.message, error=outcome.error.id)
            continue
        for roll_up, segment in zip(task.roll_ups, outcome.value, strict=True):
            if segment is not None:
                large_segments.append(segment)
                removed += [small_segment.key for small_segment in roll_up.segments]
    if not large_segments:
        return None
    decided("roll_up", segments=len(removed), into=len(large_segments), why="small neighbours")
    changes = state.carry_over(CommitChanges(segments=tuple(large_segments), removed=tuple(removed)))
    with uninterrupted():
        after = backup.commit(changes, base=state, writer=random_id(16))
    if watch is not None:
        watch.put_back(map(segment_partition, large_segments))  # the new segments may complete a class
    return RollUpResult(
        segments=len(removed),
        into=len(large_segments),
        bytes=sum(segment.raw_bytes for segment in large_segments),
        state=after,
    )


def due_roll_ups(state: BackupState, partitions: Iterable[PartitionId]) -> Iterator[RollUp]:
    """All roll-ups that are due in `partitions`, in order."""
    selected = set(partitions)
    holes: dict[PartitionId, list[Span]] = {}
    for hole in state.holes:
        if hole.partition_id in selected:
            holes.setdefault(hole.partition_id, []).append((hole.start, hole.end))
    oldest = _newest_too_old(state)
    for partition_id in sorted(selected):
        segments = state.segments.get(partition_id)
        yield from find_roll_ups(
            segments.read() if segments else (),
            holes=holes.get(partition_id, ()),
            borders=state.borders(partition_id),
            is_old=partial(_is_old, oldest),
        )


def _newest_too_old(state: BackupState) -> int:
    """The newest commit older than the time for which packs may be needed."""
    commit = state.history.latest_at(state.committed_at_ms - PACKED_FOR_MS)
    return commit.seq if commit else 0


def _is_old(newest: int, segment: Segment) -> bool:
    pack_commit = parse_pack_key(segment.pack or "")
    return pack_commit is not None and pack_commit < newest


def _step(roll_ups: Iterator[RollUp]) -> Iterator[RollUp]:
    size_bytes = 0
    for roll_up in roll_ups:
        yield roll_up
        size_bytes += roll_up.raw_bytes
        if size_bytes >= STEP_BYTES:
            return
