"""The temporary backup of an archive, imported before a restore and removed after success.

Every restore has its own copy: the name derives from the archive, the selection and the target. A failed or killed
command finds its copy again and continues; no other command reads or removes the copy. Without a repository, the copy
lies in the user's cache. A later restore of any archive removes copies left by killed commands: copies never restored
from, and copies whose restores have ended, unless a person asked to keep the copy.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.errors import (
    BadOption,
    Denied,
    LeaseHeld,
    OffsiteError,
    RepositoryExists,
    RepositoryNotFound,
    RestoreRunning,
    RestoreTakenOver,
    StoreUnavailable,
)
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.repository.backup import Backup
from offsite.repository.heads import memory_root
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.lease import Lease, ProcessIdentity
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, FolderSummary, folder_of, store_time_ms
from offsite.repository.local_memory import note_written
from offsite.repository.repository import Repository, backup_folders
from offsite.repository.restores.layout import TAKE_OVER_HINT, RestoreLayout
from offsite.repository.restores.record import restore_names
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    UnreadableChange,
    get_before,
    try_open_changes,
)
from offsite.restore.lease import RestoreLease
from offsite.stores.open_store import open_store
from offsite.stores.plain_files import make_private_root, wrap_errors
from offsite.stores.store import Store

_FOLDER = "restored"
_DIGITS = 16
_NAME = re.compile(rf"staging-[0-9a-f]{{{_DIGITS}}}")
_GOING = ".going"
"""Suffix of the name of a folder during removal."""
_DELETED_BETWEEN_CHECKS = 20
_IN_USE_HINT = "the copy is in use: it can be removed after the other process"
_PASSING = ".passing"
"""Suffix of a file beside a folder in the cache: no person asked to keep the copy after the restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoableChanges:
    """Undoable changes of groups: `place`, the repository with the records; the name of the backup in the repository;
    the ids of the changes."""

    place: str
    backup: str
    changes: tuple[str, ...]


def keep_changes(backup: Backup) -> UndoableChanges:
    """Copy the undo records of group changes made from `backup`; nothing without changes. Raises `BadOption` if the
    user has no place for the records, `DamagedObject`, and the errors of a store; on an error the copy stays.

    The records of group changes lie in the copy, and are small. Before the deletion of the copy, the records are copied
    into a repository in the user's state folder, under the name of the backup: `offsite groups undo` finds the records
    there.
    """
    source, changes = backup.record_store, tuple(_open_changes(backup))
    undoable = UndoableChanges(
        place="", backup=backup.descriptor.name, changes=tuple(open_change.change for open_change in changes)
    )
    if not changes:
        return undoable
    for change in changes:
        get_before(source, backup.layout, change)
    target = _opened()
    _copy(source, target.store, backup.layout.descriptor_key)
    for change in changes:
        layout = GroupChangeLayout(backup=backup.layout, change=change.change)
        _copy(source, target.store, layout.before_key)
        note_written(target.store, layout.record_key, source.get(layout.record_key) or b"")
        _copy(source, target.store, layout.record_key)
    return UndoableChanges(place=target.store.url, backup=undoable.backup, changes=undoable.changes)


def _open_changes(backup: Backup) -> Iterator[GroupChange]:
    for change in try_open_changes(backup.record_store, backup.layout):
        if isinstance(change, UnreadableChange):
            raise change.error
        yield change


def _copy(source: Store, target: Store, key: str) -> None:
    """Copy an object. An existing descriptor, from an earlier restore by the same command, suffices."""
    target.put_if_absent(key, source.get(key) or b"")


def _opened() -> Repository:
    try:
        root = memory_root() / _FOLDER
        make_private_root(root)
    except (OSError, RuntimeError) as error:
        raise BadOption(
            f"there is no folder for the undo data of group changes: {error}",
            hint="set XDG_STATE_HOME to a writable folder",
        ) from error
    return open_or_make(str(root))


