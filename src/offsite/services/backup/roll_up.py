"""Rolls up a backup: a commit replaces small segments by large segments and changes nothing else.

The data of restore points stays the same: the present segments serve the data. Replaced objects stay for readers with
earlier plans, and are collected later (see `services.collect`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.copy.backup import BackupEnds
from offsite.copy.roll_up import FAN_IN, RollUp, dealt, find_roll_ups, roll_up_all
from offsite.log.range import Span
from offsite.model.clock import Clock
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.named import amount
from offsite.model.size import MIB
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, PartitionId
from offsite.repository.layout import parse_pack_key
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition
from offsite.spark.job_name import job_named
from offsite.spark.runner import Done, Runner

PACKED_FOR_MS = 24 * 3_600_000
"""How long a segment may lie in a pack, by the times of commits. An older segment gets an object of its own."""
STEP_BYTES = 256 * MIB
"""Approximate raw bytes of a step: rounds of the backup wait for the step."""
IN_TURN = 100
"""Partitions that every round examines in turn."""
TURN_S = 6 * 3600.0
"""Seconds from one turn of all partitions to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledUp:
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

    def note(self, known: PartitionId) -> None:
        """Note a segment that was added to a partition."""
        self._new[known] += 1

    def put_back(self, partitions: Iterable[PartitionId]) -> None:
        """Note partitions to examine next: the step had no room for them, or made segments in them."""
        for known in partitions:
            self._new[known] += FAN_IN

    def chosen(self, state: BackupState) -> list[PartitionId]:
        """The partitions to examine now."""
        if not self._in_turn and self._clock.monotonic_s() >= self._next_turn_s:
            self._in_turn.extend(sorted(state.segments))
            self._next_turn_s = self._clock.monotonic_s() + TURN_S
        found = {known for known, count in self._new.items() if count >= FAN_IN}
        for known in found:
            del self._new[known]
        found.update(self._in_turn.popleft() for _ in range(min(IN_TURN, len(self._in_turn))))
        return sorted(found & state.segments.keys())


def roll_up_step(  # noqa: PLR0913  # all by keyword but what is rolled up
    backup: Backup,
    state: BackupState,
    partitions: Sequence[PartitionId],
    *,
    runner: Runner,
    ends: BackupEnds,
    watch: RollUpWatch | None = None,
) -> RolledUp | None:
    """Roll up the due segments in `partitions` of `state`, the newest state, but at most a step; None when nothing is
    due. An unreadable segment stays unchanged, with a log line. `watch` notes partitions without room in the step.
    Raises `CommitLost` when another writer was first."""
    chosen = list(_step(due_roll_ups(state, partitions)))
    if watch is not None and sum(each.raw_bytes for each in chosen) >= STEP_BYTES:
        last = segment_partition(chosen[-1].segments[0])
        watch.put_back(known for known in partitions if known > last)  # but not what may be damaged
    tasks = dealt(chosen, slots=runner.slots)
    if not tasks:
        return None
    made: list[Segment] = []
    removed: list[str] = []
    with job_named(f"roll up {backup.layout.backup}: {amount(len(chosen), 'segment')}"):
        outcomes = runner.run_all(tasks, partial(roll_up_all, ends=ends, base=state.seq))
    for task, outcome in zip(tasks, outcomes, strict=True):
        if not isinstance(outcome, Done):
            warned("roll_up_failed", why=outcome.error.message, error=outcome.error.id)
            continue
        for roll_up, segment in zip(task.roll_ups, outcome.value, strict=True):
            if segment is not None:
                made.append(segment)
                removed += [each.key for each in roll_up.segments]
    if not made:
        return None
    decided("roll_up", segments=len(removed), into=len(made), why="small neighbours")
    changes = state.carried_over(Changes(segments=tuple(made), removed=tuple(removed)))
    with uninterrupted():
        after = backup.commit(changes, base=state, writer=random_id(16))
    if watch is not None:
        watch.put_back(map(segment_partition, made))  # the new segments may complete a class
    return RolledUp(segments=len(removed), into=len(made), bytes=sum(each.raw_bytes for each in made), state=after)


def due_roll_ups(state: BackupState, partitions: Iterable[PartitionId]) -> Iterator[RollUp]:
    """All roll-ups that are due in `partitions`, in order."""
    wanted = set(partitions)
    holes: dict[PartitionId, list[Span]] = {}
    for hole in state.holes:
        if hole.partition_id in wanted:
            holes.setdefault(hole.partition_id, []).append((hole.start, hole.end))
    oldest = _newest_too_old(state)
    for known in sorted(wanted):
        found = state.segments.get(known)
        yield from find_roll_ups(
            found.read() if found else (),
            holes=holes.get(known, ()),
            borders=state.borders(known),
            is_old=partial(_is_old, oldest),
        )


def _newest_too_old(state: BackupState) -> int:
    """The newest commit older than the time for which packs may be needed."""
    found = state.history.latest_at(state.committed_at_ms - PACKED_FOR_MS)
    return found.seq if found else 0


def _is_old(newest: int, segment: Segment) -> bool:
    begun = parse_pack_key(segment.pack or "")
    return begun is not None and begun < newest


def _step(roll_ups: Iterator[RollUp]) -> Iterator[RollUp]:
    size_bytes = 0
    for each in roll_ups:
        yield each
        size_bytes += each.raw_bytes
        if size_bytes >= STEP_BYTES:
            return
