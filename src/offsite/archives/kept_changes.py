"""Keeps the group changes of an archive's restore undoable after the copy of the archive is gone.

The records of group changes lie in the copy, and are small. Before the deletion of the copy, the records are copied
into a repository in the user's state folder, under the name of the backup: `offsite groups undo` finds the records
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from offsite.model.errors import BadOption, RepositoryExists, RepositoryNotFound
from offsite.repository.backup import Backup
from offsite.repository.heads import memory_root
from offsite.repository.local_memory import note_written
from offsite.repository.repository import Repository
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    UnreadableChange,
    get_before,
    try_open_changes,
)
from offsite.stores.open_store import open_store
from offsite.stores.plain_files import make_private_root
from offsite.stores.store import Store

_FOLDER = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoableChanges:
    """Undoable changes of groups: `place`, the repository with the records; the name of the backup in the repository;
    the ids of the changes."""

    place: str
    backup: str
    changes: tuple[str, ...]


def keep_changes(backup: Backup) -> UndoableChanges:
    """Copy the undo records of group changes made from `backup`; nothing without changes. Raises `BadOption` if the
    user has no place for the records, `DamagedObject`, and the errors of a store; on an error the copy stays."""
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
