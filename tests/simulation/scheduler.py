"""Virtual time: what is to happen is put into one queue, and one seed decides all that is left to chance."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass
class Scheduler:
    """`trace`: a line for each thing that happened, the same in each run of a seed. `chaos` is off while what is left
    settles: then nothing fails any more."""

    seed: int
    now: float = 0.0
    chaos: bool = True
    trace: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

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
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = until

    def tell(self, what: str, detail: str = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.trace.append(f"{self.now:9.4f} {what} {detail}".rstrip())
