"""The head of a backup, its newest commit with the hash, and whether an earlier seen head is still part of the backup.

A chain of hashes reveals changes inside, but not a lost end: a store put back to an older state looks sound. Commands
therefore show the head, and a keeper of a head asks for it again: a person or a script (`verify --expect-head`), and
the local machine, with a memory of the last seen head of every backup at every place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import CommitsGone, DamagedCommit, OffsiteError
from offsite.model.head import Head
from offsite.model.ids import random_id
from offsite.model.journal import noted, warned
from offsite.repository.backup import Backup
from offsite.repository.json_form import StoredForm
from offsite.repository.removal import RemovedBackup
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState

_OWN_FOLDERS = 3
"""Number of folders of a path of the memory: `offsite`, `heads`, and the folder of the place."""
_HEAD = StoredForm(Head)


def head_of(state: BackupState) -> Head:
    return Head(commit=state.seq, hash=state.head_hash)


def why_missing(backup: Backup, state: BackupState, head: Head) -> str:
    """Why `head` is not part of the history that ends with `state`; empty when it is, or when unknown yet."""
    name = state.backup
    if head.commit > state.seq:
        if backup.store.head(backup.layout.commit_key(head.commit)) is not None:
            return ""  # damaged, with its own report, or made since the state was read
        return (
            f"commit {head.commit} ({head.short}) of {name} existed and is missing now: the newest commit is "
            f"{state.seq}"
        )
    try:
        actual_hash = state.head_hash if head.commit == state.seq else _hash_of(backup, head.commit)
    except DamagedCommit as error:
        return error.message
    if actual_hash.startswith(head.hash):
        return ""
    actual = Head(commit=head.commit, hash=actual_hash)
    return (
        f"commit {head.commit} of {name} has changed: this machine saw {head.short}, but the commit is now "
        f"{actual.short}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedHead:
    """The head that the local machine remembers of a backup at a place. A copy elsewhere may be older, and is another
    place.

    The memory is a file for every backup below `$XDG_STATE_HOME/offsite/heads`; where no file can be kept, no head is
    remembered. A head is also the subject of a future signature (see the format's page).
    """

    repository: Repository
    backup: str

    def get(self) -> Head | None:
        try:
            data = self._path().read_bytes()
            return _HEAD.decode(data, key=str(self._path()))
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, OffsiteError) as error:
            noted("no_memory", what="the head that was seen last", why=error)
            return None

    def remember(self, head: Head) -> None:
        """Remember `head`: from now on it must be part of the backup. The head of a backup without commits is not
        remembered."""
        try:
            path = self._path()
            if not head.commit:
                path.unlink(missing_ok=True)
                return
            for folder in reversed(path.parents[:_OWN_FOLDERS]):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.with_name(f"{path.name}.{random_id()}")
            fresh.touch(mode=0o600)
            fresh.write_bytes(_HEAD.encode(head))
            fresh.replace(path)
        except (OSError, RuntimeError) as error:
            noted("no_memory", what="the head that was seen last", why=error)

    def forget(self) -> None:
        """Forget the backup, which was removed on purpose."""
        self.remember(Head(commit=0, hash=""))

    def problem(self, backup: Backup, state: BackupState) -> str:
        """Why the backup differs from the last state seen by the local machine; empty without a difference. In the
        latter case `state` is remembered instead, unless known to be outdated."""
        remembered = self.get()
        problem = why_missing(backup, state, remembered) if remembered is not None else ""
        if problem:
            warned("rollback", backup=self.backup, why=problem)
        elif not state.unreadable and state.seq and remembered != head_of(state):
            self.remember(head_of(state))
        return problem

    def absent(self) -> str:
        """Why the absence of the backup is wrong: the local machine saw the backup here before. Else empty."""
        remembered = self.get()
        return (
            ""
            if remembered is None
            else f"backup {self.backup} existed with head {remembered.short} and is missing now"
        )

    def forgotten_by(self) -> str:
        """A sentence with the next step after a removal on purpose."""
        return f"if the backup was removed on purpose, delete {self._path()}"

    def removal(self) -> RemovedBackup | None:
        """The removal of the backup on purpose, as recorded in the repository; None where not recorded."""
        from offsite.repository.removed_backup import find_removal  # rarely asked for, and reads ledgers

        return find_removal(self.repository.store, self.backup)

    def check_absent(self) -> None:
        """Raise `CommitsGone` when the backup is absent although the local machine saw the backup here before; not
        after a removal on purpose."""
        if (gone := self.absent()) and self.removal() is None:
            raise CommitsGone(
                gone, hint=f"restore the backup from a copy, or choose another name; {self.forgotten_by()}"
            )

    def check(self, backup: Backup, state: BackupState) -> None:
        """Raise `CommitsGone` when the backup differs from the last state seen by the local machine."""
        if problem := self.problem(backup, state):
            raise CommitsGone(
                problem,
                hint="restore the commits from the store's versions or from a copy; if they are lost permanently: "
                f"offsite verify --backup {self.backup} --accept-head",
            )

    def check_to_read(self, backup: Backup, *, accept_rollback: bool) -> None:
        """Raise `CommitsGone` when the backup differs from the last state seen by the local machine, unless accepted:
        the present commits can be read nevertheless, and are older than expected."""
        if (problem := self.problem(backup, backup.sound_state())) and not accept_rollback:
            raise CommitsGone(
                problem,
                hint="restore the commits from the store's versions or from a copy; to read the remaining commits "
                f"anyway: --accept-rollback; if they are lost permanently: offsite verify --backup {self.backup} "
                "--accept-head",
            )

    def _path(self) -> Path:
        """The path of the memory. Raises `RuntimeError` where there is no home."""
        return _folder(self.repository) / f"{self.backup}.json"


def check_to_read(backup: Backup, *, accept_rollback: bool) -> None:
    """Check before anything is restored or read from `backup`; raises as `RememberedHead.check_to_read`."""
    remembered = RememberedHead(repository=Repository.open(backup.store), backup=backup.descriptor.name)
    remembered.check_to_read(backup, accept_rollback=accept_rollback)


def find_vanished(repository: Repository, present: Collection[str]) -> tuple[RememberedHead, ...]:
    """The remembered heads of backups of `repository` that are not among `present`, by name."""
    try:
        names = sorted(path.stem for path in _folder(repository).glob("*.json"))
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="the backups that were seen", why=error)
        return ()
    absent = (RememberedHead(repository=repository, backup=name) for name in names if name not in present)
    return tuple(head for head in absent if head.absent())


def _folder(repository: Repository) -> Path:
    """The folder of the repository. Raises `RuntimeError` where there is no home."""
    return memory_folder("heads", f"{repository.descriptor.repository_id} {repository.store.url}")


def memory_root() -> Path:
    """Where the local machine keeps its memory. Raises `RuntimeError` where there is no home."""
    base = os.environ.get("XDG_STATE_HOME")
    states = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    return states / "offsite"


def memory_folder(kind: str, place: str) -> Path:
    """The memory's folder for a place. Raises `RuntimeError` where there is no home."""
    return memory_root() / kind / hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()[:16]


def _hash_of(backup: Backup, commit: int) -> str:
    stored = backup.log.get(commit)
    if stored is None:
        raise DamagedCommit(f"commit {commit} of {backup.descriptor.name} is missing")
    return stored.hash
