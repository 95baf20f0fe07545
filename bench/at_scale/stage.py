"""A stage of Spark, event by event: tasks take slots in order, share what is limited, and end; the driver commits.

A task needs so many seconds of a slot, and of each resource an amount, evenly over that time. While the tasks that run
want more of a resource than there is, all of them are slowed down alike: one virtual clock tells how far each is, and a
heap of ends on that clock is all that is needed. Pure and deterministic.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

CORES, CHAIN, COMMITS = "cores", "the longest chains", "commits"
"""What bounds a stage beside its resources: all slots are taken; slots are free, and what runs cannot be shared; the
driver, which has not caught up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A task of Spark, or a train of some, one after the other in one slot: seconds of the slot, bytes of the log, the
    segments that they become, `uses` of resources by name."""

    slot_s: float
    size_bytes: int
    segments: int = 0
    uses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """When a driver commits, as `CommitThresholds` has it, and what a commit takes of it, in seconds:
    `search_s(brought)` of the segments that the pass has brought in all, for which the next one waits, and
    `write_s(new)` of those since the last one."""

    search_s: Callable[[int], float]
    write_s: Callable[[int], float]
    every_bytes: float
    every_s: float
    times_longer: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """`copied_s`: when the last task ended; `seconds`: when the last commit was there. `commit_s`: what all commits
    took of the driver, `search_s` of it to find what is new; `unsaved_s`: the longest time from one to the next;
    `most_new`: segments of the largest.
    `bound_s`: seconds by what bounded the stage meanwhile. `curve`: seconds and bytes that had been moved by then."""

    seconds: float
    copied_s: float
    slot_s: float
    size_bytes: int
    commits: int
    commit_s: float
    search_s: float
    unsaved_s: float
    most_new: int
    bound_s: Mapping[str, float]
    curve: Sequence[tuple[float, int]]

    @property
    def bound_by(self) -> str:
        return max(self.bound_s, key=lambda name: self.bound_s[name], default="")


def run_stage(
    works: Iterable[Work], *, slots: int, limits: Mapping[str, float], committing: Committing | None = None
) -> Ran:
    """`limits`: units a second of each resource."""
    return _Stage(works, slots, limits, committing).run()


class _Stage:
    def __init__(
        self, works: Iterable[Work], slots: int, limits: Mapping[str, float], committing: Committing | None
    ) -> None:
        self._waiting, self._limits = deque(works), limits
        self._free: int = slots
        self._running: list[tuple[float, int, Work]] = []
        self._wanted = dict.fromkeys(limits, 0.0)
        self._now_s = self._clock_s = 0.0
        self._driver = None if committing is None else _Driver(committing)
        self._bound_s: dict[str, float] = defaultdict(float)
        self._slot_s, self._size_bytes, self._number = 0.0, 0, 0
        self._curve: list[tuple[float, int]] = [(0.0, 0)]

    def run(self) -> Ran:
        self._start()
        while self._running:
            self._advance()
            self._start()
        seconds = self._now_s if self._driver is None else self._driver.finish(self._now_s)
        if seconds > self._now_s:
            self._bound_s[COMMITS] += seconds - self._now_s
        return Ran(
            seconds=seconds,
            copied_s=self._now_s,
            slot_s=self._slot_s,
            size_bytes=self._size_bytes,
            commits=0 if self._driver is None else self._driver.commits,
            commit_s=0 if self._driver is None else self._driver.commit_s,
            search_s=0 if self._driver is None else self._driver.search_s,
            unsaved_s=0 if self._driver is None else self._driver.unsaved_s,
            most_new=0 if self._driver is None else self._driver.most_new,
            bound_s=dict(self._bound_s),
            curve=self._curve,
        )

    def _start(self) -> None:
        while self._free and self._waiting:
            work = self._waiting.popleft()
            self._free -= 1
            self._number += 1
            heappush(self._running, (self._clock_s + work.slot_s, self._number, work))
            self._want(work, 1)

    def _advance(self) -> None:
        """To the end of the next train."""
        end_s, _, work = heappop(self._running)
        speed, name = self._speed()
        took_s = (end_s - self._clock_s) / speed
        self._now_s += took_s
        self._clock_s = end_s
        self._bound_s[name] += took_s
        self._want(work, -1)
        self._free += 1
        self._slot_s += work.slot_s
        self._size_bytes += work.size_bytes
        self._curve.append((self._now_s, self._size_bytes))
        if self._driver is not None:
            self._driver.take(self._now_s, work)

    def _speed(self) -> tuple[float, str]:
        """How fast tasks run, 1 at most, and what bounds them."""
        speed, name = 1.0, CHAIN if self._free else CORES
        for each, wanted in self._wanted.items():
            if wanted > 0 and self._limits[each] / wanted < speed:
                speed, name = self._limits[each] / wanted, each
        return speed, name

    def _want(self, work: Work, sign: int) -> None:
        for name in self._wanted:
            self._wanted[name] += sign * work.uses.get(name, 0.0) / work.slot_s


class _Driver:
    """One thread that takes outcomes and commits, while tasks go on."""

    def __init__(self, committing: Committing) -> None:
        self._committing = committing
        self._free_s = self._since_s = self._searched_s = 0.0
        self._brought = self._new = self._new_bytes = 0
        self.commits = self.most_new = 0
        self.commit_s = self.search_s = self.unsaved_s = 0.0

    def take(self, now_s: float, work: Work) -> None:
        """What ends while a commit is made is taken when it is there."""
        self._free_s = max(self._free_s, now_s)
        self._brought, self._new = self._brought + work.segments, self._new + work.segments
        self._new_bytes += work.size_bytes
        if self._is_due():
            self._commit()

    def _is_due(self) -> bool:
        every, waited_s = self._committing, self._free_s - self._since_s
        is_time = self._new_bytes >= every.every_bytes or waited_s >= every.every_s
        return is_time and waited_s >= every.times_longer * self._searched_s

    def finish(self, now_s: float) -> float:
        """When the commit that completes the pass is there."""
        self._free_s = max(self._free_s, now_s)
        self._commit()
        return self._free_s

    def _commit(self) -> None:
        self._searched_s = self._committing.search_s(self._brought)
        took_s = self._searched_s + self._committing.write_s(self._new)
        self._free_s += took_s
        self.unsaved_s = max(self.unsaved_s, self._free_s - self._since_s)
        self.most_new = max(self.most_new, self._new)
        self._since_s, self._new, self._new_bytes = self._free_s, 0, 0
        self.commits, self.commit_s = self.commits + 1, self.commit_s + took_s
        self.search_s += self._searched_s
