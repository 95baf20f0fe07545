"""Many small ranges as one task: a thousand tasks of a few records would cost a thousand times the fixed cost of a
task, and a thousand small objects.

A large range stays a task of its own, and its segments are objects. Small ranges are dealt out into bundles. With many
small ranges, the segments of a bundle share one object (see `segments.pack`). A range that cannot be copied does not
stop the rest of its bundle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol

from offsite.backup.copy import BackupEnds, BackupReceipt, RangeReads, copy_range, paced_destination, start_reads
from offsite.backup.copy_plan import PARTITION_ERRORS, CopyTask
from offsite.engine.runner import Done, Failed
from offsite.log.range import TopicPartition
from offsite.model.errors import Denied, KafkaUnavailable, LeaderUnavailable
from offsite.model.ids import random_id
from offsite.model.journal import safe_trace
from offsite.model.names import named
from offsite.model.units import MIB
from offsite.repository.segments.pack import PackWriter

SMALL_BYTES = 4 * MIB
"""A range of fewer bytes is small: its put costs about as much as its bytes."""
SMALL_OFFSETS = 10_000
"""A range of fewer offsets is small when sizes are unknown."""
BUNDLE_BYTES_MAX = 32 * MIB
"""The approximate weight of the ranges of a bundle: a bundle that fails is tried again as a whole."""
RANGE_BYTES = BUNDLE_BYTES_MAX // 500
"""The weight of a range besides its bytes, for its few milliseconds: 500 empty ranges make a bundle."""
BUNDLES_PER_SLOT = 1
AHEAD = 2
"""Ranges of a bundle with a first fetch sent before their turn: such a range holds a connection of its own."""
SILENT_MAX = 2
"""Partitions of a bundle that may end in minutes of waiting for their brokers."""

CopyOutcome = Done[BackupReceipt] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBundle:
    """Ranges that one worker copies, in order. `numbers`: their indexes in the plan. `packed`: their segments share an
    object."""

    numbers: tuple[int, ...]
    tasks: tuple[CopyTask, ...]
    packed: bool

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)

    @property
    def title(self) -> str:
        return named([str(task.range.topic_partition) for task in self.tasks], most=1, of="ranges")


def bundle_copies(tasks: Sequence[CopyTask], *, slots: int, packed_from: int) -> tuple[CopyBundle, ...]:
    """`tasks` as bundles, the large ranges first and in their order. `slots`: number of bundles that can run at once;
    `packed_from`: number of small ranges from which on small ranges share objects."""
    small = [number for number, task in enumerate(tasks) if is_small(task)]
    if len(small) < packed_from:
        return tuple(CopyBundle(numbers=(n,), tasks=(task,), packed=False) for n, task in enumerate(tasks))
    is_dealt = set(small)
    alone = [CopyBundle(numbers=(n,), tasks=(task,), packed=False) for n, task in enumerate(tasks) if n not in is_dealt]
    return (*alone, *_dealt(tasks, small, slots))


def is_small(task: CopyTask) -> bool:
    if task.estimated_bytes == 0:
        return len(task.range) < SMALL_OFFSETS
    return task.estimated_bytes < SMALL_BYTES


def _dealt(tasks: Sequence[CopyTask], small: Sequence[int], slots: int) -> Iterator[CopyBundle]:
    """Deal the small ranges out, in rounds of `slots` bundles, and in turns within a round, like cards.

    Tasks of a plan go round the partitions: every bundle asks all leaders. The start of the plan ends first at any
    time, and can be committed. All rounds weigh the same, wherever the larger ranges stand in the plan.
    """
    weights = list(accumulate(tasks[number].estimated_bytes + RANGE_BYTES for number in small))
    count = max(1, min(max(slots * BUNDLES_PER_SLOT, -(-weights[-1] // BUNDLE_BYTES_MAX)), len(small) // 2))
    begin = 0
    for first in range(0, count, slots):
        at_once = min(slots, count - first)
        end = bisect_left(weights, weights[-1] * (first + at_once) // count) + 1
        for place in range(begin, min(begin + at_once, end)):
            numbers = tuple(small[place:end:at_once])
            packed = len(numbers) > 1  # a pack with one range would be an object without any other use
            yield CopyBundle(numbers=numbers, tasks=tuple(tasks[n] for n in numbers), packed=packed)
        begin = end


class CopyRange(Protocol):
    """The copy of one range, such as `copy_range`."""

    def __call__(
        self, task: CopyTask, *, ends: BackupEnds, pack: PackWriter | None = None, reads: RangeReads | None = None
    ) -> BackupReceipt: ...


class StartReads(Protocol):
    """Starts the reads of one range, such as `start_reads`."""

    def __call__(self, task: CopyTask, *, ends: BackupEnds, pack: PackWriter) -> RangeReads | None: ...


def copy_bundle(
    bundle: CopyBundle, *, ends: BackupEnds, base: int, copy: CopyRange = copy_range, begin: StartReads = start_reads
) -> tuple[CopyOutcome, ...]:
    """Copy the ranges, and return the outcomes in order. `base`: the newest commit when the run began. Raises errors
    that do not concern one range; nothing of the bundle counts in such a case."""
    if not bundle.packed:
        return tuple(Done(value=copy(task, ends=ends)) for task in bundle.tasks)
    with PackWriter(paced_destination(ends.store)[0], ends.layout.pack_key(base, random_id())) as pack:
        outcomes = tuple(_all_copied(bundle, ends, pack, copy, begin))
        pack.close()
    return outcomes


def _all_copied(
    bundle: CopyBundle, ends: BackupEnds, pack: PackWriter, copy: CopyRange, begin: StartReads
) -> Iterator[CopyOutcome]:
    """A broker that dies during a round affects hundreds of ranges, and every range would wait for minutes. After
    `SILENT_MAX` silent partitions the rest is left to the next run: it knows the missing brokers before it begins."""
    silent: set[TopicPartition] = set()
    for task, reads in _begun_ahead(bundle.tasks, partial(begin, ends=ends, pack=pack)):
        if len(silent) >= SILENT_MAX:
            yield _not_tried(task, len(silent))
            continue
        outcome = _copied(task, ends, pack, copy, reads)
        if isinstance(outcome, Failed) and isinstance(outcome.error, KafkaUnavailable):
            silent.add(task.range.topic_partition)
        yield outcome


def _not_tried(task: CopyTask, silent: int) -> Failed:
    error = LeaderUnavailable(
        f"{task.range.topic_partition} was not tried: {silent} partitions before it did not answer",
        hint="run again: the backup continues from there",
    )
    return Failed(error=error, trace="")


def _begun_ahead(
    tasks: Sequence[CopyTask], begin: Callable[[CopyTask], RangeReads | None]
) -> Iterator[tuple[CopyTask, RangeReads | None]]:
    """Tasks with their reads, in order. The first fetches are sent while earlier tasks are copied: otherwise a small
    range would spend most of its time waiting for its only answer."""
    ahead: deque[tuple[CopyTask, RangeReads | None]] = deque()
    for task in tasks:
        ahead.append((task, begin(task)))
        if len(ahead) > AHEAD:
            yield ahead.popleft()
    yield from ahead


def _copied(
    task: CopyTask, ends: BackupEnds, pack: PackWriter, copy: CopyRange, reads: RangeReads | None
) -> CopyOutcome:
    try:
        return Done(value=copy(task, ends=ends, pack=pack, reads=reads))
    except (*PARTITION_ERRORS, Denied) as error:
        return Failed(error=error, trace=safe_trace(error))
