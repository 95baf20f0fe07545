"""The leftovers of a backup and around it, with the next step for each. Reads only: deletion comes with retention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.model.errors import Damaged
from offsite.model.selection import SCRATCH_PREFIX
from offsite.repository.backup import Backup
from offsite.repository.leftovers import (
    LEFTOVER_AFTER_MS,
    FolderSummary,
    Orphan,
    QuietRestore,
    find_orphans,
    find_quiet_restores,
    find_unnamed_folders,
)
from offsite.repository.repository import Repository

CONTINUE = "run the same restore again to complete it; if its cluster no longer exists, do nothing"
DRILL = "the next offsite restore drill on that cluster removes its topics"
STAGED = (
    "run the same restore of that archive again: it continues from this copy, and removes the copy unless you "
    "asked to keep it"
)
UNNAMED = "run the same backup or import again: it creates the backup, and the objects here stay unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftObject:
    """An object without a reference in the newest state: of a dead run, or replaced by a roll-up. `kind` as in
    `repository.leftovers.Orphan`."""

    key: str
    kind: str
    bytes: int
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRestore:
    """A restore that has not ended and wrote nothing since `quiet_since_ms`."""

    restore: str
    cluster_id: str
    topics: tuple[str, ...]
    began_ms: int
    quiet_since_ms: int
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFolder:
    """A folder that is no backup of this cluster, or none at all, wherever it lies."""

    place: str
    objects: int
    bytes: int
    quiet_since_ms: int
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """All leftovers. `objects` and `bytes`: amount without references; `listed` names the objects on request.
    `quiet_for_s`: how long all leftovers have been quiet. `problem`: why unfinished restores are unknown."""

    quiet_for_s: int
    objects: int
    bytes: int
    listed: tuple[LeftObject, ...]
    restores: tuple[LeftRestore, ...]
    folders: tuple[LeftFolder, ...]
    problem: str = ""


def find_leftovers(
    repository: Repository, backup: Backup, *, staged: Iterable[tuple[str, FolderSummary]], listed: bool
) -> Leftovers:
    """Find the leftovers of `backup` and of its repository. `staged`: places and folders of archives staged on
    this machine. Raises `DamagedCommit`."""
    orphans = find_orphans(backup)
    try:
        restores, problem = tuple(map(_restore, find_quiet_restores(backup))), ""
    except Damaged as error:
        restores, problem = (), error.message
    return Leftovers(
        quiet_for_s=LEFTOVER_AFTER_MS // 1000,
        objects=len(orphans),
        bytes=sum(orphan.info.size_bytes for orphan in orphans),
        listed=tuple(map(_object, orphans)) if listed else (),
        restores=restores,
        folders=tuple(_folders(repository, staged)),
        problem=problem,
    )


def _object(orphan: Orphan) -> LeftObject:
    info = orphan.info
    return LeftObject(key=info.key, kind=orphan.kind, bytes=info.size_bytes, written_ms=info.modified_ms)


def _restore(quiet: QuietRestore) -> LeftRestore:
    topics = tuple(target for _, target in quiet.record.topics)
    is_drill = bool(topics) and all(topic.startswith(SCRATCH_PREFIX) for topic in topics)
    return LeftRestore(
        restore=quiet.record.restore,
        cluster_id=quiet.record.cluster_id,
        topics=topics,
        began_ms=quiet.record.created_at_ms,
        quiet_since_ms=quiet.folder.quiet_since_ms,
        next_step=DRILL if is_drill else CONTINUE,
    )


def _folders(repository: Repository, staged: Iterable[tuple[str, FolderSummary]]) -> Iterator[LeftFolder]:
    for place, folder in staged:
        yield _folder(place, folder, STAGED)
    for folder in find_unnamed_folders(repository):
        yield _folder(f"{repository.store.url}/{folder.prefix}", folder, UNNAMED)


def _folder(place: str, folder: FolderSummary, next_step: str) -> LeftFolder:
    return LeftFolder(
        place=place,
        objects=folder.objects,
        bytes=folder.size_bytes,
        quiet_since_ms=folder.quiet_since_ms,
        next_step=next_step,
    )
