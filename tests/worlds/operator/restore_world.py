"""A world for restores: operators that die, sleep and see stale specs; processes that start late, freeze and vanish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from offsite.jobs.end import LEAST_S, forget_jobs
from offsite.jobs.workers import SECRET
from offsite.model.errors import BadResource, LeaseHeld, LeaseTakenOver, OffsiteError
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace
from offsite.operator.decide.desired_restore import DesiredRestore, resolve_restore
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.decide.restore import RestoreStatus
from offsite.operator.resources.jobs import Restore
from offsite.operator.resources.parse import parse_resource
from offsite.operator.world.claims import Tags
from offsite.operator.world.jobs import JobStarter
from offsite.operator.world.observe import BackupFacts, Observer
from offsite.operator.world.restores import RestoreExecutor
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.repository.lease import Lease, LeaseClaim
from offsite.stores.store import PutResult, Store
from tests.faulty_store import Crash, FaultyStore
from tests.memory_store import MemoryStore
from tests.virtual_time import SeededWorld
from tests.worlds.operator.world import identity

PLACES = (
    RepositoryPlace(account="main", repository="memory:///one"),
    RepositoryPlace(account="main", repository="memory:///two"),
)
ACCOUNTS = (Account(name="main", endpoint="memory:///one"),)
UIDS = ("aaaaaaaa-1", "bbbbbbbb-2", "cccccccc-3")
_ENDS = (0, 0, 0, 3, 13)


class SleepingStore(FaultyStore):
    """Before effect `sleeps_at` its operator sleeps, and the world goes on."""

    def __init__(self, inner: Store, *, fails_at: int, after: bool, sleeps_at: int, sleep: Callable[[], None]) -> None:
        super().__init__(inner, fails_at=fails_at, after=after)
        self._sleeps_at, self._sleep = sleeps_at, sleep

    def effect(self, act: Callable[[], PutResult | None]) -> PutResult | None:
        if self.effects == self._sleeps_at:
            self._sleep()
        return super().effect(act)


@dataclass(slots=True)
class JobProcess:
    """The process of a job, as `offsite.cli.work` is one. It is frozen while `frozen` is above 0."""

    uid: str
    key: tuple[str, str]
    job: str
    store: MemoryStore
    left: int
    exit_code: int
    frozen: int
    secret: str = ""
    claim: LeaseClaim | None = None

    def step(self, world: RestoreWorld) -> bool:
        """Whether it goes on."""
        if self.frozen:
            self.frozen -= 1
            return True
        records = JobRecords(store=self.store, layout=JobLayout(job=self.job))
        terms = records.layout.lease(self.store)
        try:
            if self.claim is None:
                self.claim = terms.claim(identity(f"process-{self.job}"), self.job, take_over=False)
            terms.beat(self.claim)
            asked, claimed = records.read_request(), records.read_claimed_end()
            if asked is None or claimed is not None or records.read_end(asked) is not None:
                terms.end(self.claim)
                return False
        except (LeaseHeld, LeaseTakenOver):
            return False
        return self._worked(world, records, terms)

    def _worked(self, world: RestoreWorld, records: JobRecords, terms: Lease) -> bool:
        world.worked(self)
        self.left -= 1
        is_cancelled = records.is_cancelled()
        if self.left > 0 and not is_cancelled:
            return True
        code = 130 if is_cancelled else self.exit_code
        world.ended.add(self.uid)
        ended = JobEnd(id=self.job, at_ms=world.now_ms, exit_code=code, result="", said="")
        records.put_end(ended, secret=self.secret)
        assert self.claim is not None
        terms.end(self.claim)
        return False


@dataclass(slots=True)
class RestoreOperator:
    name: str
    known: dict[str, Restore] = field(default_factory=dict)


class RestoreWorld(SeededWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stores = {place: MemoryStore(self.clock) for place in PLACES}
        self.home = MemoryStore(self.clock)
        self.restores = {uid: new_restore(uid, repository=self.rng.choice(PLACES).repository) for uid in UIDS}
        self.operators = [RestoreOperator("x"), RestoreOperator("y")]
        self.processes: list[JobProcess] = []
        self.working: dict[str, JobProcess] = {}
        self.begun: dict[str, list[str]] = {uid: [] for uid in UIDS}
        self.ended: set[str] = set()
        self.is_asleep = False
        self.closed: dict[RepositoryPlace, OffsiteError] = {}
        self.clusters: frozenset[str] | None = None
        self.is_in_force = True

    # -- what people, time and machines do -----------------------------------------------------------------------------

    def stop_one(self) -> None:
        uid = self.rng.choice(UIDS)
        repository = self.restores[uid].spec.backup_url.partition("#")[0]
        self.restores[uid] = new_restore(uid, repository=repository, state="stopped")

    def lose_one(self) -> None:
        """A machine dies, with a process on it."""
        if self.processes:
            self.processes.remove(self.rng.choice(self.processes))

    def forget(self) -> None:
        self.now_ms += 3 * int(LEAST_S) * 1000
        for store in self.stores.values():
            forget_jobs(store, older_than_s=LEAST_S)

    def run_processes(self) -> None:
        self.working = {}
        for process in list(self.processes):
            if not process.step(self):
                self.processes.remove(process)

    def worked(self, process: JobProcess) -> None:
        """A process did something: this is where two of them, or one of a finished restore, would show."""
        assert process.uid not in self.ended, f"{process.uid} is finished, and runs again"
        others = [each.key for each in self.working.values() if each.job != process.job]
        assert process.uid not in self.working, f"two jobs of {process.uid} run"
        assert process.key not in others, f"two restores of one tag run: {process.key}"
        self.working[process.uid] = process

    # -- operators -----------------------------------------------------------------------------------------------------

    def operate(self, operator: RestoreOperator, *, faults: bool) -> dict[str, RestoreStatus]:
        """One round over all resources, as this operator knows them; it remembers nothing, and may die or sleep."""
        found: dict[str, RestoreStatus] = {}
        for uid, newest in self.restores.items():
            if not faults or self.rng.random() < 0.7 or uid not in operator.known:
                operator.known[uid] = newest
            try:
                hands = self.hands(operator, faults=faults)
                found[uid] = hands.reconcile(self.wanted(operator.known[uid]), declared_uids=UIDS)
            except (Crash, LeaseHeld):
                return found
        return found

    def sleepy_hands(self, name: str, sleeps_at: int, sleep: Callable[[], None]) -> RestoreExecutor:
        """Of an operator that sleeps before that effect on a repository, and is fine else."""
        store = {
            place: SleepingStore(each, fails_at=-1, after=False, sleeps_at=sleeps_at, sleep=sleep)
            for place, each in self.stores.items()
        }
        return self._hands(name, store.__getitem__, self.home)

    def _hands(self, name: str, open_store: Callable[[RepositoryPlace], Store], home: Store) -> RestoreExecutor:
        def opened(place: RepositoryPlace) -> Store:
            if place in self.closed:
                raise self.closed[place]
            return open_store(place)

        eyes = Observer(open_store=opened, facts=self, agents=self, identity=identity(name))
        jobs = JobStarter(observer=eyes, processes=self, environment_of=self._environment)
        return RestoreExecutor(jobs=jobs, tags=Tags(home), in_force=lambda _: self.is_in_force)

    def _environment(self, place: RepositoryPlace, cluster: str) -> Mapping[str, str]:
        if self.clusters is not None and cluster not in self.clusters:
            raise BadResource(f"there is no cluster {cluster!r}", hint="")
        return {"OFFSITE_REPO": place.repository}

    def hands(self, operator: RestoreOperator, *, faults: bool) -> RestoreExecutor:
        fails_at = self.rng.randint(0, 9) if faults and self.rng.random() < 0.3 else -1
        sleeps_at = self.rng.randint(0, 9) if faults and self.rng.random() < 0.2 and not self.is_asleep else -1
        after = self.rng.random() < 0.5

        def faulty(store: Store) -> Store:
            return SleepingStore(
                store, fails_at=fails_at, after=after, sleeps_at=sleeps_at, sleep=lambda: self.sleep(operator)
            )

        stores = {place: faulty(store) for place, store in self.stores.items()}
        return self._hands(operator.name, stores.__getitem__, faulty(self.home))

    def sleep(self, operator: RestoreOperator) -> None:
        """The machine of an operator is stopped for a while; what others do goes on."""
        self.is_asleep = True
        if self.rng.random() < 0.2:
            self.stop_one()
        (other,) = (each for each in self.operators if each is not operator)
        for _ in range(self.rng.randint(1, 6)):
            self.now_ms += self.rng.choice([5000, 20_000, 40_000])
            self.run_processes()
            self.operate(other, faults=False)
        self.is_asleep = False

    def wanted(self, restore: Restore) -> DesiredRestore:
        return resolve_restore(restore, ACCOUNTS)

    # -- ports ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def room(self) -> Iterator[None]:
        yield

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        assert arguments[:2] == ("restore", "run")
        place = next(each for each in PLACES if each.repository == environment["OFFSITE_REPO"])
        uid = next(uid for uid in UIDS if f"--backup=backup-{uid}" in arguments)
        restore = self.restores[uid]
        if not self.is_calm and self.rng.random() < 0.15:
            self.sleep(self.rng.choice(self.operators)) if not self.is_asleep else None
        self.begun[uid].append(job)
        self.processes.append(
            JobProcess(
                uid=uid,
                key=(restore.spec.cluster, restore.spec.tag),
                job=job,
                secret=environment[SECRET],
                store=self.stores[place],
                left=self.rng.randint(1, 8),
                exit_code=self.rng.choice(_ENDS),
                frozen=0 if self.is_calm else self.rng.choice([0, 0, 1, 5]),
            )
        )

    def end(self, job: str) -> None:
        """It is on another machine: nobody here can end it."""

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        return BackupFacts()

    def observe(self, uid: str) -> ObservedAgents:
        return ObservedAgents()

    def configure(self, uid: str, agents: DesiredAgents | None) -> None: ...


def new_restore(uid: str, *, repository: str = PLACES[0].repository, **spec: object) -> Restore:
    found = parse_resource(
        {
            "apiVersion": "offsite.dev/v1alpha1",
            "kind": "Restore",
            "metadata": {"name": uid[:4], "uid": uid, "generation": 1},
            "spec": {"backupUrl": f"{repository}#backup-{uid}", "cluster": "target", **spec},
        },
        source="world",
    )
    assert isinstance(found, Restore)
    return found
