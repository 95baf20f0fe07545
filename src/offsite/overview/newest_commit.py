"""Describes the commits of a stopped run: the newest may have been made amid its work."""

from __future__ import annotations

from offsite.model.errors import BackupNotFound, OffsiteError
from offsite.model.names import amount
from offsite.model.units import format_time
from offsite.points.point_cut import default_point
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState

_NONE = "no commit was made"


def describe_new_commits(repository: Repository, name: str, *, since: int | None) -> str:
    """How many commits of backup `name` follow commit `since` (None: nothing was begun), the newest commit, and the
    commit that a restore goes to. A store that does not answer is reported and is no error."""
    if since is None:
        return _NONE
    try:
        backup = repository.backup(name)
        state = backup.sound_state()
        if state.seq <= since:
            return _NONE
        return f"{amount(state.seq - since, 'commit')}, the newest is {_describe_newest(backup, state)}"
    except BackupNotFound:  # the backup was not made yet
        return _NONE
    except OffsiteError as error:
        return f"the newest commit could not be read: {error.message}"


def _describe_newest(backup: Backup, state: BackupState) -> str:
    amid = ", made during a run" if state.incomplete else ""
    commit = f"commit {state.seq} of {format_time(state.committed_at_ms)}{amid}"
    default = default_point(backup.store, state)
    if default.newer is not None:
        return f"{commit}, without a consistent cut: a restore uses commit {default.commit}, which has one"
    return f"{commit}, {'without a' if state.cut is None else 'with its'} consistent cut"
