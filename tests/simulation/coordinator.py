"""A coordinator: it asks all partitions for a checkpoint until each has answered. It keeps nothing, and may die."""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite_participant import bcs
from tests.simulation.network import Network
from tests.simulation.partition import Partition
from tests.virtual_time import Scheduler

ASK_AGAIN_S = 1.0
GIVE_UP_S = 12.0


@dataclass
class Taking:
    """One request. `taken`: the partitions that have answered that they took it. `acknowledged`: all have, and the
    user was told; `passed`: one has a higher id, so this one will never be complete."""

    scheduler: Scheduler
    network: Network
    partitions: list[Partition]
    checkpoint: int
    is_alive: bool = True
    taken: set[int] = field(default_factory=set)
    acknowledged: bool = False
    passed: bool = False

    def begin(self) -> None:
        self.scheduler.tell("take", str(self.checkpoint))
        self._until_s = self.scheduler.now + GIVE_UP_S
        self._ask()

    def _ask(self) -> None:
        if not self.is_alive or self.acknowledged or self.passed or self.scheduler.now > self._until_s:
            return
        for each in self.partitions:
            if each.number not in self.taken:
                self.network.send(lambda each=each: self._request(each))  # type: ignore[misc]
        self.scheduler.after(ASK_AGAIN_S, self._ask)

    def _request(self, partition: Partition) -> None:
        if partition.leader is not None:
            create = bcs.Create(checkpoint=self.checkpoint)
            partition.leader.request(create, lambda answer: self._answered(partition.number, answer))

    def _answered(self, partition: int, answer: bcs.Answer) -> None:
        if answer.is_passed:
            self.passed = True
        elif answer.is_taken:
            self.taken.add(partition)
        if self.is_alive and not self.passed and len(self.taken) == len(self.partitions) and not self.acknowledged:
            self.acknowledged = True
            self.scheduler.tell("acknowledged", str(self.checkpoint))
