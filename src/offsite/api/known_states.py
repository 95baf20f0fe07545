"""The newest state of each backup, folded once: to fold it takes as long as a backup is large, and every page shows it.

It is the newest one until the next commit is there, which is one question to the store. So whoever only looks sees what
whoever opens the backup anew would see, unless something that was read before is damaged since: the overview tells
that, which reads everything anew, and what plans or changes anything does not go by this.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from offsite.repository.backup import Backup
from offsite.repository.state import BackupState


@dataclass(slots=True)
class KnownStates:
    """Of one repository. For several threads: of those that need the same one, one folds it."""

    _found: dict[str, BackupState] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, backup: Backup) -> Backup:
        """`backup`, whose newest state is the known one where that is the newest still."""
        return _KnownBackup(store=backup.store, descriptor=backup.descriptor, on_damage=backup.on_damage, states=self)

    def newest(self, backup: Backup) -> BackupState:
        """Raises as `Backup.sound_state`."""
        name = backup.descriptor.name
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            known = self._found.get(name)
            if known is None or backup.store.head(backup.layout.commit_key(known.seq + 1)) is not None:
                known = self._found[name] = Backup.sound_state(backup)
            return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownBackup(Backup):
    states: KnownStates

    def sound_state(self) -> BackupState:
        return self.states.newest(self)

    def state(self) -> BackupState:
        known = self.states.newest(self)
        return Backup.state(self) if known.unreadable else known
