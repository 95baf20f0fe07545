"""A clock for runs that go on until they are interrupted."""

from __future__ import annotations

from collections.abc import Callable


class Script:
    """A clock that ends the run when the steps are used up, one at each sleep. A step may change the source."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.now_s = 1000.0
        self._steps = list(steps)

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s
        if not self._steps:
            raise KeyboardInterrupt
        self._steps.pop(0)()
