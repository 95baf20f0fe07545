"""Caches the newest state of every backup: folding a state takes time in proportion to the backup, and every page shows
the state.

A cached state is the newest one until the next commit exists, which takes one request to the store. So a reader sees
the same state as a new reader, unless a formerly read object was damaged since. The overview reports such damage,
because the overview reads everything again; plans and changes do not use the cache.
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
_CACHED_MAX = 4
"""Cached commits, and cached earlier states: a preview of retention reads one or two of each."""


@dataclass(slots=True)
class StateCache:
    """The cache of one repository, for several threads: of threads with the same need, one thread folds the state."""

    _newest: dict[str, BackupState] = field(default_factory=dict)
    _earlier: OrderedDict[tuple[str, str, int], BackupState] = field(default_factory=OrderedDict)
    _commits: OrderedDict[tuple[str, str, int], StoredCommit | None] = field(default_factory=OrderedDict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folding: threading.RLock = field(default_factory=threading.RLock)
    _heads: dict[str, _Heads] = field(default_factory=dict)

    def of(self, backup: Backup) -> Backup:
        """Return `backup` with the cached newest state, if still the newest."""
        return _CachedBackup(store=backup.store, descriptor=backup.descriptor, on_damage=backup.on_damage, states=self)

    def newest(self, catalog: Catalog) -> BackupState:
        """Raises the errors of `Catalog.sound_state`."""
        name = catalog.log.layout.backup
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            state = self._newest.get(name)
            if state is None or self._heads.get(name) != self._head(catalog.log, state.seq):
                state = self._newest[name] = Catalog.sound_state(catalog)
                newest, following = self._head(catalog.log, state.seq)
                self._heads[name] = (newest, following if state.unreadable else None)
            return state

    def _head(self, log: CommitLog, seq: int) -> _Heads:
        """Return commit `seq` and the next commit as known to the store: a backup may have been restored from a copy,
        or created again. An unreadable next commit counts as absent while unchanged."""
        return log.store.head(log.layout.commit_key(seq)) if seq else None, _head_of(log, seq + 1)

    def earlier(self, name: str, upto: int, read: Callable[[], BackupState]) -> BackupState:
        """Return the state after commit `upto`, which no later commit changes. One state is folded at a time: every
        state is as large as the backup, and a watching caller may request as many as there are commits. Raises the
        errors of `read`."""

        def folded() -> BackupState:
            with self._folding:
                return read()

        return self._cached(self._earlier, name, upto, folded)

    def commit(self, name: str, seq: int, read: Callable[[], StoredCommit | None]) -> StoredCommit | None:
        """Return commit `seq`; None if absent (absence is not cached)."""
        return self._cached(self._commits, name, seq, read)

    def _cached(self, cache: OrderedDict[_Key, KeptT], name: str, seq: int, read: Callable[[], KeptT]) -> KeptT:
        """Cache by the newest known state: a restored backup may have other commits with the same numbers."""
        newest = self._newest.get(name)
        if newest is None or newest.seq < seq:
            return read()
        key = (name, newest.head_hash, seq)
        with self._lock:
            if key in cache:
                return cache[key]
        value = read()
        if value is not None:
            with self._lock:
                cache[key] = value
                while len(cache) > _CACHED_MAX:
                    cache.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedLog(CommitLog):
    states: StateCache

    def get(self, seq: int) -> StoredCommit | None:
        return self.states.commit(self.layout.backup, seq, lambda: CommitLog.get(self, seq))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedCatalog(Catalog):
    states: StateCache

    def sound_state(self) -> BackupState:
        return self.states.newest(self)

    def state(self, *, upto: int | None = None) -> BackupState:
        if upto is None:
            return Catalog.state(self)
        return self.states.earlier(self.log.layout.backup, upto, lambda: Catalog.state(self, upto=upto))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedBackup(Backup):
    states: StateCache

    @property
    def log(self) -> CommitLog:
        return _CachedLog(store=self.store, layout=self.layout, states=self.states)

    @property
    def catalog(self) -> Catalog:
        return _CachedCatalog(log=self.log, states=self.states)

    def state(self) -> BackupState:
        newest = self.catalog.sound_state()
        return Backup.state(self) if newest.unreadable else newest


def _head_of(log: CommitLog, seq: int) -> ObjectInfo | None:
    """None also if another kind of object lies at the key; a read reports the damage."""
    try:
        return log.store.head(log.layout.commit_key(seq))
    except DamagedObject:
        return None
