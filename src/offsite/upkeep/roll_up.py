"""Rolls up a backup: a commit replaces small segments by large segments and changes nothing else.

A backup that follows its topics adds a small segment to every busy partition in every round. Roll-ups go by size
classes, as in log-structured stores: `FAN_IN` neighbours of one class become one segment of the next class. Every byte
is written only a few times, however long the backup runs, and a partition has dozens of small segments, not thousands.
Segments that lie in a pack for long are taken out sooner: a pack can be deleted only when nothing in the pack is
needed.

The data of restore points stays the same: the present segments serve the data. Replaced objects stay for readers with
earlier plans, and are collected later (see `upkeep.collection`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from offsite.backup.copy import SMALL_BYTES, BackupEnds, paced_destination
from offsite.engine import meter
from offsite.engine.runner import Done, Runner, job_named
from offsite.log.range import LogRange, PartitionId, Span
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.names import amount
from offsite.model.options import CompressionChoice
from offsite.model.uninterrupted import uninterrupted
from offsite.model.units import KIB, MIB
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.layout import parse_pack_key
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES, ObjectSink, SegmentWriter
from offsite.repository.state import BackupState, segment_partition

FAN_IN = 16
CROWD = 4
"""The multiple of `FAN_IN` segments of any classes that may stand in a row. Fewer would write bytes more often."""
CLASSES = (256 * KIB, 4 * MIB, 64 * MIB)
"""Raw bytes at which one size class ends and the next begins; larger segments are never rolled up."""
PACKED_FOR_MS = 24 * 3_600_000
"""How long a segment may lie in a pack, by the times of commits. An older segment gets an object of its own."""
STEP_BYTES = 256 * MIB
"""Approximate raw bytes of a step: rounds of the backup wait for the step."""
IN_TURN = 100
"""Partitions that every round examines in turn."""
TURN_S = 6 * 3600.0
"""Seconds from one turn of all partitions to the next."""
_SUMS = ("records", "control_batches", "batches", "raw_bytes")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUp:
    """Neighbours that become one segment, in an object of its own (`alone`) or in a pack."""

    segments: tuple[Segment, ...]
    alone: bool

    @property
    def log_range(self) -> LogRange:
        first = self.segments[0]
        return LogRange(topic=first.topic, partition=first.partition, start=first.start, end=self.segments[-1].end)

    @property
    def raw_bytes(self) -> int:
        return sum(segment.raw_bytes for segment in self.segments)


def find_roll_ups(
    segments: Sequence[Segment],
    *,
    holes: Iterable[Span] = (),
    borders: Collection[int] = (),
    is_old: Callable[[Segment], bool] = lambda _: False,
) -> Iterator[RollUp]:
    """The due roll-ups of one partition's segments, given in order. `holes`: the partition's holes; `borders`: offsets
    that no segment may lie over; `is_old`: whether a segment has lain in its pack for too long."""
    for run in _neighbours(segments, sorted(holes), borders):
        if stretch := next(filter(None, (_of_class(run, number) for number in range(len(CLASSES)))), None):
            yield RollUp(segments=stretch, alone=sum(segment.raw_bytes for segment in stretch) >= SMALL_BYTES)
        else:
            yield from _out_of_packs(run, is_old)


def _of_class(run: Sequence[Segment], number: int) -> tuple[Segment, ...]:
    """The first stretch of `run` without a segment above class `number` and with enough segments of the class; smaller
    segments between are included."""
    stretch: list[Segment] = []
    size_bytes = 0
    for segment in run:
        is_full = size_bytes + segment.raw_bytes > TARGET_SEGMENT_BYTES
        if _class(segment) > number or is_full:
            # A full stretch is final, of whatever classes: the next segment could not join.
            if _is_enough(stretch, number) or (is_full and len(stretch) >= FAN_IN):
                return tuple(stretch)
            stretch, size_bytes = [], 0
        if _class(segment) <= number:
            stretch.append(segment)
            size_bytes += segment.raw_bytes
    return tuple(stretch) if _is_enough(stretch, number) else ()


def _is_enough(stretch: Sequence[Segment], number: int) -> bool:
    """Enough segments of the class, or a crowd of smaller segments between a few of the class: the class may never
    reach `FAN_IN`."""
    return sum(_class(segment) == number for segment in stretch) >= FAN_IN or len(stretch) >= CROWD * FAN_IN


def _class(segment: Segment) -> int:
    return bisect_right(CLASSES, segment.raw_bytes)


def _out_of_packs(run: Sequence[Segment], is_old: Callable[[Segment], bool]) -> Iterator[RollUp]:
    """Takes the segments from the first to the last old one out of packs, including the segments between: otherwise
    small segments would stay behind."""
    old = [
        number
        for number, segment in enumerate(run)
        if segment.pack is not None and segment.whole is None and is_old(segment)
    ]
    if old:
        chosen = run[old[0] : old[-1] + 1]
        if sum(segment.raw_bytes for segment in chosen) <= TARGET_SEGMENT_BYTES:
            yield RollUp(segments=tuple(chosen), alone=True)
        else:
            yield from (RollUp(segments=(run[number],), alone=True) for number in old)


def _neighbours(
    segments: Sequence[Segment], holes: Sequence[Span], borders: Collection[int]
) -> Iterator[Sequence[Segment]]:
    """Stretches of segments that may become one: of one form, end to end, without a hole between or inside."""
    first = 0
    for number, (earlier, later) in enumerate(pairwise(segments), 1):
        if earlier.end in borders or not _may_join(earlier, later, holes):
            yield segments[first:number]
            first = number
    if segments:
        yield segments[first:]


def _may_join(earlier: Segment, later: Segment, holes: Sequence[Span]) -> bool:
    if earlier.whole is not None or later.whole is not None:
        return False  # the log was cut back inside the segment: an older history needs the segment as well
    if (
        earlier.compression is not later.compression
        or earlier.end != later.start
        or earlier.last_offset >= later.first_offset
    ):
        return False
    if later.first_offset < later.start or earlier.last_offset >= earlier.end:
        return False  # only a part of its batch counts
    return not any(low < later.first_offset and earlier.last_offset < high for low, high in holes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpShare:
    """Roll-ups of one worker, carried out in order; `packed`: their segments share an object."""

    roll_ups: tuple[RollUp, ...]
    packed: bool


def deal_roll_ups(roll_ups: Sequence[RollUp], *, slots: int) -> tuple[RollUpShare, ...]:
    """`roll_ups` as tasks: roll-ups that stand alone, and the remaining ones dealt out to `slots` workers."""
    small = [roll_up for roll_up in roll_ups if not roll_up.alone]
    alone = [RollUpShare(roll_ups=(roll_up,), packed=False) for roll_up in roll_ups if roll_up.alone]
    shares = [tuple(small[first::slots]) for first in range(slots)]
    return (*alone, *(RollUpShare(roll_ups=share, packed=True) for share in shares if share))


def roll_up_all(task: RollUpShare, *, ends: BackupEnds, base: int) -> tuple[Segment | None, ...]:
    """Store the segments of every roll-up as one segment; the new segments count when a commit lists them instead. None
    for a roll-up with damaged segments: the remaining roll-ups continue. `base`: the newest commit. Raises the errors
    of the store.

    The batches are copied unchanged, and checked on the way. Only the object's own frames are new: frames of a few
    kilobytes neither compress nor seek well. Holes stay holes: segments on two sides of a hole are never joined.
    """
    store, _ = paced_destination(ends.store)
    if not task.packed:
        return tuple(_if_sound(roll_up, ends, store) for roll_up in task.roll_ups)
    with PackWriter(store, ends.layout.pack_key(base, random_id())) as pack:
        segments = [_if_sound(roll_up, ends, pack) for roll_up in task.roll_ups]
        pack.close()
        return tuple(segment and pack.with_places([segment])[0] for segment in segments)


def _if_sound(roll_up: RollUp, ends: BackupEnds, into: ObjectSink) -> Segment | None:
    try:
        return _rolled_up(roll_up, ends, into)
    except Damaged as error:
        warned("roll_up_failed", why=error.message, error=error.id)
        return None


def _rolled_up(roll_up: RollUp, ends: BackupEnds, into: ObjectSink) -> Segment:
    first = roll_up.segments[0]
    writer = SegmentWriter(
        store=into,
        layout=ends.layout,
        log_range=roll_up.log_range,
        topic_id=first.topic_id,
        compression=CompressionChoice(first.compression.value),
        target_bytes=2 * TARGET_SEGMENT_BYTES,
    )
    with writer:
        for segment in roll_up.segments:
            for chunk in meter.count_items(SegmentReader(store=ends.store, segment=segment).chunks()):
                writer.append(chunk)
        (joined,) = writer.close()
    _check_same(roll_up, joined)
    return joined


def _check_same(roll_up: RollUp, joined: Segment) -> None:
    """Compare the sums before and after: readers may overlook missing batches, the sums do not."""
    sources = roll_up.segments
    expected = [sum(getattr(segment, name) for segment in sources) for name in _SUMS]
    actual = [getattr(joined, name) for name in _SUMS]
    if expected != actual or (joined.first_offset, joined.last_offset) != (
        sources[0].first_offset,
        sources[-1].last_offset,
    ):
        raise DamagedObject(
            f"{joined.key} would hold {actual} of {', '.join(_SUMS)} but its parts have {expected}",
            hint="run: offsite verify --deep",
        )
