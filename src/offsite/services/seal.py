"""A seal: the next number of a backup's log is taken by a commit that changes nothing.

Who was about to commit has read the log before it asked whether it still may. Either it was told no, or the log had no
seal yet, and the number behind what it read is taken: by the seal, or by a commit in front of it. So a process that was
stopped anywhere, for any time, adds nothing behind a seal. A seal of a backup that has no commit completes no pass: it
would make an empty backup one that can be restored.
"""

from __future__ import annotations

from dataclasses import replace

from offsite.model.errors import CommitLost
from offsite.model.ids import random_id
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.commit import Changes

_SEALS_MAX = 100
"""Attempts at a seal: whoever is in front of it commits once or twice more."""


def seal_backup(backup: Backup) -> None:
    """Take the next number. Raises `CommitLost` if others go on and on, and as `Backup.commit`."""
    for left in reversed(range(_SEALS_MAX)):
        state = backup.state()
        changes = replace(state.carried_over(Changes(seal=True)), incomplete=state.incomplete or not state.seq)
        try:
            with uninterrupted():
                backup.commit(changes, base=state, writer=random_id(16))
        except CommitLost:
            if not left:
                raise
        else:
            return
