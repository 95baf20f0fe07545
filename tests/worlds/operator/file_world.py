"""A world for what operators conclude from files, by a seed.

Its dimensions: files that are away and come back, or stay away; files that are cut and mended, or stay cut, or are
written slowly; resources that are renamed in their file; accounts whose order changes, and endpoints that are spelt in
several ways; edits that cannot work, and are undone; what is applied and deleted by command; two operators with two
wall clocks that are set, and two monotonic ones; operators that begin anew, or are stopped for an hour between looks.

Truth is known here: since when a file holds what it holds. Nothing may be concluded that the truth does not bear out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import yaml

from offsite.model.errors import BadResource
from offsite.operator.core.records import Edit, ResourceRecord
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace, resolve_backup
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.folder.declarations import Admissions, DeclaredDocuments, Document, digest_of, documents_of
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.model import ResourceKey
from offsite.operator.world.backups import BackupExecutor, ReconciledBackup, reconcile
from offsite.operator.world.claims import Slots
from offsite.operator.world.observe import BackupFacts, Observer, RepositoryAliases, find_current_account, read_history
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.store import Store
from tests.memory_store import MemoryStore
from tests.virtual_time import MachineClock, SeededWorld

ABSENT_S, SETTLE_S = 600.0, 12.0
ONE, TWO = (Account(name="main", endpoint="memory:///one"), Account(name="cellar", endpoint="memory:///two"))
FILES = {"a.yaml": ("shop", "fair"), "b.yaml": ("till",)}
"""By the name of a file the resources that it declares at first."""


@dataclass(slots=True)
class File:
    """`text`: None while it is away; `whole`: what its author means it to hold."""

    whole: str
    text: str | None


@dataclass(slots=True)
class MemoryRecords:
    """Records of one folder: one change at a time."""

    held: dict[ResourceKey, ResourceRecord] = field(default_factory=dict)

    def all(self) -> Sequence[ResourceRecord]:
        return tuple(self.held.values())

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        return self.held.get((kind, name))

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        after = edit(self.held.get((kind, name)))
        if after is None:
            self.held.pop((kind, name), None)
        else:
            self.held[kind, name] = after
        return after


class FileWorld(SeededWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.accounts = [ONE, TWO]
        self.stores = {each.endpoint: MemoryStore(self.clock) for each in (ONE, TWO)}
        for store in self.stores.values():
            Repository.init(store)  # type: ignore[arg-type]
        self.home = MemoryStore(self.clock)
        self.stores["memory:///two"].put_if_absent("backups/taken/backup.json", b"somebody else's")
        self.specs: dict[str, dict[str, Any]] = {name: new_spec() for names in FILES.values() for name in names}
        texts = {file: text_of(self.specs, names) for file, names in FILES.items()}
        self.files = {file: File(text, text) for file, text in texts.items()}
        self.declares = {file: list(names) for file, names in FILES.items()}
        self.applied: set[str] = set()
        self.asked: set[str] = set()
        self.records = MemoryRecords()
        self.clocks = [
            MachineClock(self.clock, started_s=17.0),
            MachineClock(self.clock, started_s=90_000.0, ahead_ms=60_000),
        ]
        self.admissions = [self.begin(clock) for clock in self.clocks]
        self.places = [RepositoryAliases(), RepositoryAliases()]
        self.agents: dict[str, DesiredAgents] = {}
        self.begun: dict[str, int] = {}
        self.restarts: dict[str, int] = {}
        self.absent_since: list[dict[str, float]] = [{}, {}]
        self.first_s: dict[tuple[str, str], float] = dict.fromkeys(texts.items(), 0.0)

    def begin(self, clock: MachineClock) -> Admissions:
        """A process that has seen nothing yet."""
        return Admissions(
            records=self.records,
            is_whole=lambda document: document.digest in self.applied,
            clock=clock,
            absent_after_s=ABSENT_S,
            settle_s=SETTLE_S,
        )

    # -- what people, disks and machines do ----------------------------------------------------------------------------

    def happen(self) -> None:
        file = self.rng.choice(list(self.files))
        often = (self.save, self.cut, self.mend, self.mend, self.away, self.back, self.back)
        seldom = (self.rename, self.exchange_accounts, self.spell, self.apply, self.set_clock, self.begin_anew)
        event = self.rng.choice([*often, *[self.save] * 4, *seldom, self.delete])
        event(file)

    def put(self, file: str, text: str | None) -> None:
        if self.files[file].text != text:
            self.files[file].text = text
            if text is not None:
                self.first_s.setdefault((file, text), self.clock.now_s)

    def save(self, file: str) -> None:
        """Somebody edits a resource. Some saves are slow: the beginning of the file is there first."""
        if not self.declares[file]:
            return
        name = self.rng.choice(self.declares[file])
        self.specs[name] = change(self.rng, self.specs[name])
        self.files[file].whole = text_of(self.specs, self.declares[file])
        if self.rng.random() < 0.3:
            self.cut(file)
        else:
            self.put(file, self.files[file].whole)

    def cut(self, file: str) -> None:
        whole = self.files[file].whole
        self.put(file, whole[: self.rng.randrange(len(whole))] if whole else "")

    def mend(self, file: str) -> None:
        self.put(file, self.files[file].whole)

    def away(self, file: str) -> None:
        self.put(file, None)

    def back(self, file: str) -> None:
        self.put(file, self.files[file].whole)

    def rename(self, file: str) -> None:
        if not self.declares[file] or self.rng.random() < 0.5:
            return
        before = self.declares[file].pop()
        after = f"{before[:4]}{len(self.specs)}"
        self.specs[after] = self.specs[before]
        self.declares[file].append(after)
        self.files[file].whole = text_of(self.specs, self.declares[file])
        self.put(file, self.files[file].whole)

    def exchange_accounts(self, _: str) -> None:
        self.accounts.reverse()

    def spell(self, _: str) -> None:
        """An endpoint is written in another way: it is the same place."""
        number = self.rng.randrange(2)
        url = self.accounts[number].endpoint
        spelt = url.rstrip("/") if url.endswith("/") else f"{url}/"
        self.accounts[number] = replace(self.accounts[number], endpoint=spelt)

    def apply(self, file: str) -> None:
        """By command: whole, and known to be."""
        self.applied.add(digest_of(self.files[file].whole.encode()))
        self.put(file, self.files[file].whole)

    def delete(self, file: str) -> None:
        """By command, and seldom."""
        if self.rng.random() > 0.2 or len(self.declares[file]) != 1:
            return
        (name,) = self.declares[file]
        self.declares[file], self.files[file].whole = [], ""
        self.put(file, None)

        def edit(record: ResourceRecord | None) -> ResourceRecord | None:
            if record is None:
                return None
            self.asked.add(record.uid)
            return replace(record, deletion_ms=self.clocks[0].now_ms())

        self.records.change("Backup", name, edit)

    def set_clock(self, _: str) -> None:
        self.rng.choice(self.clocks).ahead_ms = self.rng.choice([-86_400_000, -60_000, 0, 60_000, 3_600_000, 10**11])

    def begin_anew(self, _: str) -> None:
        number = self.rng.randrange(2)
        self.admissions[number], self.places[number] = self.begin(self.clocks[number]), RepositoryAliases()
        self.absent_since[number] = {}

    def pass_time(self) -> None:
        self.clock.now_s += self.rng.choice([1, 2, 2, 2, 5, 30, 200, 3700 if self.rng.random() < 0.3 else 2])

    # -- what operators do ---------------------------------------------------------------------------------------------

    def look(self, number: int) -> dict[str, ReconciledBackup]:
        declared = self.declared()
        self.note_truth(number, declared)
        before = dict(self.records.held)
        self.told = self.admissions[number].admit_all(declared)
        self.check_admitted(number, before)
        done = dict[str, ReconciledBackup]()
        for record in self.records.all():
            if not record.is_deleted:
                try:
                    done[record.name] = self.reconciled(record, self.hands(number), self.places[number])
                except BadResource:  # it names an account that there is not: its file was cut
                    continue
        self.check_backups()
        return done

    def declared(self) -> DeclaredDocuments:
        """As `read_declared`, of what is on the disk."""
        documents, unclear = list[Document](), dict[str, str]()
        for name, file in self.files.items():
            if file.text is not None:
                try:
                    documents += read(file.text, name)
                except BadResource as error:
                    unclear[name] = error.message
        return DeclaredDocuments(documents=tuple(documents), unclear=unclear)

    def reconciled(self, record: ResourceRecord, hands: BackupExecutor, places: RepositoryAliases) -> ReconciledBackup:
        """As the keeper of backups does it."""
        backup = record.resource()
        assert isinstance(backup, Backup)
        named = backup.spec.destination.account
        kept = "" if named else find_current_account(hands.observer, record.uid, record.places)
        wanted = resolve_backup(backup, self.accounts, current_account=kept)
        distinct = places.distinct(hands.observer, record.uid, (*record.places, wanted.place))
        noted = self.records.change(*record.key, lambda now: now and replace(now, places=distinct))
        assert noted is not None
        live = self.live(record.uid)
        done = reconcile(hands, wanted, distinct)
        if live and [low.number for _, low in self.live(record.uid)] != [low.number for _, low in live]:
            begun = live[0][1].beginning
            asked, place = wanted.beginning, wanted.place.repository.rstrip("/")
            is_moved = (live[0][0], begun.path, begun.tag) != (place, asked.path, asked.tag)
            assert is_moved or wanted.state.value == "stopped", f"{record.name} was stopped for nothing"
            has_time = bool(backup.spec.destination.timestamp_format)  # else the name is that of somebody else's
            can_begin = has_time or (asked.path, place) != ("taken", "memory:///two")
            assert can_begin or wanted.state.value == "stopped", f"{record.name} was stopped for what cannot begin"
            assert named or live[0][0] == place, f"{record.name} was moved by the order of accounts"
        return done

    def hands(self, number: int) -> BackupExecutor:
        identity = ProcessIdentity(host=f"h{number}", boot=f"h{number}", namespace="", pid="1", started="1", user="t")
        eyes = Observer(open_store=self.open, facts=self, agents=self, identity=identity)
        return BackupExecutor(observer=eyes, slots=Slots(self.home, limit=9), seal=lambda *_: None)  # type: ignore[arg-type]

    def open(self, place: RepositoryPlace) -> Store:
        return self.stores[place.repository.rstrip("/")]  # type: ignore[return-value]

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:  # it is whole at once
        return BackupFacts(is_whole=True, latest_commit=1, latest_ms=store.now_ms())

    def observe(self, uid: str) -> ObservedAgents:
        return ObservedAgents(configured=self.agents.get(uid), ready=9)

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        if agents is not None:
            self.agents[uid] = agents

    # -- the truth, and what it bears out ------------------------------------------------------------------------------

    def note_truth(self, number: int, declared: DeclaredDocuments) -> None:
        """What this operator could see: between its looks it sees nothing."""
        absent_since = self.absent_since[number]
        there = {each.key[1] for each in declared.documents}
        for name in {record.name for record in self.records.all()} | there:
            if name in there or declared.unclear:
                absent_since.pop(name, None)
            else:
                absent_since.setdefault(name, self.clock.now_s)

    def check_admitted(self, number: int, before: dict[ResourceKey, ResourceRecord]) -> None:
        for key, record in self.records.held.items():
            was = before.get(key)
            if record.is_deleted and (was is None or not was.is_deleted):
                away_s = self.clock.now_s - self.absent_since[number].get(record.name, self.clock.now_s)
                assert away_s >= ABSENT_S, f"{record.name} was deleted after {away_s:.0f} s"
            if was is None or was.generation != record.generation:
                text = self.files[record.source].text
                assert text is not None
                old_s = self.clock.now_s - self.first_s[record.source, text]
                is_known = digest_of(text.encode()) in self.applied
                assert is_known or old_s >= SETTLE_S, f"{record.name} was changed by bytes {old_s:.0f} s old"

    def check_backups(self) -> None:
        for record in self.records.all():
            assert len(self.live(record.uid)) <= 1, f"{record.name} has two live backups"

    def live(self, uid: str) -> list[tuple[str, LowLevelBackup]]:
        return [(url, low) for url, low in self.lows(uid) if low.phase.is_live]

    def lows(self, uid: str) -> list[tuple[str, LowLevelBackup]]:
        return [(url, low) for url, store in self.stores.items() for low in read_history(store, uid).backups]  # type: ignore[arg-type]

    # -- calm ----------------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Files are whole, nothing happens any more: what is declared comes about."""
        for file, at in self.files.items():
            self.put(file, at.whole if self.declares[file] else None)
        names = {name for each in self.declares.values() for name in each}
        for number_of in range(1, 200):
            for number in range(2):
                done = self.look(number)
            for record in self.records.all():  # jobs of the queue, and what follows them
                if record.is_deleted:
                    self.records.held.pop(record.key)
            self.clock.now_s += 2 if number_of % 16 else ABSENT_S / 4
            held = {record.name for record in self.records.all()}
            if held == names and self.is_as_declared(done):
                return
        raise AssertionError((held ^ names, {name: each.conditions for name, each in done.items()}))

    def is_as_declared(self, done: dict[str, ReconciledBackup]) -> bool:
        for name, spec in ((name, self.specs[name]) for each in self.declares.values() for name in each):
            record = self.records.find("Backup", name)
            assert record is not None
            if record.resource().spec.cluster != spec["cluster"]:  # type: ignore[attr-defined]
                assert self.told["Backup", name], f"{name} was made by a cut file, and nobody is told"
                continue
            if record.resource().spec.model_dump(by_alias=True)["topics"] != tuple(spec["topics"]):  # type: ignore[attr-defined]
                return False
            if record.resource().spec.state.value != spec["state"]:  # type: ignore[attr-defined]
                return False
            can_begin = spec["destination"].get("path") != "taken"
            if can_begin and (name not in done or done[name].conditions):
                return False
            if can_begin and spec["state"] == "running":
                ((_, low),) = self.live(record.uid)
                assert (low.phase, low.beginning.topics) == (BackupPhase.RUNNING, tuple(spec["topics"]))
        return True


