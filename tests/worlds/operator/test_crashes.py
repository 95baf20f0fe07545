"""Random courses of edits, crashes at any write, and two operators in one folder: what is declared comes about, a
resource has one uid, and is let go once."""

from __future__ import annotations

import logging
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsite.operator.core import files
from offsite.operator.decide.queue import QueueRules
from offsite.operator.folder.operator import FolderOperator, OperatorRules
from offsite.repository import lease
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger, declared_uids
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import ObjectInfo
from tests.backups import SELECTION, commit_next
from tests.unit.operator.folder.home import Home, opened_home, resource

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "300"))
NAMES = ("shop", "fair")
STEPS, CALM_MAX = 14, 400
AGENT = ("/bin/sh", "-c", '[ "$2" = expire ] || exec sleep 600', "offsite")
"""A command that plays agents, and expiry jobs that end well."""


class Crash(BaseException):
    """The operator dies here."""


class Faults:
    """Crashes before or behind the write that has the number `at`."""

    def __init__(self) -> None:
        self.at, self.behind = -1, False

    def counted(self, write: Any) -> Any:
        def faulty(*arguments: Any, **options: Any) -> Any:
            self.at -= 1
            if self.at == 0 and not self.behind:
                raise Crash
            done = write(*arguments, **options)
            if self.at == 0:
                raise Crash
            return done

        return faulty


class Course:
    def __init__(self, home: Home, faults: Faults, seed: int) -> None:
        self.home, self.faults, self.rng = home, faults, random.Random(seed)
        self.operators = [self.operator(), self.operator()]
        self.declared: dict[str, dict[str, Any]] = {}
        self.uids: dict[str, str] = {}
        self.cellar = Repository.init(PosixStore(root=home.root.parent / "cellar"))
        accounts = yaml.safe_load(home.layout.accounts.read_text())
        accounts.append({"name": "cellar", "endpoint": self.cellar.store.url})
        home.layout.accounts.write_text(yaml.safe_dump(accounts))

    def operator(self) -> FolderOperator:
        queue = QueueRules(retry_s=5)
        rules = OperatorRules(command=AGENT, queue=queue, initial_copies=1, absent_after_s=30, settle_s=6)
        return FolderOperator(self.home.layout, rules, clock=self.home.clock)

    def edit(self) -> None:
        name = self.rng.choice(NAMES)
        path = self.home.root / f"{name}.yaml"
        if name in self.declared and self.rng.random() < 0.3:
            del self.declared[name]
            path.unlink()
            self.home.pass_s(self.rng.choice([1, 15]))
            return
        spec = {
            "cluster": "shop",
            "state": self.rng.choice(["running", "running", "paused", "stopped"]),
            "tag": self.rng.choice(["default", "new"]),
            "snapshotDuration": self.rng.choice(["1d", "7d"]),
            "agents": {"replicas": 1},
            "expiry": {"deletionFinalizer": self.rng.random() < 0.8},
            "destination": {
                "account": self.rng.choice(["main", "main", "cellar"]),
                "timestampFormat": f"-2006-{self.home.clock.ms}",
            },
        }
        self.declared[name] = spec
        self.home.put(path.name, resource(name, **spec))

    def look(self, number: int) -> None:
        self.faults.at = self.rng.randint(1, 12) if self.rng.random() < 0.5 else -1
        self.faults.behind = self.rng.random() < 0.5
        try:
            self.operators[number].look()
        except Crash:
            self.operators[number] = self.operator()
        finally:
            self.faults.at = -1
        self.check()

    def check(self) -> None:
        for record in self.operators[0].records.all():
            assert self.uids.setdefault(record.uid, record.name) == record.name
        for repository in (self.home.repository, self.cellar):
            for uid in declared_uids(repository.store):
                assert uid in self.uids, "a backup of a resource that nobody knows"
        for uid in self.uids:
            assert sum(low.phase.is_live for _, low in self.lows(uid)) <= 1, "two live backups of one resource"

    def lows(self, uid: str) -> list[tuple[Repository, LowLevelBackup]]:
        """The low-level backups of a resource, wherever they are."""
        layout = DeclaredLayout(uid=uid)
        return [
            (repository, low)
            for repository in (self.home.repository, self.cellar)
            for low in declared_ledger(repository.store, layout.uid).read().backups
        ]

    def calm(self) -> None:
        for _ in range(CALM_MAX):
            for operator in self.operators:
                look = operator.look()
            self.home.pass_s(4)
            self.copy()
            if not look.waiting and self.is_as_declared():
                return
        raise AssertionError(look.waiting)

    def copy(self) -> None:
        for record in self.operators[0].records.all():
            for repository, low in self.lows(record.uid):
                if low.phase is BackupPhase.RUNNING:
                    backup = repository.create_backup(
                        low.beginning.backup, cluster_id="c", selection=SELECTION, declared_by=record.uid
                    )
                    commit_next(backup, backup.state())

    def is_as_declared(self) -> bool:
        records = {each.name: each for each in self.operators[0].records.all()}
        if records.keys() != self.declared.keys():
            return False
        lost = [uid for uid in self.uids if uid not in {each.uid for each in records.values()} and self.live(uid)]
        assert not lost, "backups that nobody looks after any more"
        return all(self.is_in_state(records[name].uid, spec) for name, spec in self.declared.items())

    def live(self, uid: str) -> list[tuple[str, str]]:
        return [(at.store.url, low.phase.value) for at, low in self.lows(uid) if low.phase.is_live]

    def is_in_state(self, uid: str, spec: dict[str, Any]) -> bool:
        at = self.cellar if spec["destination"]["account"] == "cellar" else self.home.repository
        wanted = [] if spec["state"] == "stopped" else [(at.store.url, spec["state"])]
        return self.live(uid) == wanted


