"""Finds the leftovers of unfinished runs in a repository, by age and by the needs of readers. Deletes nothing.

An object needed by a living run must never count as a leftover. A backup or an import commits at its end. Its objects
are in no commit before, however long the run takes. So an object counts only if older than `LEFTOVER_AFTER_MS` by the
store's clock, and under one of two conditions: the object is older than the newest commit (an older run can no longer
commit), or no younger object of the same kind exists (a living run writes objects every day). All other work of a run
takes moments, or has a record of its own until the end. The reading order matters: first the objects, then the commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby

from offsite.model.errors import StoreDenied
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.layout import (
    BackupLayout,
    own_objects,
    parse_catalog_key,
    parse_part_key,
    parse_segment_key,
    parse_snapshot_key,
)
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository, backup_folders
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreRecord,
    UnreadableRestore,
    find_successor,
    try_unfinished_restores,
    unfinished_restores,
)
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo, Store

LEFTOVER_AFTER_MS = 24 * 3_600_000
"""An object is a leftover at the earliest after this time without activity, by the store's clock."""


_SNAPSHOTS = frozenset({"groups", "metadata", "cut", "registry"})
_READS_AT_ONCE = 16
"""Commits read in parallel for the snapshots they name: hides the latency of an object store."""

_QUIET_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """An object without a reference and without a reader. `kind`: segment, index, groups, metadata, cut, catalog,
    restore, drill or group change."""

    kind: str
    info: ObjectInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSummary:
    """All objects below one prefix; `quiet_since_ms`: when the newest object was written."""

    prefix: str
    objects: int
    size_bytes: int
    quiet_since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietRestore:
    """A restore that began, has no report, and wrote nothing for `LEFTOVER_AFTER_MS`. The restore can be continued."""

    record: RestoreRecord
    folder: FolderSummary


def find_orphans(backup: Backup) -> tuple[Orphan, ...]:
    """The orphans of `backup`, in key order. Raises `DamagedCommit`, `FormatTooNew`."""
    uncommitted = tuple(_unlisted(backup, backup.state(), _below_commits(backup)))
    strays = tuple(chain(_unsealed(backup), _unrecorded(backup)))
    if not uncommitted and not strays:
        return ()
    head = backup.state()
    now_ms = store_time_ms(backup.store, (orphan.info for orphan in (*uncommitted, *strays)))
    before_ms = now_ms - LEFTOVER_AFTER_MS
    uncommitted = tuple(_unlisted(backup, head, uncommitted))
    abandoned = _abandoned(uncommitted, committed_ms=_committed_ms(backup, head), before_ms=before_ms)
    return tuple(sorted((*abandoned, *_older(strays, before_ms)), key=lambda orphan: orphan.info.key))


def find_quiet_restores(backup: Backup) -> tuple[QuietRestore, ...]:
    """Unfinished quiet restores, oldest first. Raises `DamagedObject` as `living_restores`."""
    return _parted(backup)[0]


def living_restores(backup: Backup) -> tuple[RestoreRecord, ...]:
    """Unfinished restores that wrote an object within `LEFTOVER_AFTER_MS`. Raises `DamagedObject` if the record of such
    a restore is unreadable, because the restore may need any object."""
    return _parted(backup)[1]


def _parted(backup: Backup) -> tuple[tuple[QuietRestore, ...], tuple[RestoreRecord, ...]]:
    """The quiet and the living restores. The record of a quiet restore may be unreadable."""
    restores = tuple(try_unfinished_restores(backup.store, backup.layout))
    before_ms = store_time_ms(backup.store, ()) - LEFTOVER_AFTER_MS if restores else 0
    quiet, living = [], []
    for restore in restores:
        folder = folder_of(backup.store, backup.layout.restores_prefix(restore.restore))
        is_quiet = folder.quiet_since_ms < before_ms
        if isinstance(restore, UnreadableRestore):
            if not is_quiet:
                raise restore.error(backup.layout)
            warned("restore_unreadable", restore=restore.restore, why=restore.problem)
        elif is_quiet:
            quiet.append(QuietRestore(record=restore, folder=folder))
        else:
            living.append(restore)
    return tuple(quiet), tuple(living)


