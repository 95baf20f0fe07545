"""A seal: a commit without changes takes the next number of a backup's log.

A process about to commit has read the log before it asked for permission. Either the permission was denied; or the log
had no seal yet, and the number behind its reading is taken by the seal or by a commit before the seal. A process
stopped anywhere, for any time, therefore adds nothing behind a seal. The seal of a backup without a commit completes no
pass: otherwise an empty backup would become restorable.
"""

from __future__ import annotations

from dataclasses import replace

from offsite.model.errors import CommitLost
from offsite.model.ids import random_id
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges

_SEALS_MAX = 100
"""Attempts at a seal: a process ahead commits once or twice more."""


def seal_backup(backup: Backup) -> None:
    """Take the next number. Raises `CommitLost` if other writers commit again and again, and as `Backup.commit`."""
    for attempts_left in reversed(range(_SEALS_MAX)):
        state = backup.state()
        changes = replace(state.carry_over(CommitChanges(seal=True)), incomplete=state.incomplete or not state.seq)
        try:
            with uninterrupted():
                backup.commit(changes, base=state, writer=random_id(16))
        except CommitLost:
            if not attempts_left:
                raise
        else:
            return
