"""Removes a backup as a whole: first the proof of existence, next the history, last the objects named by the history.

Before anything, readers are looked for, in a way that excludes new readers meanwhile. `removing.json` is put first, and
the records of restores and the pins are read afterwards; a restore puts its record, and a person a pin, before looking
for `removing.json`. At least one side therefore sees the other. If a restore is seen, the mark is taken back, and
nothing was removed.

Opening a backup needs the descriptor. The descriptor is deleted next, and `removed.json` explains the absence: the
remaining objects are no damage. The history follows, from the catalogs and the newest commit on, and the data last. A
crash anywhere leaves less than before, and the same call continues. Only keys below the backup's own prefix are
deleted, by their listed names. `removed.json` is put before the descriptor is deleted: a later call that finds both
cannot tell a returned backup from a removal that ended in between. The descriptor is looked for before every few
deletes: a process that was stopped for long stops at a backup that somebody brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from offsite.model.errors import BackupGoing, check
from offsite.model.journal import decided, warned
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.descriptor import BackupDescriptor
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import BackupLayout, own_objects
from offsite.stores.store import ObjectInfo, Store, is_key

ObjectT = TypeVar("ObjectT")

Announce = Callable[[int], None]
"""Called with the existing bytes before the first of them is deleted; not called where nothing exists."""

KEPT_MS = 30 * 24 * 3_600_000
"""How long `removed.json` stays: no process is stopped for longer and continues."""

SETTLED_MS = 24 * 3_600_000
"""How long nothing was put, by the store's clock, before a sweep deletes: an import, or a copy brought back, puts
objects all the time until its descriptor exists."""

_BATCH = 20
"""Objects deleted between two looks at the fence and the descriptor."""

Fence = Callable[[], None]
"""Raises where the caller may not go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedBackup:
    """A backup that was removed on purpose: when (epoch ms, the store's clock), by which process, in which work and
    why. `who` is empty without an audit line."""

    backup: str
    at_ms: int
    who: str = ""
    by: str = ""
    why: str = ""


def begin_removal(store: Store, layout: BackupLayout, *, is_read: Callable[[], bool], is_decided: bool = False) -> bool:
    """Ensure that nobody begins to read the backup; False, with nothing changed, where `is_read` reports a reader. If a
    ledger has decided the removal (`is_decided`), the mark stays in any case: a backup without a mark would look like a
    returned backup. Raises the errors of the store and of `is_read`: nobody can begin to read until the next call in
    that case."""
    store.put_if_absent(layout.removing_key, encode_object({"format": FORMAT, "backup": layout.backup}))
    if not is_read():
        return True
    if not is_decided:
        withdraw_removal(store, layout)
    return False


def withdraw_removal(store: Store, layout: BackupLayout) -> None:
    """Allow reading the backup again, of which nothing was removed yet."""
    if store.head(layout.removing_key) is not None and store.head(layout.descriptor_key) is not None:
        store.delete(layout.removing_key)


def check_stays(backup: Backup) -> None:
    """Check that the backup stays; to be called by a user of the backup behind its own record. A removal that missed
    the record is seen here. Raises `BackupGoing`."""
    layout, head = backup.layout, backup.store.head
    if head(layout.removing_key) is not None or head(layout.descriptor_key) is None:
        raise BackupGoing(
            f"backup {layout.backup} is being removed completely, or is already removed",
            hint="see who removes it with: offsite operator describe, or offsite generations status; if nobody "
            f"removes it, delete {layout.removing_key} and run the same command again",
        )


def was_brought_back(store: Store, layout: BackupLayout) -> bool:
    """Whether a backup with a decided removal exists because somebody brought the backup back, or may be: a backup
    being removed has a mark for as long as it has a descriptor, and a second mark right before the descriptor goes."""
    if store.head(layout.descriptor_key) is None:
        return False
    return store.head(layout.removed_key) is not None or store.head(layout.removing_key) is None


def remove_backup(
    store: Store,
    layout: BackupLayout,
    *,
    is_read: Callable[[], bool],
    announce: Announce,
    is_decided: bool = False,
) -> bool:
    """Remove all of the backup; False where `is_read` reports a reader: everything stays for the next call. False also
    where somebody brought the backup back meanwhile: the rest stays. `is_decided`: see `begin_removal`. Raises the
    errors of the store and of `announce`."""
    if not begin_removal(store, layout, is_read=is_read, is_decided=is_decided):
        return False
    _announced([info for info in _below(store, layout) if info.key != layout.removing_key], announce)
    store.put_if_absent(layout.removed_key, encode_object({"format": FORMAT, "backup": layout.backup}))
    store.delete(layout.descriptor_key)
    deleted = 0
    for batch in _batches(chain(_history(store, layout), _keys_below(store, layout))):
        if store.head(layout.descriptor_key) is not None:  # while this process was stopped
            warned("removal_stopped", why="somebody brought the backup back", backup=layout.backup)
            return False
        deleted += _delete(store, layout, batch)
    store.delete(layout.removing_key)
    decided("remove", why="another backup replaced it, or a person decided so", backup=layout.backup, objects=deleted)
    return True


