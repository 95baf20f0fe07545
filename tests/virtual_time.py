"""The time of tests: a clock that passes when it is told to, and one scheduler for all worlds that seeds play.

What happens in a world follows from its seed alone: `Scheduler` has all that is left to chance, the queue of what is to
happen, and the trace of what did.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from random import Random

START_MS = 1_700_000_000_000


class VirtualClock:
    """A clock that agrees with the wall: time passes when somebody sleeps, and when it is told to. `epoch_ms`: the wall
    time at 0 s; `slept_s`: the length of each sleep."""

    def __init__(self, now_s: float = 0.0, *, epoch_ms: int = START_MS) -> None:
        self.now_s = now_s
        self.slept_s: list[float] = []
        self._epoch_ms = epoch_ms

    def now_ms(self) -> int:
        return self._epoch_ms + round(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)
        soonest_s = math.nextafter(self.now_s, math.inf) if duration_s > 0 else self.now_s
        self.now_s = max(self.now_s + duration_s, soonest_s)  # a sleep takes time, however short: loops wait for it

    def pass_ms(self, duration_ms: float) -> None:
        """Time passes; a negative duration puts the clock back."""
        self.now_s += duration_ms / 1000

    def set_ms(self, wall_ms: int) -> None:
        self.now_s = (wall_ms - self._epoch_ms) / 1000


class MachineClock:
    """The clock of one machine in a world: its wall clock is `ahead_ms` ahead of the world's, its monotonic clock began
    at `started_s`."""

    def __init__(self, world: VirtualClock, *, ahead_ms: int = 0, started_s: float = 0.0) -> None:
        self.world, self.ahead_ms, self._started_s = world, ahead_ms, started_s

    def now_ms(self) -> int:
        return self.world.now_ms() + self.ahead_ms

    def monotonic_s(self) -> float:
        return self._started_s + self.world.monotonic_s()

    def sleep(self, duration_s: float) -> None:
        self.world.sleep(duration_s)


class Script(VirtualClock):
    """A clock that ends the run when the steps are used up, one at each sleep. A step may change the source."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__(1000.0, epoch_ms=0)
        self._steps = list(steps)

    def sleep(self, duration_s: float) -> None:
        super().sleep(duration_s)
        if not self._steps:
            raise KeyboardInterrupt
        self._steps.pop(0)()


class Scheduler:
    """`chance`: all that is left to chance. `trace`: a line for each thing that happened, the same in each run of a
    seed. `chaos` is off while what is left settles: then nothing fails any more."""

    def __init__(self, seed: int, clock: VirtualClock | None = None, *, chaos: bool = True) -> None:
        self.chance = Random(seed)
        self.clock = clock or VirtualClock()
        self.chaos = chaos
        self.trace: list[str] = []
        self.counts: dict[str, int] = {}
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    @property
    def now(self) -> float:
        """Seconds of the clock."""
        return self.clock.now_s

    def after(self, delay: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._numbers), action))

    def soon(self, most: float, action: Callable[[], object]) -> None:
        """At a random moment within `most` seconds."""
        self.after(self.chance.random() * most, action)

    def happens(self, probability: float) -> bool:
        """Whether a fault strikes."""
        return self.chaos and self.chance.random() < probability

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.clock.now_s, _, action = heapq.heappop(self._queue)
            action()
        self.clock.now_s = until

    def tell(self, kind: str, detail: str = "") -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.trace.append(f"{self.now:9.4f} {kind} {detail}".rstrip())


class SeededWorld:
    """What every world is made of: a scheduler, its chance and its clock."""

    def __init__(self, seed: int, *, epoch_ms: int = START_MS) -> None:
        self.scheduler = Scheduler(seed, VirtualClock(epoch_ms=epoch_ms))

    @property
    def rng(self) -> Random:
        return self.scheduler.chance

    @property
    def clock(self) -> VirtualClock:
        return self.scheduler.clock

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @now_ms.setter
    def now_ms(self, wall_ms: int) -> None:
        self.clock.set_ms(wall_ms)

    @property
    def is_calm(self) -> bool:
        """Nothing fails any more."""
        return not self.scheduler.chaos

    @is_calm.setter
    def is_calm(self, is_calm: bool) -> None:
        self.scheduler.chaos = not is_calm