def living_since_ms(backup: Backup) -> int | None:
    """When the first living restore began (a restore is living if it wrote an object within `LEFTOVER_AFTER_MS`); None
    without living restores. Data that was live at the time may still be read. Raises `DamagedObject`."""
    return min((restore.created_at_ms for restore in living_restores(backup)), default=None)


def find_unnamed_folders(repository: Repository) -> tuple[FolderSummary, ...]:
    """Folders without a backup: a failed first import leaves its segments and no backup."""
    folders = tuple(folder_of(repository.store, prefix) for prefix in _folders_without_backup(repository.store))
    before_ms = store_time_ms(repository.store, ()) - LEFTOVER_AFTER_MS if folders else 0
    return tuple(folder for folder in folders if folder.objects and folder.quiet_since_ms < before_ms)


def folder_of(store: Store, prefix: str) -> FolderSummary:
    """The summary of all objects below `prefix`."""
    folder = FolderSummary(prefix=prefix, objects=0, size_bytes=0, quiet_since_ms=0)
    for info in own_objects(store.list(prefix)):
        folder = replace(
            folder,
            objects=folder.objects + 1,
            size_bytes=folder.size_bytes + info.size_bytes,
            quiet_since_ms=max(folder.quiet_since_ms, info.modified_ms),
        )
    return folder


def store_time_ms(store: Store, infos: Iterable[ObjectInfo]) -> int:
    """The store's clock. Without write access the clock cannot be read: then the newest modification time in `infos`, a
    lower bound."""
    try:
        return store.now_ms()
    except StoreDenied:
        return max((info.modified_ms for info in infos), default=0)


def _below_commits(backup: Backup) -> Iterator[Orphan]:
    """All objects that count only once a commit names them."""
    layout = backup.layout
    for kind, prefix in (
        ("segment", layout.topics_prefix),
        ("segment", layout.packs_prefix),
        ("groups", layout.groups_prefix),
        ("metadata", layout.metadata_prefix),
        ("cut", layout.cuts_prefix),
        ("registry", layout.registry_prefix),
    ):
        for info in own_objects(backup.store.list(prefix)):
            name = parse_segment_key(info.key)
            yield Orphan(kind="index" if name is not None and name.suffix == "idx" else kind, info=info)


def _unlisted(backup: Backup, head: BackupState, orphans: Iterable[Orphan]) -> Iterator[Orphan]:
    """The orphans listed by no commit up to `head`. Older restore points need their snapshots too."""
    listed = {key for segment in head.stored_segments() for key in (segment.object_key, segment.index_key)}
    snapshots = []
    for orphan in orphans:
        if orphan.kind in _SNAPSHOTS:
            snapshots.append(orphan)
        elif orphan.info.key not in listed:
            yield orphan
    with ThreadPoolExecutor(max_workers=_READS_AT_ONCE, thread_name_prefix="leftovers") as pool:
        named = pool.map(lambda snapshot: _is_named(backup, snapshot.info.key), snapshots)
        yield from (orphan for orphan, is_named in zip(snapshots, named, strict=True) if not is_named)


def _is_named(backup: Backup, key: str) -> bool:
    """Whether the snapshot's own commit names the snapshot."""
    seq = parse_snapshot_key(key)
    stored = None if seq is None else backup.log.get(seq)
    return stored is not None and key in stored.commit.changes.snapshot_keys


def _committed_ms(backup: Backup, head: BackupState) -> int:
    """An upper bound of the time of the newest commit. The commit's own time may be ahead of a clock that was set back,
    and in a copied repository all objects are younger than their originals."""
    stored = backup.store.head(backup.layout.commit_key(head.seq)) if head.seq else None
    return min(head.committed_at_ms, stored.modified_ms) if stored is not None else 0