def open_or_make(place: str) -> Repository:
    """Open the repository at `place`, or create a missing repository."""
    try:
        return Repository.open(open_store(place))
    except RepositoryNotFound:
        with suppress(RepositoryExists):  # another process was first
            return Repository.init(open_store(place))
    return Repository.open(open_store(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The copy of an archive: a backup in a repository. `folder` is set when the whole repository may be removed."""

    repository: Repository
    backup: str
    folder: Path | None = None

    @property
    def place(self) -> str:
        return self.repository.store.url

    @property
    def terms(self) -> Lease:
        layout = BackupLayout(backup=self.backup)
        return Lease(
            store=self.repository.store,
            prefix=f"{layout.prefix}lease/",
            resource=f"the restore through {self.backup}",
            hint=TAKE_OVER_HINT,
            error=RestoreRunning,
            taken_over=RestoreTakenOver,
        )

    @contextmanager
    def hold(self, *, take_over: bool = False, removes: bool = False) -> Iterator[RestoreLease]:
        """A context without another process that imports into the copy, restores from the copy or removes the copy.
        Raises `RestoreRunning` when another process holds the copy, unless `take_over`; `LeaseHeld` for a process that
        only `removes` the copy."""
        terms = replace(self.terms, error=LeaseHeld, hint=_IN_USE_HINT) if removes else self.terms
        claim = terms.claim(ProcessIdentity.current(), random_id(), take_over=take_over)
        restore_lease = RestoreLease(terms, claim)
        try:
            yield restore_lease
        finally:
            restore_lease.give_up()

    @property
    def is_wanted(self) -> bool:
        """Whether a restore from the copy has begun and not ended: the restore needs the copy to continue."""
        return _unfinished(self.repository.store, BackupLayout(backup=self.backup))

    @property
    def is_kept(self) -> bool:
        """Whether the copy stays after the restore: in a given repository, or by a person's request."""
        return self.folder is None or not _mark(self.folder).exists()

    def keep(self, *, stays: bool) -> None:
        """Record whether the copy stays after the restore; without a record the copy is kept."""
        if self.folder is None:
            return
        mark = _mark(self.folder)
        with wrap_errors("write", str(mark)):
            mark.unlink(missing_ok=True) if stays else mark.touch(mode=0o600)

    def remove(self, lease: RestoreLease) -> UndoableChanges | None:
        """Remove the backup, and nothing else of a given repository. Undo records of group changes are kept, and
        returned, for a copy in the cache. Raises `RestoreTakenOver`, and like `keep_changes`."""
        lease.check()
        is_backup = self.backup in self.repository.backups()
        changes = keep_changes(self.repository.backup(self.backup)) if self.folder and is_backup else None
        if self.folder is not None:
            lease.check()
            lease.stop()
            _remove(self.folder)
            return changes
        store = self.repository.store
        keys = [info.key for info in own_objects(store.list(BackupLayout(backup=self.backup).prefix))]
        for number, key in enumerate(name for name in keys if name not in lease.last_keys):
            if number % _DELETED_BETWEEN_CHECKS == 0:
                lease.check()
            store.delete(key)
        lease.stop()
        for key in lease.last_keys:
            store.delete(key)
        return changes


def open_staging(place: str | None, *, format_name: str, archive: str, purpose: str = "") -> Staging:
    """Open the staging of `archive` (a URL) for a restore, in the repository at `place`; a missing repository is
    created. `purpose`: text that distinguishes restores of the same archive."""
    identity = "\0".join((format_name, archive, *([purpose] if purpose else [])))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]
    folder = None if place else _cache() / digest
    if folder is not None:
        _make(folder.parent)
        sweep_cache(but=folder)
    return Staging(repository=open_or_make(place or str(folder)), backup=_backup_name(digest), folder=folder)


def sweep_cache(*, but: Path) -> None:
    """Remove unused copies from the user's cache, if no process holds the copy: an import killed before the commit at
    once, a copy without a restore after a day, and copies whose restores have ended, unless to be kept. `but`: about to
    be used."""
    for mark in _cache().glob(f"*{_PASSING}"):
        if not mark.with_suffix("").exists():
            mark.unlink(missing_ok=True)
    for folder in _cached():
        if folder.name.endswith(_GOING):
            shutil.rmtree(folder, ignore_errors=True)
        elif folder != but:
            with suppress(OffsiteError, OSError):  # another sweeper may be at it, and it is no more than a cache
                _sweep(folder)


def _sweep(folder: Path) -> None:
    staging = Staging(repository=_open_existing(str(folder)), backup=_backup_name(folder.name), folder=folder)
    store, layout = staging.repository.store, BackupLayout(backup=staging.backup)
    if staging.terms.holder(asking=ProcessIdentity.current()) is not None or _unfinished(store, layout):
        return
    if any(own_objects(store.list(f"{layout.prefix}restores/"))):
        if not staging.is_kept:
            with staging.hold(removes=True) as lease:
                decided("staging_swept", why="its restore has ended", place=str(folder))
                staging.remove(lease)
        return
    was_claimed = any(own_objects(store.list(staging.terms.prefix)))
    is_old = folder_of(store, "").quiet_since_ms < store_time_ms(store, ()) - LEFTOVER_AFTER_MS
    if is_old or (was_claimed and not any(own_objects(store.list(layout.commits_prefix)))):
        with staging.hold(removes=True) as lease:
            decided("staging_swept", why="its restore was killed before it began to write", place=str(folder))
            staging.remove(lease)


def _remove(folder: Path) -> None:
    """Remove a folder. The name is free at once, so the next user starts again."""
    going = folder.with_name(f"{folder.name}-{random_id()}{_GOING}")
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)
    _mark(folder).unlink(missing_ok=True)


