"""How the planners cut a world into tasks, without making a plan of a range for each.

The rules are those of `backup/copy_plan.py`, `backup/copy.py`, `restore/write/bundle.py` and
`restore/compare/partition.py`, with their
constants; `tests/worlds/bench/test_cutting.py` holds them against the planners themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from offsite.backup import copy as backup_bundle
from offsite.backup.copy_plan import TASK_BYTES_MAX, TASK_BYTES_MIN, TASKS_MAX, TASKS_PER_SLOT
from offsite.backup.plan import PACKED_FROM
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES
from offsite.restore.compare import partition as proof_bundle
from offsite.restore.write import bundle as restore_bundle

Sizes = Sequence[tuple[int, int]]
"""Bytes of partitions, and how many have so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """`number` tasks of Spark that are alike: each moves `size_bytes`, in `small` small ranges or partitions and
    `large` others."""

    number: int
    size_bytes: int
    large: int = 0
    small: int = 0

    @property
    def full_segments(self) -> int:
        """Segments of what is large in one of them, as a first backup cuts it."""
        return max(self.large, -(-self.size_bytes // TARGET_SEGMENT_BYTES)) if self.large else 0

    @property
    def segments(self) -> int:
        """Segments of one of them: a small range has one of its own, if in a pack."""
        return self.full_segments + self.small

    def trains(self, length: int) -> Iterator[Tasks]:
        """The same in parts of `length` tasks at most."""
        for first in range(0, self.number, length):
            yield Tasks(
                number=min(length, self.number - first),
                size_bytes=self.size_bytes,
                large=self.large,
                small=self.small,
            )


def backup_tasks(sizes: Sizes, *, slots: int, packed_from: int = PACKED_FROM) -> list[Tasks]:
    """Those of a first backup, the large ones first."""
    total = sum(size * number for size, number in sizes)
    most = max(TASK_BYTES_MAX, total // TASKS_MAX)
    task_bytes = min(most, max(TASK_BYTES_MIN, total // (slots * TASKS_PER_SLOT)))
    ranges = [_cut(size, number, task_bytes) for size, number in sizes]
    small = [each for each in ranges if each.size_bytes < backup_bundle.SMALL_BYTES]
    count, small_bytes = sum(each.number for each in small), sum(each.number * each.size_bytes for each in small)
    if count < packed_from:
        return ranges
    needed = max(
        slots * backup_bundle.BUNDLES_PER_SLOT,
        -(-(small_bytes + count * backup_bundle.RANGE_BYTES) // backup_bundle.BUNDLE_BYTES_MAX),
    )
    bundles = max(1, min(needed, count // 2))
    large = [each for each in ranges if each.size_bytes >= backup_bundle.SMALL_BYTES]
    return [*large, *_shared(small_bytes, count, bundles)]


def restore_tasks(sizes: Sizes, *, slots: int) -> list[Tasks]:
    """Those of a restore: up to four chains in one task, dealt out by size; the hand with the largest first."""
    chains = sorted(_each(sizes), reverse=True)
    large = [size for size in chains if size >= restore_bundle.SMALL_BYTES]
    rounds = -(-len(large) // (slots * restore_bundle.TOGETHER_MAX))
    hands = min(rounds * slots, len(large))
    dealt = (large[first::hands] for first in range(hands))
    tasks = [Tasks(number=1, size_bytes=sum(hand), large=len(hand)) for hand in dealt]
    return [*tasks, *_small(chains[len(large) :], slots, restore_bundle.SMALL_MAX)]


def proof_tasks(sizes: Sizes, *, slots: int) -> list[Tasks]:
    """Those of a proof: a large partition each, in the order of their names; the largest is put in the middle."""
    large = [(size, number) for size, number in sizes if size >= proof_bundle.SMALL_BYTES]
    alone = [Tasks(number=number, size_bytes=size, large=1) for size, number in large]
    middle = len(alone) // 2
    small = [size for size in _each(sizes) if size < proof_bundle.SMALL_BYTES]
    return [*alone[1:middle], *alone[:1], *alone[max(1, middle) :], *_small(small, slots, proof_bundle.SMALL_MAX)]


def _cut(size: int, number: int, task_bytes: int) -> Tasks:
    count = max(1, round(size / task_bytes))
    small = size // count < backup_bundle.SMALL_BYTES
    return Tasks(number=number * count, size_bytes=size // count, large=int(not small), small=int(small))


def _small(sizes: Sequence[int], slots: int, most: int) -> Iterator[Tasks]:
    return _shared(sum(sizes), len(sizes), max(min(slots, len(sizes)), -(-len(sizes) // most)))


def _shared(size_bytes: int, count: int, hands: int) -> Iterator[Tasks]:
    """`count` small ones in `hands` tasks: some of them have one more."""
    if not count:
        return
    each, more = divmod(count, hands)
    for number, held in ((more, each + 1), (hands - more, each)):
        if number:
            yield Tasks(number=number, size_bytes=size_bytes * held // count, small=held)


def _each(sizes: Sizes) -> Iterable[int]:
    return (size for size, number in sizes for _ in range(number))
