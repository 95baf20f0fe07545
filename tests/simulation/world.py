"""Partitions, clients, coordinators and a store under one seed: what happens, and when it goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsite_participant import bcs_copies
from offsite_participant.bcs_copies import BackupStatus, Copy, status_of
from tests.simulation.coordinator import Taking
from tests.simulation.engine import Command, home_of_instance, home_of_name
from tests.simulation.network import Network
from tests.simulation.partition import Partition
from tests.simulation.store import Faults, Place, Store
from tests.virtual_time import Scheduler

PARTITIONS = 3
NAMES = 8
SETTLE_S = 600.0
"""A leader may have a long way to go behind what others have made it append."""
LOOK_S = 0.5
QUIET_S = 2.5
"""Longer than anything takes without a fault: what is idle for so long stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often things happen, for so many `seconds`: requests per second, probabilities of faults."""

    commands: float = 6.0
    checkpoints: float = 0.35
    elections: float = 0.1
    crashes: float = 0.004
    deletions: float = 0.03
    loss: float = 0.1
    repetition: float = 0.1
    stalling: float = 0.0
    unaware_s: float = 0.0
    eager_s: float = 0.0
    beside_s: float = 0.0
    cleanings: float = 0.03
    faults: Faults = field(default_factory=Faults)
    seconds: float = 10.0

    @classmethod
    def drawn(cls, scheduler: Scheduler) -> Rates:
        """Calm and wild worlds: each kind of fault is absent in some, so that none hides what another one does."""

        def some(*choices: float) -> float:
            return scheduler.chance.choice(choices)

        return cls(
            commands=some(2, 4, 8),
            checkpoints=some(0.2, 0.4, 0.8),
            elections=some(0, 0.05, 0.2),
            crashes=some(0, 0.003, 0.01),
            deletions=some(0, 0.05),
            loss=some(0, 0.1, 0.3),
            repetition=some(0, 0.1, 0.3),
            faults=Faults(
                errors=some(0, 0.05, 0.25), lost_answers=some(0, 0.05), late=some(0, 0.1), damage=some(0, 0.01, 0.1)
            ),
            stalling=some(0, 0.05, 0.1),
            unaware_s=some(0, 4, 8),
            eager_s=some(0, 0, 1),
            beside_s=some(0, 0, 1),
            cleanings=some(0, 0.2),
        )


class World:
    """A processor and its surroundings. `statuses`: what an observer saw of each checkpoint, in order; `crash` decides
    at each numbered effect whether its leader dies there."""

    def __init__(
        self,
        scheduler: Scheduler,
        rates: Rates,
        *,
        store: Store | None = None,
        incarnation: int = 0,
        crash: Callable[[int, str], bool] | None = None,
    ) -> None:
        self.scheduler, self.rates = scheduler, rates
        self.store = store or Store(scheduler, rates.faults)
        self.network = Network(scheduler, rates.loss, rates.repetition)
        self._crash = crash or (lambda _number, _name: scheduler.happens(rates.crashes))
        self._effects = self._versions = self._subjects = 0
        self._ends: tuple[int, ...] = ()
        self.takings: list[Taking] = []
        self.statuses: dict[int, list[BackupStatus]] = {}
        self.partitions = [
            Partition(
                number=number,
                partitions=PARTITIONS,
                scheduler=scheduler,
                network=self.network,
                store=self.store,
                send=self.send,
                crash=self._effect,
                incarnation=incarnation,
                stalling=rates.stalling,
                unaware_s=rates.unaware_s,
                eager_s=rates.eager_s,
                beside_s=rates.beside_s,
            )
            for number in range(1, PARTITIONS + 1)
        ]

    def start(self) -> None:
        for each in self.partitions:
            each.elect()
        self._look()

    def live(self) -> None:
        """Clients, coordinators and faults, and then a time in which nothing fails, so that what is left settles."""
        self.start()
        rates = self.rates
        for rate, action in (
            (rates.commands, self._client),
            (rates.checkpoints, self.take),
            (rates.elections, lambda: self.scheduler.chance.choice(self.partitions).elect()),
            (rates.deletions, self._delete),
            (rates.cleanings, self.clean_up),
            (0.05, self._coordinator_dies),
        ):
            self._randomly(rate, action)
        self.scheduler.run(rates.seconds)
        self.settle()

    def settle(self) -> None:
        """Until nothing is under way any more, for `SETTLE_S` at most."""
        self.scheduler.chaos = False
        until_s = self.scheduler.now + SETTLE_S
        while self.scheduler.now < until_s:
            self.scheduler.run(self.scheduler.now + QUIET_S)
            if self.is_quiet:
                return

    def _randomly(self, rate: float, action: Callable[[], object]) -> None:
        def step() -> None:
            if self.scheduler.chaos:
                action()
                self._randomly(rate, action)

        if rate:
            self.scheduler.after(self.scheduler.chance.expovariate(rate), step)

    def _effect(self, name: str) -> bool:
        self._effects += 1
        return self._crash(self._effects, name)

    def send(self, to: int, command: Command, checkpoint: int) -> None:
        def deliver() -> None:
            leader = self.partitions[to - 1].leader
            if leader is not None:
                leader.receive(command, checkpoint)

        self.network.send(deliver)

    def _client(self) -> None:
        kind = self.scheduler.chance.choice(["deploy", "start", "start", "publish", "publish"])
        name = self.scheduler.chance.randrange(NAMES)
        if kind == "deploy":
            self._versions += 1
            self.send(1, Command("deploy", self._versions), 0)
            return
        self._subjects += 1
        home = home_of_instance(self._subjects, PARTITIONS) if kind == "start" else home_of_name(name, PARTITIONS)
        self.send(home, Command(kind, self._subjects, name), 0)

    def take(self) -> Taking:
        """The next id: above all that the store knows, and all that were asked for here. Sometimes the last one again,
        as by a second coordinator that does not know better."""
        known = [each.checkpoint for each in self.store.manifests.values()] + [each.checkpoint for each in self.takings]
        highest = max(known, default=0)
        again = highest > 0 and self.scheduler.happens(0.15)
        taking = Taking(self.scheduler, self.network, self.partitions, highest if again else highest + 1)
        self.takings.append(taking)
        taking.begin()
        return taking

    def _coordinator_dies(self) -> None:
        if self.takings:
            self.takings[-1].is_alive = False

    def _delete(self) -> None:
        """Delete a checkpoint, whatever became of it, also one that leaders are still at work on."""
        left = [each for each, seen in self.statuses.items() if seen[-1] is not BackupStatus.DELETED]
        if left:
            self.delete(self.scheduler.chance.choice(left))

    def delete(self, checkpoint: int) -> None:
        self.scheduler.tell("delete", str(checkpoint))
        while copy := next(bcs_copies.deletable(self.store.manifests.values(), checkpoint=checkpoint), None):
            self.store.change_to_deleted(self._place_of(copy))
        self.clean_up()

    def clean_up(self) -> None:
        """Remove the files of copies that no restore takes."""
        for copy in bcs_copies.disposable(self.store.manifests.values()):
            if self.store.contents.pop(self._place_of(copy), None):
                self.scheduler.tell("cleaned", f"{copy.partition} {copy.checkpoint} {copy.term}")

    def _place_of(self, copy: Copy) -> Place:
        return self.partitions[copy.partition - 1].place_of(copy)

    def status(self, checkpoint: int) -> BackupStatus:
        return status_of(self.store.manifests.values(), checkpoint=checkpoint, partitions=PARTITIONS)

    def _look(self) -> None:
        """Somebody asks for the status of all, every now and then."""
        for checkpoint in sorted({each.checkpoint for each in self.store.manifests.values()}):
            status, seen = self.status(checkpoint), self.statuses.setdefault(checkpoint, [])
            if not seen or seen[-1] is not status:
                seen.append(status)
                self.scheduler.tell("status", f"{checkpoint} {status}")
        self.scheduler.after(LOOK_S, self._look)

    @property
    def is_quiet(self) -> bool:
        """No command is left to be sent or processed, and nobody is at work on a copy."""
        ends = tuple(each.log.end for each in self.partitions)
        before, self._ends = self._ends, ends
        is_idle = not any(each.leader is None or each.leader.state.outbox for each in self.partitions)
        return is_idle and before == ends and not any(each.steps_ahead for each in self.partitions)
