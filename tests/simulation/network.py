"""Messages between partitions, clients and coordinators: lost, late, twice, and overtaking each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.virtual_time import Scheduler

SLOW_S = 0.4


@dataclass
class Network:
    scheduler: Scheduler
    loss: float = 0.0
    repetition: float = 0.0

    def send(self, deliver: Callable[[], None]) -> None:
        if self.scheduler.happens(self.loss):
            self.scheduler.tell("message lost")
            return
        self.scheduler.soon(SLOW_S, deliver)
        if self.scheduler.happens(self.repetition):
            self.scheduler.tell("message twice")
            self.scheduler.soon(4 * SLOW_S, deliver)
