"""What a restore of an archive changed of consumer groups can be undone after the copy of the archive is gone.

The records of such changes are in the copy, and small. Before the copy goes they are copied into a repository of this
user's state, under the name that the backup had: `offsite groups undo` finds them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from offsite.model.errors import BadOption, RepositoryExists, RepositoryNotFound
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    UnreadableChange,
    get_before,
    try_open_changes,
)
from offsite.services.heads import memory_root
from offsite.services.own_writes import note_written
from offsite.stores.open_store import open_store
from offsite.stores.plain_files import make_private_root
from offsite.stores.store import Store

_FOLDER = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoableChanges:
    """Changes of groups that can be undone: the repository that has their records, the name of the backup there, and
    the ids of the changes."""

    place: str
    backup: str
    changes: tuple[str, ...]


def keep_changes(backup: Backup) -> UndoableChanges:
    """Copy what undoes the changes of groups that were made out of `backup`; nothing where there are none. Raises
    `BadOption` where this user has no place for it, `DamagedObject`, and what a store raises: then the copy stays."""
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
    """A description that is there already, of an earlier restore by the same command, will do."""
    target.put_if_absent(key, source.get(key) or b"")


def _opened() -> Repository:
    try:
        root = memory_root() / _FOLDER
        make_private_root(root)
    except (OSError, RuntimeError) as error:
        raise BadOption(
            f"there is no place for what undoes the changes of groups: {error}", hint="set XDG_STATE_HOME"
        ) from error
    return open_or_make(str(root))


def open_or_make(place: str) -> Repository:
    """The repository at a place, made if there is none."""
    try:
        return Repository.open(open_store(place))
    except RepositoryNotFound:
        with suppress(RepositoryExists):  # another process was first
            return Repository.init(open_store(place))
    return Repository.open(open_store(place))
