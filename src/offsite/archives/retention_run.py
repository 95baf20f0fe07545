"""Retention of an archive: old files leave the index first, the objects are deleted after a grace period.

The plan is made without a lock, and the displayed plan is executed: `carry_out` refuses (`ArchiveBusy`) when the
beginnings of partitions differ from the plan; additions at the ends do not matter. An export may continue meanwhile: a
folder's lock is held for moments only, and in an object store no write overwrites another.

First, objects taken out long enough ago are deleted; then new files are taken out. A crash may follow any step: the
next run deletes the remaining objects. Audit lines are written before every step (see `retention_audit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from offsite.archives.files import Files
from offsite.archives.formats import ReadOptions, open_retention
from offsite.archives.retention import (
    ArchiveFile,
    ExpiredObject,
    ExpiringFile,
    KeptFiles,
    RetentionArchive,
    RetentionLimits,
    choose_files,
    find_age_reference_ms,
)
from offsite.archives.retention_audit import ArchiveAudit
from offsite.archives.retention_source import MirrorRule, MirrorSource
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import ArchiveBusy, BadOption, StoreDenied
from offsite.model.journal import decided
from offsite.stores.open_store import open_archive_files
from offsite.stores.wrapped_store import display_now_ms
from offsite.upkeep.deletion import check_clocks

LEAST_COLLECT_AFTER_MS = 10 * 60_000
"""Minimum grace period where no lock keeps exports out: an export with the old index may list a file again, so the file
must still exist."""
_BUSY_FOR_S, _BUSY_PAUSE_S = 600.0, 0.5
"""Time to wait for a round of an export that holds the lock of a folder."""
_NEVER = "never-written"
"""A key never written: deleting the key shows a missing right to delete, before anything changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionTarget:
    """An archive at the place named by a person. `collect_after_ms`: grace period of the objects of removed files."""

    format: str
    files: Files
    archive: RetentionArchive
    collect_after_ms: int

    @property
    def place(self) -> str:
        return self.files.url


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRetentionPlan:
    """The decision, made at `now_ms` (clock of the store), with ages counted back from `from_ms`: files to remove; the
    kept part of every partition; objects removed earlier, `collectable` now or still `waiting`."""

    now_ms: int
    from_ms: int
    going: tuple[ExpiringFile, ...]
    kept_files: tuple[KeptFiles, ...]
    collectable: tuple[ExpiredObject, ...]
    waiting: tuple[ExpiredObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRetentionResult:
    """The result: `deleted` objects, and objects `locked` by the store's own lock."""

    deleted: tuple[ExpiredObject, ...]
    locked: tuple[ExpiredObject, ...]
    waiting: tuple[ExpiredObject, ...]


def open_archive(format_name: str, place: str, *, options: ReadOptions, collect_after_ms: int) -> RetentionTarget:
    """Open an archive for retention. Touches nothing. Raises `BadOption`, `BadRepositoryUrl`."""
    files = open_archive_files(place)
    if not files.has_lock and collect_after_ms < LEAST_COLLECT_AFTER_MS:
        raise BadOption(
            "keep objects in a store for at least 10 minutes after the archive dropped their file: an export may be "
            "writing the index",
            hint="give --collect-after 10m or more",
        )
    archive = open_retention(format_name, files, options)
    return RetentionTarget(format=format_name, files=files, archive=archive, collect_after_ms=collect_after_ms)


def plan_retention(
    target: RetentionTarget, limits: RetentionLimits, *, clock: Clock, mirroring: MirrorSource | None = None
) -> ArchiveRetentionPlan:
    """Plan the retention; changes nothing. `mirroring`: also remove records deleted by the topics' own retention.
    Raises `BadOption` without a limit, `ArchiveNotFound`, `DamagedArchive`, `ClocksDiffer`, and `KafkaUnavailable` when
    the cluster does not answer."""
    _check_limits(limits, mirroring)
    partitions = target.archive.partitions()
    mirror = None if mirroring is None else _mirror(target, partitions, mirroring)
    now_ms = check_clocks(display_now_ms(target.files), clock, place=target.place)  # who carries it out asks again
    last_message = target.archive.last_message
    by_age = limits.keep_age_ms is not None or mirroring is not None
    from_ms = find_age_reference_ms(partitions, last_message, now_ms=now_ms) if by_age else now_ms
    going, kept_files = choose_files(partitions, last_message, limits, from_ms=from_ms, mirror=mirror)
    collectable, waiting = _by_age(target.archive.expired(), now_ms - target.collect_after_ms)
    return ArchiveRetentionPlan(
        now_ms=now_ms, from_ms=from_ms, going=going, kept_files=kept_files, collectable=collectable, waiting=waiting
    )


def _check_limits(limits: RetentionLimits, mirroring: MirrorSource | None) -> None:
    if mirroring is None and limits.keep_age_ms is None and limits.max_bytes is None:
        raise BadOption("no rule for deletion is given", hint="give --mirror, --keep-age or --max-bytes")
    if mirroring is not None and limits.keep_age_ms is not None:
        raise BadOption("--mirror and --keep-age both limit the age of files", hint="give one of them")


def _mirror(
    target: RetentionTarget, partitions: Sequence[Sequence[ArchiveFile]], mirroring: MirrorSource
) -> Mapping[TopicPartition, MirrorRule]:
    settings = target.archive.settings()
    if settings is None:
        raise BadOption(
            f"--mirror cannot be used with {target.format} archives: they do not record their topics, or the record "
            "has no digest",
            hint="give --keep-age",
        )
    return mirroring.rules(settings, [files[0].partition for files in partitions if files])


def carry_out(target: RetentionTarget, plan: ArchiveRetentionPlan, *, clock: Clock) -> ArchiveRetentionResult:
    """Execute `plan`. Raises `ArchiveBusy` when the archive differs from the plan, or an export holds the folder for
    more than 10 minutes; `ClocksDiffer`, `StoreDenied`."""
    target.files.delete(_NEVER)
    now_ms = check_clocks(target.files.now_ms(), clock, place=target.place)
    audit = ArchiveAudit(files=target.files, at_ms=now_ms)
    deletions = _Deletions(target.files, audit)
    with _alone(target.files, clock):
        _collect(target, deletions, now_ms)
        audit.note_files(plan.going)
        deletions.delete_in_order(target.archive.forget(plan.going, now_ms=now_ms))
    if plan.going:
        why = "by the times of their last messages, by the retention of their topics, or by the size of the archive"
        decided(
            "archive_retention",
            files=len(plan.going),
            bytes=sum(expiring.file.size_bytes for expiring in plan.going),
            why=why,
        )
    with _alone(target.files, clock):
        _collect(target, deletions, now_ms)
    _, waiting = _by_age(target.archive.expired(), now_ms - target.collect_after_ms)
    return ArchiveRetentionResult(
        deleted=tuple(deletions.deleted), locked=tuple(deletions.locked.values()), waiting=waiting
    )


def _collect(target: RetentionTarget, deletions: _Deletions, now_ms: int) -> None:
    """Delete the objects removed long enough ago, according to the archive at this moment."""
    before_ms = now_ms - target.collect_after_ms
    due, _ = _by_age(target.archive.expired(), before_ms)
    deletions.delete_all(due)
    if due:
        target.archive.settle(
            {expired_object.key for expired_object in due} - deletions.locked.keys(), before_ms=before_ms
        )


def _by_age(
    expired: Iterable[ExpiredObject], before_ms: int
) -> tuple[tuple[ExpiredObject, ...], tuple[ExpiredObject, ...]]:
    """Split into objects removed at `before_ms` or earlier, and younger objects."""
    objects = tuple(expired)
    return (
        tuple(expired_object for expired_object in objects if expired_object.since_ms <= before_ms),
        tuple(expired_object for expired_object in objects if expired_object.since_ms > before_ms),
    )


@dataclass(slots=True)
class _Deletions:
    """Deleted objects, and objects protected by the store."""

    files: Files
    audit: ArchiveAudit
    deleted: list[ExpiredObject] = field(default_factory=list)
    locked: dict[str, ExpiredObject] = field(default_factory=dict)

    def delete_all(self, due: Iterable[ExpiredObject]) -> None:
        deletable = [expired_object for expired_object in due if expired_object.key not in self.locked]
        self.audit.note_objects(deletable)
        for expired_object in deletable:
            self._delete(expired_object)

    def _delete(self, expired_object: ExpiredObject) -> None:
        try:
            self.files.delete(expired_object.key)
        except StoreDenied:  # the right to delete was asked for before: the store protects this one
            self.locked[expired_object.key] = expired_object
        else:
            self.deleted.append(expired_object)

    def delete_in_order(self, gone: Sequence[ExpiredObject]) -> None:
        """Delete in order. Behind a kept object, nothing of the partition is deleted: where names define the contents,
        a gap would be a hole."""
        self.audit.note_objects(gone)
        stopped: set[TopicPartition] = set()
        for expired_object in gone:
            if expired_object.partition in stopped:
                self.locked[expired_object.key] = expired_object
            else:
                self._delete(expired_object)
            if expired_object.key in self.locked:
                stopped.add(expired_object.partition)


@contextmanager
def _alone(files: Files, clock: Clock) -> Iterator[None]:
    """A context without a writing export in a folder. Waits for a round of a following export."""
    ends_s = clock.monotonic_s() + _BUSY_FOR_S
    with ExitStack() as stack:
        while not _is_entered(stack, files, may_wait=clock.monotonic_s() < ends_s):
            clock.sleep(_BUSY_PAUSE_S)
        yield


def _is_entered(stack: ExitStack, files: Files, *, may_wait: bool) -> bool:
    try:
        stack.enter_context(files.exclusive())
    except ArchiveBusy:
        if not may_wait:
            raise
        return False
    return True
