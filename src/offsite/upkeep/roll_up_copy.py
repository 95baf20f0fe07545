"""Joins small neighbouring segments into large ones: decided here from the list of a state, carried out in a worker.

A backup that follows its topics adds a small segment to every busy partition in every round. Roll-ups go by size
classes, as in log-structured stores: `FAN_IN` neighbours of one class become one segment of the next class. Every byte
is written only a few times, however long the backup runs, and a partition has dozens of small segments, not thousands.
Segments that lie in a pack for long are taken out sooner: a pack can be deleted only when nothing in the pack is
needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsite.backup.bundle import SMALL_BYTES
from offsite.backup.copy import BackupEnds, paced_destination
from offsite.engine import meter
from offsite.log.range import LogRange, Span
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.model.options import CompressionChoice
from offsite.model.units import KIB, MIB
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES, ObjectSink, SegmentWriter

FAN_IN = 16
CROWD = 4
"""The multiple of `FAN_IN` segments of any classes that may stand in a row. Fewer would write bytes more often."""
CLASSES = (256 * KIB, 4 * MIB, 64 * MIB)
"""Raw bytes at which one size class ends and the next begins; larger segments are never rolled up."""


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


_SUMS = ("records", "control_batches", "batches", "raw_bytes")