@lru_cache(maxsize=4096)
def read(text: str, name: str) -> tuple[Document, ...]:
    """Courses look again and again at what is the same."""
    return tuple(documents_of(text, name))


def new_spec() -> dict[str, Any]:
    return {
        "cluster": "shop",
        "state": "running",
        "topics": ["orders", "payments"],
        "tag": "default",
        "destination": {},
        "snapshotDuration": "7d",
        "expiry": {"maximumRetention": "30d", "minimumRestorable": "7d"},
    }


def change(rng: random.Random, spec: dict[str, Any]) -> dict[str, Any]:
    """An edit, or what undoes one."""
    name, value = rng.choice(
        [
            ("topics", ["orders"]),
            ("topics", ["orders", "payments"]),
            ("topics", ["orders", "payments", "fees"]),
            ("tag", rng.choice(["default", "other"])),
            ("snapshotDuration", rng.choice(["1d", "7d"])),
            ("state", rng.choice(["running", "running", "stopped"])),
            ("destination", {"path": "taken", "timestampFormat": "", "account": "cellar"}),
            ("destination", {"path": "taken", "timestampFormat": "", "account": "cellar"}),
            ("destination", {}),
            ("destination", {}),
            ("destination", {"account": rng.choice(["main", "cellar"])}),
            ("expiry", {"maximumRetention": "30d"}),
        ]
    )
    return {**spec, name: value}


def text_of(specs: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
    documents = [
        {"apiVersion": "offsite.dev/v1alpha1", "kind": "Backup", "metadata": {"name": name}, "spec": specs[name]}
        for name in names
    ]
    return yaml.safe_dump_all(documents, sort_keys=False) if documents else ""