def sweep(
    store: Store, layout: BackupLayout, *, removed_ms: int, announce: Announce, fence: Fence = lambda: None
) -> None:
    """Delete objects that came back into a backup removed at `removed_ms`, and its mark once old and alone. Nothing is
    deleted once a descriptor exists. `fence` is called before every few deletes, and raises when the caller may not go
    on.

    `removed.json` stays for a time: a stopped process may wake up after the removal and leave an object, which counts
    as nothing and is deleted by a `sweep`. No backup begins under the name meanwhile.
    """
    returned = find_returned(store, layout)
    if not _may_go(store, layout, fence):
        return
    _announced(returned, announce)
    for batch in _batches(returned):
        if not _may_go(store, layout, fence):
            return
        _delete(store, layout, (info.key for info in batch))
    is_old = store.now_ms() - removed_ms > KEPT_MS
    if is_old and not _below(store, layout) and _may_go(store, layout, fence):
        store.delete(layout.removed_key)


def is_removed(store: Store, layout: BackupLayout) -> bool:
    """Whether the objects are the rest of a removed backup. Objects with a descriptor are a backup, made or brought
    back by anybody. Without the mark nobody has allowed their deletion."""
    return store.head(layout.descriptor_key) is None and store.head(layout.removed_key) is not None


def is_name_free(store: Store, layout: BackupLayout) -> bool:
    """Whether a backup may begin under the name, as far as a removed backup goes. Objects returning into the removed
    backup would be taken for objects of the new backup, and a sweep under way for them has looked already. An old mark
    without other objects is deleted, because perhaps nobody has swept since."""
    if store.head(layout.descriptor_key) is not None:
        return True
    mark = store.head(layout.removed_key)
    if mark is None:
        return store.head(layout.removing_key) is None
    if store.now_ms() - mark.modified_ms <= KEPT_MS or _below(store, layout):
        return False
    store.delete(layout.removed_key)
    return True


def find_returned(store: Store, layout: BackupLayout) -> Sequence[ObjectInfo]:
    """Objects that came back into a removed backup, once all are at least `SETTLED_MS` old: none belongs to a backup
    being begun, imported or brought back now, which may take days. Objects from before the removal are of a copy that
    keeps times (`cp -a`, `rsync -a`, an archive of files): nobody knows when it arrived, or whether all of it has."""
    now_ms, mark, objects = store.now_ms(), store.head(layout.removed_key), _below(store, layout)
    removed_ms = 0 if mark is None else mark.modified_ms
    return objects if have_settled((info.modified_ms for info in objects), removed_ms=removed_ms, now_ms=now_ms) else ()


def have_settled(times_ms: Iterable[int], *, removed_ms: int, now_ms: int) -> bool:
    """Whether objects with these times all came back after a removal, and none within `SETTLED_MS`."""
    return all(removed_ms <= time_ms < now_ms - SETTLED_MS for time_ms in times_ms)


def _may_go(store: Store, layout: BackupLayout, fence: Fence) -> bool:
    fence()
    if is_removed(store, layout):
        return True
    warned("sweep_stopped", why="the backup exists again, or its mark is missing", backup=layout.backup)
    return False


def _history(store: Store, layout: BackupLayout) -> Iterator[str]:
    """Catalogs, followed by commits, newest first."""
    for prefix in (layout.catalog_prefix, layout.parts_prefix, layout.commits_prefix):
        yield from sorted((info.key for info in own_objects(store.list(prefix))), reverse=True)


def _keys_below(store: Store, layout: BackupLayout) -> Iterator[str]:
    yield from (info.key for info in _below(store, layout) if info.key != layout.removing_key)


def _below(store: Store, layout: BackupLayout) -> Sequence[ObjectInfo]:
    return tuple(info for info in own_objects(store.list(layout.prefix)) if info.key != layout.removed_key)


def _batches(objects: Iterable[ObjectT]) -> Iterator[Sequence[ObjectT]]:
    remaining = iter(objects)
    while batch := tuple(islice(remaining, _BATCH)):
        yield batch


def _announced(objects: Sequence[ObjectInfo], announce: Announce) -> None:
    if objects:
        announce(sum(info.size_bytes for info in objects))


def _delete(store: Store, layout: BackupLayout, keys: Iterable[str]) -> int:
    deleted = 0
    for key in keys:
        check(key.startswith(layout.prefix) and key != layout.removed_key, f"{key} is not of {layout.prefix}")
        if is_key(key):
            store.delete(key)
            deleted += 1
    return deleted


def unopened_backup(store: Store, layout: BackupLayout) -> Backup:
    """The backup as far as its place tells: its descriptor may be gone already."""
    descriptor = BackupDescriptor(
        name=layout.backup,
        cluster_id="",
        selection=TopicSelection(include=()),
        created_at_ms=0,
        options=(),
        fidelity=(),
    )
    return Backup(store=store, descriptor=descriptor)
