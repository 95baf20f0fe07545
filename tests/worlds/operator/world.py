"""A world for operators: resources that people edit, repositories in memory, agents, a clock, and faults, by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.clock import SystemClock
from offsite.model.errors import ExpiryNotDone, LeaseHeld, LeaseTakenOver, OffsiteError
from offsite.operator.core.accounts import Accounts
from offsite.operator.core.backup_keeper import LEAVE_MAX_MS, BackupKeeper
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.keeper import NoteWriter
from offsite.operator.core.processes import Launches
from offsite.operator.core.records import Edit, ResourceRecord
from offsite.operator.decide.backup import QUIET_MS
from offsite.operator.decide.desired import Account, DesiredAgents, DesiredBackup, RepositoryPlace, resolve_backup
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.resources.backup import FINALIZER, Backup, DesiredBackupState
from offsite.operator.resources.parse import parse_resource
from offsite.operator.work.expire import ExpiryRequest, expire
from offsite.operator.world.backups import BackupExecutor, ReconciledBackup, reconcile
from offsite.operator.world.claims import Slots
from offsite.operator.world.observe import BackupFacts, Observer, read_history
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import AgentReport, put_agent_report
from offsite.repository.lease import LeaseClaim, ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.store import Store
from tests.faulty_store import Crash, FaultyStore
from tests.memory_store import MemoryStore
from tests.virtual_time import SeededWorld

ACCOUNTS = (Account(name="main", endpoint="memory:///one"), Account(name="other", endpoint="memory:///two"))
PLACES = tuple(RepositoryPlace(account=each.name, repository=each.endpoint) for each in ACCOUNTS)
LIMIT = 1
UIDS = ("aaaaaaaa-1", "bbbbbbbb-2", "cccccccc-3")
WHOLE_AFTER = 4
"""Steps of an agent until a backup is whole."""


def identity(name: str) -> ProcessIdentity:
    """Of a machine of its own: nobody can tell that it is gone."""
    return ProcessIdentity(host=name, boot=name, namespace="", pid="1", started="1", user="test")


@dataclass(slots=True)
class DeletionJob:
    """As an expiry job: what a keeper asks of one."""

    has_deleted: bool
    is_deletion: bool = True
    ended_ms: int = 1
    said: str = ""


class Unchanged:
    """Records that nobody changes here."""

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        raise AssertionError((kind, name, edit))


@dataclass(slots=True)
class Agent:
    """One process. It is frozen while `frozen` is above 0."""

    name: str
    uid: str
    frozen: int = 0
    claim: LeaseClaim | None = None
    at: RepositoryPlace | None = None
    number: int = 0

    def step(self, world: World, wanted: DesiredAgents) -> None:
        """As a real one: look what is decided, take the backup in hand, sign of life, copy a bit."""
        if self.frozen:
            self.frozen -= 1
            return
        if self.at is not None and self.at != wanted.place:
            self.leave(world)
        store, layout = world.stores[wanted.place], DeclaredLayout(uid=self.uid)
        low = newest(store, self.uid)
        if (
            low is None
            or low.phase is not BackupPhase.RUNNING
            or (self.claim is not None and low.number != self.number)
        ):
            self.leave(world)
            return
        terms = layout.agent(store)
        try:
            if self.claim is None:
                self.claim = terms.claim(identity(self.name), f"{self.name}-{world.now_ms}", take_over=False)
                self.at, self.number = wanted.place, low.number
            terms.beat(self.claim)
        except (LeaseHeld, LeaseTakenOver):
            self.claim = self.at = None
            return
        world.copied(self, wanted.place, low)

    def leave(self, world: World) -> None:
        if self.claim is not None and self.at is not None:
            DeclaredLayout(uid=self.uid).agent(world.stores[self.at]).end(self.claim)
        self.claim = self.at = None


def newest(store: Store, uid: str) -> LowLevelBackup | None:
    backups = read_history(store, uid).backups
    return backups[-1] if backups else None


@dataclass(slots=True)
class Operator:
    """One that looks at resources as it knows them, which may be as they were."""

    name: str
    known: dict[str, Backup] = field(default_factory=dict)


class World(SeededWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stores = {place: MemoryStore(self.clock) for place in PLACES}
        self.home = MemoryStore(self.clock)
        self.backups = {uid: new_backup(uid, 1) for uid in UIDS}
        self.operators = [Operator("x"), Operator("y")]
        self.wanted_agents: dict[str, DesiredAgents] = {}
        self.agents: list[Agent] = []
        self.progress: dict[tuple[RepositoryPlace, str], int] = {}
        self.copied_ms: dict[tuple[RepositoryPlace, str], int] = {}
        self.copying: dict[tuple[str, RepositoryPlace, int], str] = {}
        self.is_down = False
        self.went_on_ms: dict[str, int] = {}
        self.sealed: list[str] = []
        self.specs: dict[str, dict[str, object]] = {uid: {} for uid in UIDS}
        self.deleted_ms: dict[str, int] = {}
        self.cleared: Counter[str] = Counter()
        self.jobs: dict[str, DeletionJob] = {}
        for store in self.stores.values():
            Repository.init(store)  # type: ignore[arg-type]

    # -- what people and time do ---------------------------------------------------------------------------------------

    def edit(self) -> None:
        uid = self.rng.choice(UIDS)
        before = self.backups.get(uid)
        if before is None or uid in self.deleted_ms:
            return
        self.specs[uid] = {
            "state": self.rng.choice(["running", "running", "paused", "stopped"]),
            "destination": {"account": self.rng.choice(["main", "main", "other"])},
            "tag": self.rng.choice(["default", "default", "new"]),
            "topics": self.rng.choice([["*"], ["*"], ["orders"]]),
            "snapshotDuration": self.rng.choice(["7d", "1d"]),
            "agents": {"replicas": self.rng.choice([0, 1, 2, 3])},
        }
        self.backups[uid] = new_backup(uid, before.metadata.generation + 1, **self.specs[uid])

    def delete(self) -> None:
        """Somebody asks for the deletion of a resource; of every other one the backups stay."""
        left = [uid for uid in self.backups if uid not in self.deleted_ms]
        if len(left) > 1:
            self.deleted_ms[self.rng.choice(left)] = self.now_ms

    def has_finalizer(self, uid: str) -> bool:
        return uid != UIDS[2]

    def pass_time(self) -> None:
        self.now_ms += self.rng.choice([1000, 5000, 5000, 40_000, 600_000 if self.is_down else 5000])

    def freeze(self) -> None:
        if self.agents:
            self.rng.choice(self.agents).frozen = self.rng.randint(1, 12)

    def kill(self) -> None:
        if self.agents:
            self.agents.remove(self.rng.choice(self.agents))

    # -- what operators and agents do ----------------------------------------------------------------------------------

    def operate(self, operator: Operator, *, faults: bool) -> dict[str, ReconciledBackup]:
        """One round over all resources, as this operator knows them; it may die in it."""
        done: dict[str, ReconciledBackup] = {}
        for uid, newest_one in list(self.backups.items()):
            if not faults or self.rng.random() < 0.7 or uid not in operator.known:
                operator.known[uid] = newest_one  # else an update is lost to it
            fails_at = self.rng.randint(0, 6) if faults and self.rng.random() < 0.4 else -1
            after = self.rng.random() < 0.5
            is_told = uid in self.deleted_ms and (not faults or self.rng.random() < 0.7)
            try:
                if is_told:
                    self.let_go(uid, self.hands(operator, fails_at, after=after), faults=faults)
                    continue
                wanted = self.wanted(operator.known[uid])
                done[uid] = reconcile(self.hands(operator, fails_at, after=after), wanted, PLACES)
                self.check_told(done[uid], wanted)
            except (Crash, LeaseHeld):
                return done
        return done

    def hands(self, operator: Operator, fails_at: int = -1, *, after: bool = False) -> BackupExecutor:
        stores = {
            place: FaultyStore(store, fails_at=fails_at, after=after)  # type: ignore[arg-type]
            for place, store in self.stores.items()
        }
        eyes = Observer(open_store=stores.__getitem__, facts=self, agents=self, identity=identity(operator.name))
        home = FaultyStore(self.home, fails_at=fails_at, after=after)  # type: ignore[arg-type]
        return BackupExecutor(
            observer=eyes,
            slots=Slots(home, limit=LIMIT),  # type: ignore[arg-type]
            seal=lambda _, name: self.sealed.append(name),
            in_force=lambda wanted, kind: not (wanted.uid in self.deleted_ms and kind is DeclaredEntryKind.STARTED),
        )

    def let_go(self, uid: str, hands: BackupExecutor, *, faults: bool) -> None:
        """As the keeper of a home does it: a step towards the deletion, a job of the queue, and the finalizer last."""
        keeper = BackupKeeper(
            records=Unchanged(),
            agents=self,
            jobs=self,  # type: ignore[arg-type]  # what it asks of them
            notes=NoteWriter(clock=self.clock),
            clock=self.clock,
            executor=hands,
            launches=Launches(layout=FolderLayout(root=Path("none")), accounts=Accounts(listed=ACCOUNTS)),
        )
        if keeper.let_go(self.record(uid)) is None:
            if uid in self.backups:  # a record goes once
                self.cleared[uid] += 1
                del self.backups[uid]
                self.check_gone(uid)
        elif uid in keeper.expiry_requests:
            self.run_job(uid, faults=faults)

    def run_job(self, uid: str, *, faults: bool) -> None:
        fails_at = self.rng.randint(0, 12) if faults and self.rng.random() < 0.4 else -1
        repositories = [Repository.open(FaultyStore(each, fails_at=fails_at)) for each in self.stores.values()]  # type: ignore[arg-type]
        asked = ExpiryRequest(uid=uid, repositories=repositories, policy=None, minimum_ms=0, is_deletion=True)
        self.jobs[uid] = DeletionJob(has_deleted=False)
        with suppress(Crash, ExpiryNotDone, LeaseHeld):
            expire(asked, clock=SystemClock())
            self.jobs[uid] = DeletionJob(has_deleted=True)

    def record(self, uid: str) -> ResourceRecord:
        backup = self.backups[uid]
        return ResourceRecord(
            kind="Backup",
            name=uid[:4],
            uid=uid,
            generation=backup.metadata.generation,
            spec=self.specs[uid],  # type: ignore[arg-type]
            source="world",
            created_ms=1,
            deletion_ms=self.deleted_ms[uid],
            finalizers=(FINALIZER,) if self.has_finalizer(uid) else (),
            places=PLACES,
        )

    def job(self, uid: str) -> DeletionJob | None:
        return self.jobs.get(uid)

    def wanted(self, backup: Backup) -> DesiredBackup:
        return resolve_backup(backup, ACCOUNTS)

    def run_agents(self) -> None:
        self.copying = {}
        for uid, wanted in self.wanted_agents.items():
            mine = [each for each in self.agents if each.uid == uid]
            for gone in mine[wanted.replicas :]:
                gone.leave(self)
                self.agents.remove(gone)
            for number in range(len(mine), wanted.replicas):
                self.agents.append(Agent(f"{uid}-{number}-{self.rng.random()}", uid))
        for agent in list(self.agents):
            if (asked := self.wanted_agents.get(agent.uid)) is not None:
                agent.step(self, asked)
            elif agent.frozen:
                agent.frozen -= 1
            else:  # it was told to end
                agent.leave(self)
                self.agents.remove(agent)

    def copied(self, agent: Agent, place: RepositoryPlace, low: LowLevelBackup) -> None:
        """An agent has copied a bit: this is where two of them, or too many at once, would show. While brokers are
        down it has the backup in hand all the same, and says why it does not go on."""
        term = agent.claim.term if agent.claim is not None else 0
        if self.is_down:
            went_on_ms = self.went_on_ms.get(agent.uid, 0)
            word = AgentReport(number=low.number, term=term, well_ms=went_on_ms, why="no broker")
            put_agent_report(self.stores[place], DeclaredLayout(uid=agent.uid), word)  # type: ignore[arg-type]
            return
        self.went_on_ms[agent.uid] = self.now_ms
        others = {name for (uid, *_), name in self.copying.items() if uid == agent.uid} - {agent.name}
        assert not others, f"two agents copy for {agent.uid}"
        key = (place, low.beginning.backup)
        if self.progress.get(key, 0) < WHOLE_AFTER:
            self.copying[agent.uid, place, low.number] = agent.name
        self.progress[key] = self.progress.get(key, 0) + 1
        self.copied_ms[key] = self.now_ms
        word = AgentReport(number=low.number, term=term, well_ms=self.now_ms)
        put_agent_report(self.stores[place], DeclaredLayout(uid=agent.uid), word)  # type: ignore[arg-type]
        assert len(self.copying) <= LIMIT, f"too many initial copies: {self.copying}"

    # -- ports ---------------------------------------------------------------------------------------------------------

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        inner = getattr(store, "inner", store)
        place = next(place for place, each in self.stores.items() if each is inner)
        done = self.progress.get((place, backup), 0)
        latest_ms = self.copied_ms.get((place, backup), -1)
        return BackupFacts(is_whole=done >= WHOLE_AFTER, latest_commit=done, latest_ms=latest_ms)

    def observe(self, uid: str) -> ObservedAgents:
        ready = sum(each.uid == uid and not each.frozen for each in self.agents)
        return ObservedAgents(configured=self.wanted_agents.get(uid), ready=ready)

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        if agents is not None:
            self.wanted_agents[uid] = agents
        else:
            self.wanted_agents.pop(uid, None)

    def alive(self, uid: str) -> int:
        return sum(each.uid == uid for each in self.agents)

    def unseen(self, uid: str) -> int:
        return 0

    def problem(self, uid: str) -> str:
        return ""

    # -- what is held at any moment ------------------------------------------------------------------------------------

    def lows(self) -> Iterator[tuple[str, RepositoryPlace, LowLevelBackup]]:
        for place, store in self.stores.items():
            for uid in UIDS:
                for low in read_history(store, uid).backups:
                    yield uid, place, low

    def check(self) -> None:
        for uid in UIDS:
            live = [(place, low.number) for owner, place, low in self.lows() if owner == uid and low.phase.is_live]
            assert len(live) <= 1, f"{uid} has several live backups: {live}"
        for uid, _, low in self.lows():
            is_going = low.phase in {BackupPhase.REMOVING, BackupPhase.REMOVED}
            assert not is_going or (uid in self.deleted_ms and self.has_finalizer(uid)), f"{uid} lost a backup"
        for uid in self.cleared:
            self.check_gone(uid)
            copies = uid in {owner for owner, *_ in self.copying}  # an agent that was told to end has had its turn
            assert not copies, f"an agent copies for {uid}, which is gone"

    def check_told(self, done: ReconciledBackup, wanted: DesiredBackup) -> None:
        """What is told to run as declared has gone on, or begun, not long ago."""
        if not done.conditions and wanted.state is DesiredBackupState.RUNNING:
            live = done.observed.live
            assert live is not None
            since_ms = max(live.low.running_ms, self.went_on_ms.get(wanted.uid, 0))
            assert self.now_ms - since_ms <= QUIET_MS, f"{wanted.uid} is told to run, and does not"

    def check_gone(self, uid: str) -> None:
        """Of a resource that is gone nothing is left, or nothing that goes on."""
        assert self.cleared[uid] == 1, f"the finalizer of {uid} was cleared {self.cleared[uid]} times"
        phases = {low.phase for owner, _, low in self.lows() if owner == uid}
        if self.has_finalizer(uid):
            assert phases <= {BackupPhase.REMOVED}, f"{uid} is gone, and its backups are {phases}"
        elif self.now_ms - self.deleted_ms[uid] < LEAVE_MAX_MS:
            assert not any(phase.is_live for phase in phases), f"{uid} is gone, and its backups are {phases}"


def new_backup(uid: str, generation: int, **spec: object) -> Backup:
    found = parse_resource(
        {
            "apiVersion": "offsite.dev/v1alpha1",
            "kind": "Backup",
            "metadata": {"name": uid[:4], "uid": uid, "generation": generation},
            "spec": spec,
        },
        source="world",
    )
    assert isinstance(found, Backup)
    return found


__all__ = ["OffsiteError", "World"]
