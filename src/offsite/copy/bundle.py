"""Many small ranges as one task: a thousand tasks of a few records each would cost a thousand times what a task costs,
and a thousand small objects.

Ranges that are large enough to be worth it stay tasks of their own, with segments that are objects. The small ones are
dealt out into bundles; the segments of a bundle share one object (see `segments.pack`) where there are many small ones.
In a bundle a range that cannot be copied spares the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol

from offsite.copy.backup import BackupEnds, BackupReceipt, RangeReads, begun_reads, copy_range, paced
from offsite.copy.plan import OF_ONE_PARTITION, CopyTask
from offsite.log.range import TopicPartition
from offsite.model.errors import Denied, KafkaUnavailable, LeaderUnavailable
from offsite.model.ids import random_id
from offsite.model.journal import safe_trace
from offsite.model.named import named
from offsite.model.size import MIB
from offsite.repository.segments.pack import PackWriter
from offsite.spark.runner import Done, Failed

SMALL_BYTES = 4 * MIB
"""A range of fewer bytes is small: its put costs about as much as its bytes."""
SMALL_OFFSETS = 10_000
"""A range of so many offsets is small where sizes are not known."""
BUNDLE_BYTES_MAX = 32 * MIB
"""What the ranges of a bundle weigh, about: a bundle that fails is tried again as a whole."""
RANGE_BYTES = BUNDLE_BYTES_MAX // 500
"""What a range weighs besides its bytes, for it takes a few milliseconds: 500 empty ones make a bundle."""
BUNDLES_PER_SLOT = 1
AHEAD = 2
"""Ranges of a bundle whose first fetch is sent before their turn: each has a connection of its own until then."""
SILENT_MAX = 2
"""Partitions of a bundle that may each end in minutes of waiting for their brokers."""

Copied = Done[BackupReceipt] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBundle:
    """Ranges that one worker copies, one after the other; their places in the plan; and whether their segments share
    an object."""

    numbers: tuple[int, ...]
    tasks: tuple[CopyTask, ...]
    packed: bool

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)

    @property
    def title(self) -> str:
        return named([str(task.range.topic_partition) for task in self.tasks], most=1, of="ranges")


def bundled(tasks: Sequence[CopyTask], *, slots: int, packed_from: int) -> tuple[CopyBundle, ...]:
    """`tasks` as bundles, the large ones first and in their order. `slots`: how many bundles can run at once;
    `packed_from`: as many small ranges share objects."""
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
    """Round by round, as many bundles as run at once, and in a round in turn, as cards are: tasks of a plan go round
    the partitions, so each bundle asks all leaders, and at any time about the beginning of the plan has ended, which
    can be committed. All rounds weigh the same, wherever in the plan the larger ones stand."""
    weights = list(accumulate(tasks[number].estimated_bytes + RANGE_BYTES for number in small))
    count = max(1, min(max(slots * BUNDLES_PER_SLOT, -(-weights[-1] // BUNDLE_BYTES_MAX)), len(small) // 2))
    begin = 0
    for first in range(0, count, slots):
        at_once = min(slots, count - first)
        end = bisect_left(weights, weights[-1] * (first + at_once) // count) + 1
        for place in range(begin, min(begin + at_once, end)):
            numbers = tuple(small[place:end:at_once])
            packed = len(numbers) > 1  # of one range alone, a pack would be an object that nothing else reads
            yield CopyBundle(numbers=numbers, tasks=tuple(tasks[n] for n in numbers), packed=packed)
        begin = end


class CopyOne(Protocol):
    """The copy of one range, such as `copy_range`."""

    def __call__(
        self, task: CopyTask, *, ends: BackupEnds, pack: PackWriter | None = None, reads: RangeReads | None = None
    ) -> BackupReceipt: ...


class BeginOne(Protocol):
    """The beginning of the copy of one range, such as `begun_reads`."""

    def __call__(self, task: CopyTask, *, ends: BackupEnds, pack: PackWriter) -> RangeReads | None: ...


def copy_bundle(
    bundle: CopyBundle, *, ends: BackupEnds, base: int, copy: CopyOne = copy_range, begin: BeginOne = begun_reads
) -> tuple[Copied, ...]:
    """Copy the ranges, and return the outcome of each. `base`: the newest commit when the run began. Raises what is not
    about one range: then nothing of the bundle counts."""
    if not bundle.packed:
        return tuple(Done(value=copy(task, ends=ends)) for task in bundle.tasks)
    with PackWriter(paced(ends.store)[0], ends.layout.pack_key(base, random_id())) as pack:
        outcomes = tuple(_all_copied(bundle, ends, pack, copy, begin))
        pack.close()
    return outcomes


def _all_copied(
    bundle: CopyBundle, ends: BackupEnds, pack: PackWriter, copy: CopyOne, begin: BeginOne
) -> Iterator[Copied]:
    """A broker that dies amid a round takes hundreds of ranges with it, and each would wait for minutes: after a few,
    the others are left to the next run, which knows what is out before it begins."""
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
        hint="run again: it goes on from there",
    )
    return Failed(error=error, trace="")


def _begun_ahead(
    tasks: Sequence[CopyTask], begin: Callable[[CopyTask], RangeReads | None]
) -> Iterator[tuple[CopyTask, RangeReads | None]]:
    """Each task with its reads, of which the first fetches were sent while the tasks before were copied: most of the
    time of a small range would be waiting for its only answer."""
    ahead: deque[tuple[CopyTask, RangeReads | None]] = deque()
    for task in tasks:
        ahead.append((task, begin(task)))
        if len(ahead) > AHEAD:
            yield ahead.popleft()
    yield from ahead


def _copied(task: CopyTask, ends: BackupEnds, pack: PackWriter, copy: CopyOne, reads: RangeReads | None) -> Copied:
    try:
        return Done(value=copy(task, ends=ends, pack=pack, reads=reads))
    except (*OF_ONE_PARTITION, Denied) as error:
        return Failed(error=error, trace=safe_trace(error))
