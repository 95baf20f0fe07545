"""A world for a schedule: two operators that die and sleep, processes that start late, freeze and vanish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from offsite.jobs.workers import SECRET
from offsite.model.errors import LeaseHeld, OffsiteError
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.decide.schedule import DesiredSchedule, resolve_schedule
from offsite.operator.resources.jobs import Schedule
from offsite.operator.resources.parse import parse_resource
from offsite.operator.world.jobs import JobStarter
from offsite.operator.world.observe import BackupFacts, Observer
from offsite.operator.world.schedules import ScheduleExecutor, ScheduleStatus
from offsite.operator.world.timeline import RunTarget, SkipReason
from offsite.stores.store import Store
from tests.faulty_store import Crash
from tests.memory_store import MemoryStore
from tests.virtual_time import SeededWorld
from tests.worlds.operator.restore_world import JobProcess, SleepingStore
from tests.worlds.operator.world import identity

UID = "ssssssss-1"
PLACE = RepositoryPlace(account="main", repository="memory:///one")
TARGET = RunTarget(place=PLACE, backup="shop-1", cluster="shop")


class ScheduleWorld(SeededWorld):
    def __init__(self, seed: int, **spec: object) -> None:
        super().__init__(seed, epoch_ms=1_772_000_000_000)
        self.store, self.home = MemoryStore(self.clock), MemoryStore(self.clock)
        self.wanted = new_schedule(**spec)
        self.target: RunTarget | SkipReason | None = TARGET
        self.closed: dict[RepositoryPlace, OffsiteError] = {}
        self.processes: list[JobProcess] = []
        self.working: list[str] = []
        self.begun: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.ended: set[str] = set()
        self.is_asleep = False
        self.is_whole = True
        self.work_max = 20

    def operate(self, name: str, *, faults: bool) -> ScheduleStatus | None:
        """One look of an operator, which remembers nothing; None where it died in it."""
        suspend = self.wanted.suspend and not (faults and self.rng.random() < 0.1)
        try:
            return self.hands(name, faults=faults).reconcile(replace(self.wanted, suspend=suspend), self.target)
        except (Crash, LeaseHeld):
            return None

    def hands(self, name: str, *, faults: bool = False) -> ScheduleExecutor:
        fails_at = self.rng.randint(0, 6) if faults and self.rng.random() < 0.3 else -1
        sleeps_at = self.rng.randint(0, 6) if faults and self.rng.random() < 0.3 and not self.is_asleep else -1
        after = self.rng.random() < 0.5

        def faulty(store: Store) -> Store:
            return SleepingStore(
                store, fails_at=fails_at, after=after, sleeps_at=sleeps_at, sleep=lambda: self.sleep(name)
            )

        store = faulty(self.store)

        def open_store(place: RepositoryPlace) -> Store:
            if place in self.closed:
                raise self.closed[place]
            return store

        eyes = Observer(open_store=open_store, facts=self, agents=self, identity=identity(name))  # type: ignore[arg-type]
        return ScheduleExecutor(
            jobs=JobStarter(observer=eyes, processes=self, environment_of=lambda *_: {}), home=faulty(self.home)
        )

    def sleep(self, name: str) -> None:
        self.is_asleep = True
        for _ in range(self.rng.randint(1, 8)):
            self.now_ms += self.rng.choice([20_000, 60_000, 600_000, 3_600_000])
            self.run_processes()
            self.operate("y" if name == "x" else "x", faults=False)
        self.is_asleep = False

    def run_processes(self) -> None:
        self.working = []
        for process in list(self.processes):
            if not process.step(self):  # type: ignore[arg-type]
                self.processes.remove(process)

    def worked(self, process: JobProcess) -> None:
        assert not self.working, "two runs of a schedule go on"
        self.working.append(process.job)

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        return BackupFacts(is_whole=self.is_whole)

    @contextmanager
    def room(self) -> Iterator[None]:
        yield

    def end(self, job: str) -> None:
        """It is on another machine: nobody here can end it."""

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        if not self.is_calm and self.rng.random() < 0.15 and not self.is_asleep:
            self.sleep("x")
        assert job not in self.begun, "a job was begun twice"
        self.begun.append(job)
        self.commands.append(tuple(arguments))
        self.processes.append(
            JobProcess(
                uid=UID,
                key=("", ""),
                job=job,
                secret=environment[SECRET],
                store=self.store,
                left=self.rng.randint(1, self.work_max),
                exit_code=0,
                frozen=0 if self.is_calm else self.rng.choice([0, 0, 1, 8]),
            )
        )


def new_schedule(**spec: object) -> DesiredSchedule:
    found = parse_resource(
        {
            "apiVersion": "offsite.dev/v1alpha1",
            "kind": "Schedule",
            "metadata": {"name": "nightly", "uid": UID, "generation": 1},
            "spec": {
                "backup": "shop",
                "action": "checkpoint",
                "cron": "*/5 * * * *",
                "startingDeadline": "4m",
                **spec,
            },
        },
        source="world",
    )
    assert isinstance(found, Schedule)
    return resolve_schedule(found)
