"""The newest state of each backup, folded once: to fold it takes as long as a backup is large, and every page shows it.

It is the newest one until the next commit is there, which is one question to the store. So whoever only looks sees what
whoever opens the backup anew would see, unless something that was read before is damaged since: the overview tells
that, which reads everything anew, and what plans or changes anything does not go by this.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.catalog import Catalog
from offsite.repository.commit import StoredCommit
from offsite.repository.commit_log import CommitLog
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo

KeptT = TypeVar("KeptT")
_Key: TypeAlias = tuple[str, str, int]
_Heads: TypeAlias = tuple[ObjectInfo | None, ObjectInfo | None]
_KEPT = 4
"""Commits, and states as of earlier ones, that are kept: a preview of retention reads one or two of each."""


@dataclass(slots=True)
class KnownStates:
    """Of one repository. For several threads: of those that need the same one, one folds it."""

    _found: dict[str, BackupState] = field(default_factory=dict)
    _earlier: OrderedDict[tuple[str, str, int], BackupState] = field(default_factory=OrderedDict)
    _commits: OrderedDict[tuple[str, str, int], StoredCommit | None] = field(default_factory=OrderedDict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folding: threading.RLock = field(default_factory=threading.RLock)
    _heads: dict[str, _Heads] = field(default_factory=dict)

    def of(self, backup: Backup) -> Backup:
        """`backup`, whose newest state is the known one where that is the newest still."""
        return _KnownBackup(store=backup.store, descriptor=backup.descriptor, on_damage=backup.on_damage, states=self)

    def newest(self, catalog: Catalog) -> BackupState:
        """Raises as `Catalog.sound_state`."""
        name = catalog.log.layout.backup
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            known = self._found.get(name)
            if known is None or self._heads.get(name) != self._head(catalog.log, known.seq):
                known = self._found[name] = Catalog.sound_state(catalog)
                newest, following = self._head(catalog.log, known.seq)
                self._heads[name] = (newest, following if known.unreadable else None)
            return known

    def _head(self, log: CommitLog, seq: int) -> _Heads:
        """Commit `seq` and the next one as the store knows them: a backup may have been put back, or made anew. What
        cannot be read is no next one, as long as it is the same."""
        return log.store.head(log.layout.commit_key(seq)) if seq else None, _head_of(log, seq + 1)

    def earlier(self, name: str, upto: int, read: Callable[[], BackupState]) -> BackupState:
        """The state after commit `upto`, which no later commit changes. One is folded at a time: each is as large as
        the backup, and whoever only watches may ask for as many as there are commits. Raises what `read` raises."""

        def folded() -> BackupState:
            with self._folding:
                return read()

        return self._kept(self._earlier, name, upto, folded)

    def commit(self, name: str, seq: int, read: Callable[[], StoredCommit | None]) -> StoredCommit | None:
        """Commit `seq`, or None where it is not there, which nobody keeps."""
        return self._kept(self._commits, name, seq, read)

    def _kept(self, kept: OrderedDict[_Key, KeptT], name: str, seq: int, read: Callable[[], KeptT]) -> KeptT:
        """By the newest state that is known: a backup that was put back may have other commits of the same numbers."""
        newest = self._found.get(name)
        if newest is None or newest.seq < seq:
            return read()
        key = (name, newest.head_hash, seq)
        with self._lock:
            if key in kept:
                return kept[key]
        found = read()
        if found is not None:
            with self._lock:
                kept[key] = found
                while len(kept) > _KEPT:
                    kept.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownLog(CommitLog):
    states: KnownStates

    def get(self, seq: int) -> StoredCommit | None:
        return self.states.commit(self.layout.backup, seq, lambda: CommitLog.get(self, seq))


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownCatalog(Catalog):
    states: KnownStates

    def sound_state(self) -> BackupState:
        return self.states.newest(self)

    def state(self, *, upto: int | None = None) -> BackupState:
        if upto is None:
            return Catalog.state(self)
        return self.states.earlier(self.log.layout.backup, upto, lambda: Catalog.state(self, upto=upto))


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownBackup(Backup):
    states: KnownStates

    @property
    def log(self) -> CommitLog:
        return _KnownLog(store=self.store, layout=self.layout, states=self.states)

    @property
    def catalog(self) -> Catalog:
        return _KnownCatalog(log=self.log, states=self.states)

    def state(self) -> BackupState:
        known = self.catalog.sound_state()
        return Backup.state(self) if known.unreadable else known


def _head_of(log: CommitLog, seq: int) -> ObjectInfo | None:
    """None too where something else lies in its place, which reading tells."""
    try:
        return log.store.head(log.layout.commit_key(seq))
    except DamagedObject:
        return None
