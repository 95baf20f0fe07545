"""Random courses of two Kubernetes clusters over one repository, whose resources are one backup.

The world's dimensions: people who edit, delete and make anew in either cluster; operators that are away for long, that
see an old spec, and that die in the middle; agents that sleep, die, and are begun in both; slots of each cluster that
somebody else has; a cluster that is brought back as it was before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import ExpiryNotDone, LeaseHeld, ResourceConflict
from offsite.operator.core import all_keepers, backup_keeper
from offsite.operator.core.accounts import Accounts
from offsite.operator.core.backup_keeper import DECLARED_OTHERWISE, BackupKeeper
from offsite.operator.core.keeper import NoteWriter, Reconciled
from offsite.operator.core.records import Edit, ResourceRecord
from offsite.operator.decide import backup as stages
from offsite.operator.decide.desired import Account, DesiredAgents, DesiredBackup, RepositoryPlace, resolve_backup
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.resources.backup import FINALIZER, Backup, DesiredBackupState
from offsite.operator.work import expire as expiry
from offsite.operator.work.expire import ExpiryRequest, expire
from offsite.operator.world import membership
from offsite.operator.world.backups import BackupExecutor
from offsite.operator.world.claims import Slots
from offsite.operator.world.membership import statement_of
from offsite.operator.world.observe import BackupFacts, Observer, read_history
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    DeclaredEntryKind,
)
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import BackupMember, find_member, member_id, member_in_force
from offsite.repository.repository import Repository
from offsite.stores.store import Store
from tests.faulty_store import Crash, FaultyStore
from tests.memory_store import MemoryStore
from tests.virtual_time import SeededWorld
from tests.worlds.operator.world import WHOLE_AFTER, Agent, DeletionJob, identity

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000"))
STEPS, CALM_MAX = 60, 80
IDENTITY = "shop-everywhere"
ACCOUNT = Account(name="main", endpoint="/one", identities={IDENTITY: ()})
PLACE = RepositoryPlace(account="main", repository="/one")
OTHER = "other-0000"
"""A resource of the same cluster that makes its first copy for ever."""


@dataclass(slots=True)
class Launches:
    """What a keeper asks of launches."""

    accounts: Accounts = field(default_factory=lambda: Accounts(listed=(ACCOUNT,)))

    def check(self, agents: DesiredAgents) -> None: ...

    def properties(self, cluster: str) -> bytes:
        return b""

    def expiry(self, *_: object, **__: object) -> None: ...


class Home:
    """One cluster: its resource, its operator, its agents."""

    def __init__(self, world: SharedWorld, name: str) -> None:
        self.world, self.name = world, name
        self.record: ResourceRecord | None = None
        self.stale: ResourceRecord | None = None
        self.past: list[ResourceRecord] = []
        self.was_brought_back = False
        self.state = MemoryStore(world.clock)
        self.wanted: dict[str, DesiredAgents] = {}
        self.agents: list[Agent] = []
        self.jobs: dict[str, DeletionJob] = {}
        self.away = 0
        self.kept: Reconciled | None = None
        self.keeper = BackupKeeper(
            records=self,
            agents=self,
            jobs=self,  # type: ignore[arg-type]  # what it asks of them
            notes=NoteWriter(clock=world.clock),
            clock=world.clock,
            launches=Launches(),  # type: ignore[arg-type]
        )

    def make(self, **spec: Any) -> None:
        self.world.made += 1
        uid = f"{self.name}-{self.world.made:08d}"
        self.record = ResourceRecord(
            kind="Backup",
            name="shop",
            uid=uid,
            generation=1,
            spec={"identity": IDENTITY, "agents": {"replicas": 2}, **spec},
            source="",
            created_ms=1,
            finalizers=(FINALIZER,),
        )
        self.stale, self.past, self.was_brought_back = None, [], False

    def look(self, *, faults: bool) -> None:
        """One look, in which the operator may die, and which may be by an older spec."""
        rng = self.world.rng
        if self.record is None:
            return
        fails_at = rng.randint(0, 10) if faults and rng.random() < 0.4 else -1
        store = FaultyStore(self.world.store, fails_at=fails_at, after=rng.random() < 0.5)  # type: ignore[arg-type]
        eyes = Observer(open_store=lambda _: store, facts=self.world, agents=self, identity=identity(self.name))
        slots = Slots(self.state, limit=1)  # type: ignore[arg-type]
        self.keeper.executor = BackupExecutor(observer=eyes, slots=slots, seal=lambda *_: None, in_force=self.in_force)
        record = self.stale if faults and self.stale is not None and rng.random() < 0.3 else self.record
        with suppress(Crash, LeaseHeld, ResourceConflict):
            if not record.is_deleted:
                self.kept = self.keeper.keep(record)
                self.world.check_asked(self)
            elif self.keeper.let_go(record) is None:
                self.record, self.kept = None, None
            elif record.uid in self.keeper.expiry_requests:
                self.run_job(record.uid, fails_at)
        self.keeper._unchanged.clear()

    def in_force(self, wanted: DesiredBackup, kind: DeclaredEntryKind) -> bool:
        now = self.record
        is_same = now is not None and now.uid == wanted.uid and now.generation == wanted.generation
        return is_same and not (now is not None and now.is_deleted and kind in all_keepers._BEGINS)

    def run_job(self, uid: str, fails_at: int) -> None:
        repository = Repository.open(FaultyStore(self.world.store, fails_at=fails_at))  # type: ignore[arg-type]
        asked = ExpiryRequest(
            uid=IDENTITY, repositories=[repository], policy=None, minimum_ms=0, is_deletion=True, member=uid
        )
        self.jobs[uid] = DeletionJob(has_deleted=False)
        with suppress(ExpiryNotDone):
            expire(asked, clock=SystemClock())
            self.jobs[uid] = DeletionJob(has_deleted=True)

    def run_agents(self) -> None:
        asked = next(iter(self.wanted.values()), None)
        replicas = asked.replicas if asked is not None else 0
        for gone in self.agents[replicas:]:
            gone.leave(self.world)  # type: ignore[arg-type]
            self.agents.remove(gone)
        while len(self.agents) < replicas:
            self.agents.append(Agent(f"{self.name}-{self.world.rng.random()}", IDENTITY))
        for agent in self.agents if asked is not None else ():
            agent.step(self.world, asked)  # type: ignore[arg-type]

    # -- ports ---------------------------------------------------------------------------------------------------------

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        self.record = edit(self.record)
        return self.record

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        return self.record

    def uids(self) -> tuple[str, ...]:
        return ()

    def observe(self, uid: str) -> ObservedAgents:
        ready = sum(not agent.frozen for agent in self.agents)
        return ObservedAgents(configured=self.wanted.get(uid), ready=ready)

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        if agents is None:
            self.wanted.pop(uid, None)
        else:
            self.wanted[uid] = agents

    def alive(self, uid: str) -> int:
        return len(self.agents) if uid in self.wanted else 0

    def unseen(self, uid: str) -> int:
        return 0

    def problem(self, uid: str) -> str:
        return ""

    def job(self, uid: str) -> DeletionJob | None:
        return self.jobs.get(uid)

    def stop_other(self, uid: str, words: str) -> None: ...


class SharedWorld(SeededWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.made = self.changes = 0
        self.store = MemoryStore(self.clock)
        self.stores = {PLACE: self.store}
        self.progress: dict[str, int] = {}
        self.copied_ms: dict[str, int] = {}
        self.copying = ""
        Repository.init(self.store)  # type: ignore[arg-type]
        self.homes = [Home(self, "one"), Home(self, "two")]
        for home in self.homes:
            home.make()

    # -- what people, machines and time do -----------------------------------------------------------------------------

    def happen(self) -> None:
        home, event = self.rng.choice(self.homes), self.rng.random()
        if event < 0.22:
            self.edit(home)
        elif event < 0.28:
            self.delete(home)
        elif event < 0.34 and home.record is None:
            home.make(**self.spec())
        elif event < 0.40:
            home.away = self.rng.randint(1, 15)
        elif event < 0.46 and home.agents:
            self.rng.choice(home.agents).frozen = self.rng.randint(1, 12)
        elif event < 0.50 and home.agents:
            home.agents.remove(self.rng.choice(home.agents))
        elif event < 0.54:
            slots = Slots(home.state, limit=1)  # type: ignore[arg-type]
            (slots.give if OTHER in slots.holders() else slots.take)(OTHER)
        elif event < 0.57:
            self.bring_back(home)

    def spec(self) -> dict[str, Any]:
        return {
            "state": self.rng.choice(["running", "running", "paused", "stopped"]),
            "tag": self.rng.choice(["default", "default", "new"]),
            "topics": self.rng.choice([["*"], ["*"], ["orders"]]),
            "snapshotDuration": self.rng.choice(["7d", "1d"]),
            "expiry": {"maximumRetention": self.rng.choice(["", "30d", "1d"])},
            "agents": {"replicas": self.rng.choice([0, 1, 2])},
        }

    def edit(self, home: Home) -> None:
        """Often as the other one is."""
        before = home.record
        if before is None or before.is_deleted:
            return
        other = next(each for each in self.homes if each is not home).record
        spec = dict(other.spec) if other is not None and self.rng.random() < 0.4 else self.spec()
        home.stale = before
        home.past.append(before)
        home.record = replace(before, spec={**spec, "identity": IDENTITY}, generation=before.generation + 1)
        self.changes += 1

    def bring_back(self, home: Home) -> None:
        """Its generation goes on from there."""
        if home.past and home.record is not None and not home.record.is_deleted:
            home.record = replace(self.rng.choice(home.past), places=home.record.places)
            home.stale, home.was_brought_back = None, True

    def delete(self, home: Home) -> None:
        if home.record is not None and not home.record.is_deleted:
            home.record = replace(home.record, deletion_ms=self.now_ms)
            home.stale = None

    def step(self) -> None:
        self.happen()
        for home in self.homes:
            home.away = max(0, home.away - 1)
            if not home.away and self.rng.random() < 0.7:
                home.look(faults=True)
                self.check()
        self.now_ms += self.rng.choice([1000, 5000, 5000, 40_000])
        self.copying = ""
        for home in self.homes:
            home.run_agents()
        self.check()

    def copied(self, agent: Agent, place: RepositoryPlace, low: LowLevelBackup) -> None:
        assert not self.copying, f"{self.copying} and {agent.name} copy at once"
        name = low.beginning.backup
        self.copying = agent.name
        self.progress[name] = self.progress.get(name, 0) + 1
        self.copied_ms[name] = self.now_ms

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        done = self.progress.get(backup, 0)
        latest_ms = self.copied_ms.get(backup, -1)
        return BackupFacts(is_whole=done >= WHOLE_AFTER, latest_commit=done, latest_ms=latest_ms)

    # -- what is held at any moment ------------------------------------------------------------------------------------

    def check(self) -> None:
        history = read_history(self.store, IDENTITY)  # type: ignore[arg-type]
        assert sum(low.phase.is_live for low in history.backups) <= 1, "there are several live backups"
        is_shared = False
        for home in self.homes:
            if (record := home.record) is not None and not record.is_deleted:
                member = find_member(history.members, member_id(IDENTITY, record.uid))
                assert member is None or not member.is_gone, f"{record.uid} is there, and let go"
                is_shared = is_shared or member is not None
        going = {low.number for low in history.backups if low.phase in {BackupPhase.REMOVING, BackupPhase.REMOVED}}
        assert not (is_shared and going - self.went), "a backup goes while a resource is there that shares it"
        self.went = going
        kinds = self.kinds()
        assert kinds.count(DeclaredEntryKind.JOINED) <= self.made
        assert kinds.count(DeclaredEntryKind.DECLARED) <= self.changes, "somebody speaks whom nobody has changed"
        words = sum(
            kinds.count(kind) for kind in (DeclaredEntryKind.JOINED, DeclaredEntryKind.DECLARED, DeclaredEntryKind.LEFT)
        )
        for kind in (
            DeclaredEntryKind.STARTED,
            DeclaredEntryKind.STOPPED,
            DeclaredEntryKind.PAUSED,
            DeclaredEntryKind.RESUMED,
            DeclaredEntryKind.MODIFIED,
        ):
            assert kinds.count(kind) <= words, f"{kind}: one undoes what the other one does"

    went: set[int] = frozenset()  # type: ignore[assignment]

    def check_asked(self, home: Home) -> None:
        """Old data goes only where all that are there declare so."""
        if home.record is not None and home.record.uid in home.keeper.expiry_requests:
            members = read_history(self.store, IDENTITY).members  # type: ignore[arg-type]
            told = {dict(member.fields)["expiry.maximumRetention"] for member in members if not member.is_gone}
            assert len(told) == 1

    def kinds(self) -> list[DeclaredEntryKind]:
        found = self.store.list(DeclaredLayout(uid=IDENTITY).ledger_prefix)
        return [DECLARED_ENTRY.decode(self.store.get(info.key) or b"", key=info.key).kind for info in found]


def played(seed: int) -> SharedWorld:
    world = SharedWorld(seed)
    try:
        for _ in range(STEPS):
            world.step()
        calm(world)
        check_end(world)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return world


def calm(world: SharedWorld) -> None:
    """No faults any more: the ledger rests though both operators look on, whatever they declare."""
    quiet, before = 0, -1
    for home in world.homes:
        Slots(home.state, limit=1).give(OTHER)  # type: ignore[arg-type]
        home.away = 0
    for _ in range(CALM_MAX):
        for home in world.homes:
            home.look(faults=False)
            world.check()
        world.now_ms += 20_000
        world.copying = ""
        for home in world.homes:
            for agent in home.agents:
                agent.frozen = 0
            home.run_agents()
        entries = len(world.kinds())
        quiet, before = (quiet + 1 if entries == before else 0), entries
        if quiet >= 8:
            return
    raise AssertionError(f"it comes to no rest: {world.kinds()[-12:]}")


def check_end(world: SharedWorld) -> None:
    history = read_history(world.store, IDENTITY)  # type: ignore[arg-type]
    there = [home for home in world.homes if home.record is not None]
    assert not any(home.record is not None and home.record.is_deleted for home in there), "a deletion does not end"
    if not there:
        phases = {low.phase for low in history.backups}
        assert all(member.is_gone for member in history.members)
        assert phases <= {BackupPhase.REMOVED}, f"all are deleted, and its backups are {phases}"
        return
    counts = member_in_force(history.members)
    assert counts is not None
    wanted = {home.name: resolve_backup(backup_of(home), (ACCOUNT,)) for home in there}
    same = [home for home in there if dict(wanted[home.name].shared) == dict(counts.fields)]
    assert same or any(home.was_brought_back for home in there), "what counts is declared by nobody"
    for home in there:
        told = {each.type for each in home.kept.conditions if not each.is_note} if home.kept is not None else set()
        assert (DECLARED_OTHERWISE in told) == (home not in same)
    if any(home.kept is None or home.kept.status is None for home in there):
        raise AssertionError("it was not looked at")
    if any(wanted[home.name].agents.replicas for home in same):
        check_live(history.live, wanted[same[0].name])
    assert all(statement_of(each).id in {member.id for member in history.members} for each in wanted.values())


def check_live(live: LowLevelBackup | None, wanted: DesiredBackup) -> None:
    if wanted.state is DesiredBackupState.STOPPED:
        assert live is None
        return
    assert live is not None
    assert live.phase is (BackupPhase.PAUSED if wanted.state is DesiredBackupState.PAUSED else BackupPhase.RUNNING)
    assert (live.beginning.tag, live.beginning.topics) == (wanted.beginning.tag, wanted.beginning.topics)
    assert live.settings == wanted.settings


def backup_of(home: Home) -> Backup:
    assert home.record is not None
    found = home.record.resource()
    assert isinstance(found, Backup)
    return found


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_two_clusters_over_one_repository_are_one_backup(first: int) -> None:
    for seed in range(first, first + 8):
        played(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(3600)
def test_two_clusters_over_one_repository_are_one_backup_in_many_courses() -> None:
    for seed in range(SEEDS // 5):
        played(seed)


def _acts_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        backup_keeper, "decide_standing", lambda *given: replace(membership.decide_standing(*given), stands_by=False)
    )


def _lets_go_though_they_differ(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        backup_keeper, "decide_standing", lambda *given: replace(membership.decide_standing(*given), lets_go=True)
    )


def _asks_for_no_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backup_keeper, "list_present", lambda *_: [])


def _no_job_asks_either(patch: pytest.MonkeyPatch) -> None:
    _asks_for_no_others(patch)
    patch.setattr(expiry, "_check_members", lambda *_: None)


def _never_says_that_it_leaves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backup_keeper, "leave", lambda eyes, ledger, _, place: read_history(eyes.open_store(place), ledger))


def _who_joins_counts(patch: pytest.MonkeyPatch) -> None:
    def newest_word(members: Sequence[BackupMember]) -> BackupMember | None:
        speaking = [member for member in members if member.has_word]
        return max(speaking, key=lambda member: max(member.declared, member.joined), default=None)

    patch.setattr(membership, "member_in_force", newest_word)


def _rests_what_others_copy(patch: pytest.MonkeyPatch) -> None:
    alone = stages._copy_first
    patch.setattr(stages, "_copy_first", lambda wanted, *given: alone(replace(wanted, identity=""), *given))


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize(
    "mistake",
    [
        _acts_all_the_same,
        _lets_go_though_they_differ,
        _asks_for_no_others,
        _no_job_asks_either,
        _never_says_that_it_leaves,
        _who_joins_counts,
        _rests_what_others_copy,
    ],
)
def test_each_mistake_is_caught(mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        all(map(played, range(200)))