@contextmanager
def gone() -> Iterator[Counter[str]]:
    """How often each resource went, by its uid."""
    found: Counter[str] = Counter()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            if said.startswith("resource_gone"):
                found.update(re.findall(r"uid=(\S+)", said))

    journal, listener = logging.getLogger("offsite.journal"), Listener()
    before = journal.level
    journal.setLevel(logging.INFO)
    journal.addHandler(listener)
    try:
        yield found
    finally:
        journal.removeHandler(listener)
        journal.setLevel(before)


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    faults = Faults()
    with opened_home(tmp_path, monkeypatch) as home, monkeypatch.context() as patched, gone() as left:
        course = Course(home, faults, seed)
        patched.setattr(lease, "TTL_S", -1.0)  # one operator at a time lives here: who holds a lock has crashed
        keep_time(patched, home)
        patched.setattr(files.Path, "replace", faults.counted(files.Path.replace))
        patched.setattr(PosixStore, "put_if_absent", faults.counted(PosixStore.put_if_absent))
        for _ in range(STEPS):
            course.edit()
            for _ in range(course.rng.randint(1, 3)):
                course.look(course.rng.randrange(2))
                home.pass_s(course.rng.choice([1, 4, 12]))
        course.calm()
    assert all(count == 1 for count in left.values()), left


def keep_time(patched: pytest.MonkeyPatch, home: Home) -> None:
    """Let stores have the clock of the home: by the machine's, which is set now and then, a lease of a moment ago may
    lie in the future, and count."""
    head, listed = PosixStore.head, PosixStore.list
    since: dict[tuple[str, str], int] = {}

    def at_hand(store: PosixStore, found: ObjectInfo | None) -> ObjectInfo | None:
        if found is None:
            return None
        return replace(found, modified_ms=since.setdefault((store.url, found.key), home.clock.ms))

    patched.setattr(PosixStore, "now_ms", lambda _: home.clock.ms)
    patched.setattr(PosixStore, "head", lambda store, key: at_hand(store, head(store, key)))
    patched.setattr(
        PosixStore,
        "list",
        lambda store, prefix, **words: (at_hand(store, each) for each in listed(store, prefix, **words)),
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_declared_comes_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    play(tmp_path, monkeypatch, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_what_is_declared_comes_about_in_many_courses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEEDS):
        (tmp_path / str(seed)).mkdir()
        try:
            play(tmp_path / str(seed), monkeypatch, seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