def _mark(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_PASSING}")


def _unfinished(store: Store, layout: BackupLayout) -> bool:
    layouts = (RestoreLayout(backup=layout, restore=name) for name in restore_names(store, layout))
    return any(store.head(restore.report_key) is None for restore in layouts)


def _backup_name(digest: str) -> str:
    return f"staging-{digest}"


def find_staging_copies(repository: Repository, *, quiet_for_ms: int) -> Iterator[tuple[str, FolderSummary]]:
    """Yield the copies in `repository` and in the machine's cache without additions for `quiet_for_ms`, with their
    places. A copy may exist because a person asked to keep the copy. An unreadable cache is ignored: a cache holds no
    original data."""
    for name in repository.backups():
        if _NAME.fullmatch(name):
            prefix = BackupLayout(backup=name).prefix
            yield from _if_quiet(repository.store, prefix, f"{repository.store.url}/{prefix}", quiet_for_ms)
    for folder in _cached():
        with suppress(StoreUnavailable, Denied):
            yield from _if_quiet(open_store(str(folder)), "", str(folder), quiet_for_ms)


def find_dead_copies(repository: Repository) -> Iterator[tuple[Staging, FolderSummary]]:
    """Yield the copies in `repository` whose import was killed before the commit, so nothing was restored: claimed
    once, held by no live process, without a commit or a restore, and quiet for a day. A copy to be kept has a
    commit."""
    for layout in backup_folders(repository.store):
        staging = Staging(repository=repository, backup=layout.backup)
        if _NAME.fullmatch(layout.backup) and (folder := _dead(staging)) is not None:
            yield staging, folder


def remove_dead_copy(staging: Staging) -> bool:
    """Remove a copy of `find_dead_copies` completely, if the copy is still dead. Raises `LeaseHeld` when a process
    holds the copy by now."""
    if _dead(staging) is None:
        return False
    with staging.hold(removes=True) as lease:
        store = staging.repository.store
        if any(own_objects(store.list(BackupLayout(backup=staging.backup).commits_prefix))):
            return False
        decided("staging_swept", why="its import was killed before its commit", place=staging.place)
        staging.remove(lease)
    return True


def _dead(staging: Staging) -> FolderSummary | None:
    store, layout = staging.repository.store, BackupLayout(backup=staging.backup)
    if any(own_objects(store.list(layout.commits_prefix))) or any(own_objects(store.list(f"{layout.prefix}restores/"))):
        return None
    was_claimed = any(own_objects(store.list(staging.terms.prefix)))
    folder = folder_of(store, layout.prefix)
    is_quiet = folder.quiet_since_ms < store_time_ms(store, ()) - LEFTOVER_AFTER_MS
    is_held = staging.terms.holder(asking=ProcessIdentity.current()) is not None
    return folder if was_claimed and is_quiet and not is_held else None


def _if_quiet(store: Store, prefix: str, place: str, quiet_for_ms: int) -> Iterator[tuple[str, FolderSummary]]:
    folder = folder_of(store, prefix)
    if folder.objects and folder.quiet_since_ms < store_time_ms(store, ()) - quiet_for_ms:
        yield place, folder


def _cached() -> Sequence[Path]:
    try:
        return sorted(path for path in _cache().iterdir() if path.is_dir())
    except (OSError, BadOption):
        return ()


def _open_existing(place: str) -> Repository:
    return Repository.open(open_store(place))


def _make(cache: Path) -> None:
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the copy of the archive cannot be put into {cache}: {os.strerror(error.errno or 0)}"
        raise BadOption(problem, hint="name a place with --staging, or set XDG_CACHE_HOME") from error


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "offsite" / "staging"
    except RuntimeError as error:  # this user has no home
        raise BadOption("there is no home folder for the copy", hint="name a place with --staging") from error