def _abandoned(uncommitted: tuple[Orphan, ...], *, committed_ms: int, before_ms: int) -> Iterator[Orphan]:
    """The orphans that no living run can still commit."""
    may_live = any(orphan.info.modified_ms >= before_ms for orphan in uncommitted)
    for orphan in _older(uncommitted, before_ms):
        if not may_live or orphan.info.modified_ms < committed_ms:
            yield orphan


def _older(orphans: Iterable[Orphan], before_ms: int) -> Iterator[Orphan]:
    return (orphan for orphan in orphans if orphan.info.modified_ms < before_ms)


def _unsealed(backup: Backup) -> Iterator[Orphan]:
    """Parts of catalogs without a seal: no reader uses them."""
    layout = backup.layout
    infos = list(own_objects(backup.store.list(layout.catalog_prefix)))
    sealed = {seq for info in infos if (seq := parse_catalog_key(info.key)) is not None}
    read = {key for seq in sealed for key in (layout.catalog_key(seq), layout.history_key(seq), layout.seal_key(seq))}
    yield from (Orphan(kind="catalog", info=info) for info in infos if info.key not in read | {layout.hint_key})
    # Parts are listed after the seals. The first catalog that names a part is the part's own.
    parts = own_objects(backup.store.list(layout.parts_prefix))
    yield from (Orphan(kind="catalog", info=info) for info in parts if parse_part_key(info.key) not in sealed)


def _unrecorded(backup: Backup) -> Iterator[Orphan]:
    """Objects in the folder of a restore, drill or group change without the record of that restore, drill or change."""
    layout = backup.layout
    for kind, prefix, record in (
        ("restore", f"{layout.prefix}restores/", "restore.json"),
        ("drill", layout.drills_prefix, "report.json"),
        ("group change", layout.group_changes_prefix, "change.json"),
    ):
        for folder, infos in groupby(own_objects(backup.store.list(prefix)), key=partial(_folder_of, prefix=prefix)):
            inside = list(infos)
            if all(info.key != f"{folder}{record}" for info in inside):
                yield from (Orphan(kind=kind, info=info) for info in inside)


def _folder_of(info: ObjectInfo, *, prefix: str) -> str:
    return f"{prefix}{info.key.removeprefix(prefix).split('/')[0]}/"


def _folders_without_backup(store: Store) -> Iterator[str]:
    for layout in backup_folders(store):
        if store.head(layout.descriptor_key) is None and store.head(layout.removed_key) is None:
            yield layout.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRestore:
    """A restore that reads a backup. `is_live`: a process holds its lease now."""

    restore: str
    is_live: bool

    def __str__(self) -> str:
        return f"restore {self.restore} {'reads it' if self.is_live else 'did not end, and can be continued'}"


def readers_of(store: Store, backup: BackupLayout) -> Iterator[ReadingRestore]:
    """The restores that read the backup. Raises `DamagedObject`, and errors of the store: the answer is unknown in that
    case.

    Readers are restores that began and did not end, however long they are silent: the same command continues them. A
    later restore of the same request replaces one only after a day without a sign of life: anyone who may create
    objects could forge the later restore.
    """
    mine = ProcessIdentity.current()
    for record in unfinished_restores(store, backup):
        terms = RestoreLayout(backup=backup, restore=record.restore).lease(store)
        is_live = terms.holder(asking=mine) is not None
        if is_live or not (
            _is_quiet(store, backup.restores_prefix(record.restore)) and find_successor(store, backup, record)
        ):
            yield ReadingRestore(restore=record.restore, is_live=is_live)


def _is_quiet(store: Store, prefix: str) -> bool:
    """Whether no object below `prefix` was written for a day."""
    return max((info.modified_ms for info in own_objects(store.list(prefix))), default=0) < store.now_ms() - _QUIET_MS
