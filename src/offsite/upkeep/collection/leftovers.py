"""Deletes the leftovers of unfinished runs in a backup, step by step. See decision 0022.

An old object without a reference is no proof: a run may be slow. An object may be deleted only if a later run has
positively passed over the object. A run names its objects in its commits up to the complete one, and commits follow one
another. So once a *complete* commit exists, no earlier run can commit any more, and the run of the commit has named all
of its objects. A concurrent roll-up or compaction commits its objects within the grace time. A data object may be
deleted if

- no commit names the object, of all existing commits from the first on: an object named by one commit and removed by
  another is the business of `upkeep.collection.plan`;
- the object was written before such a complete commit, by the store's clock and with a margin;
- the commit and the object are both older than the grace time.

A catalog without a seal may be deleted if a newer catalog was sealed longer ago than the grace time and no seal names
the object. The folder of a restore, drill or group change without a record may be deleted if untouched for the grace
time.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from offsite.model.bounds import whole_number
from offsite.model.clock import Clock
from offsite.model.errors import CommitsGone, Damaged, StoreDenied, check
from offsite.model.journal import decided, noted
from offsite.repository.backup import Backup
from offsite.repository.catalogs.seal import CatalogSeal, decode_seal
from offsite.repository.commit import StoredCommit
from offsite.repository.heads import head_of, why_missing
from offsite.repository.layout import lies_below, own_objects, parse_catalog_key, parse_part_key, parse_snapshot_key
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, Orphan, find_orphans, folder_of
from offsite.repository.snapshots.audit_record import OBJECT, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.upkeep.deletion import Pauses, check_clocks, run_to_end

MARGIN_MS = 10 * 60_000
"""An object must be older, by this margin, than the commit that passed it over. The servers of one store differ by
less."""
_LOOKED_BACK = 1_000
"""Commits searched for a complete and old enough one: a run commits every few minutes, and completes daily."""
_DATA = frozenset({"segment", "index", "groups", "metadata", "cut"})
BY = "leftovers"
RULE = "an interrupted run left it"
_DELETED_AT_ONCE = 500
_RECORDS = {"restore": "restore.json", "drill": "report.json", "group change": "change.json"}
"""The record that makes a folder a restore, a drill or a group change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoversPlan:
    """`objects` may be deleted. `undecided`: also without a reference in the newest state, but possibly still needed.
    `before_ms` (clock of the store): younger objects were not examined."""

    head: BackupState
    before_ms: int
    objects: tuple[Orphan, ...] = ()
    undecided: tuple[Orphan, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(orphan.info.size_bytes for orphan in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PassedOver:
    """The newest complete commit older than the grace time; `stored_ms` by the store's clock."""

    seq: int
    stored_ms: int


def leftovers_plan_steps(backup: Backup, *, clock: Clock, grace_ms: int) -> Generator[None, None, LeftoversPlan]:
    """The plan, made in steps. Raises `DamagedCommit`, `ClocksDiffer`, and errors of the store."""
    orphans = find_orphans(backup)
    head = backup.state()
    now_ms = check_clocks(backup.store.now_ms(), clock, place=backup.store.url)
    before_ms = now_ms - grace_ms
    yield
    old = tuple(orphan for orphan in orphans if orphan.info.modified_ms < before_ms)
    passed = _passed_over(backup, head, before_ms) if old else None
    may_go = {orphan.info.key for orphan in old if passed is not None and _is_passed(orphan, passed)}
    may_go |= {orphan.info.key for orphan in _of_catalogs(backup, old, before_ms)}
    may_go |= {orphan.info.key for orphan in _of_folders(backup, old, before_ms)}
    may_go = {key for key in may_go if lies_below(key, backup.layout.prefix)}
    passed_keys = frozenset(may_go)
    if may_go:
        may_go -= yield from find_named(backup.log.read(after=0, upto=head.seq), may_go, clock)
    return LeftoversPlan(
        head=head,
        before_ms=before_ms,
        objects=tuple(orphan for orphan in orphans if orphan.info.key in may_go),
        undecided=tuple(orphan for orphan in orphans if orphan.info.key not in passed_keys),
    )


def _passed_over(backup: Backup, head: BackupState, before_ms: int) -> _PassedOver | None:
    """None if no run has completed a pass long enough ago: a run may still commit any object."""
    newest = backup.log.newest_at(before_ms, after=0, upto=head.seq)
    for seq in range(newest, max(0, newest - _LOOKED_BACK), -1):
        stored, info = backup.log.get(seq), backup.store.head(backup.layout.commit_key(seq))
        if stored is None or info is None or stored.commit.changes.incomplete:
            continue
        if info.modified_ms < before_ms:
            return _PassedOver(seq=seq, stored_ms=info.modified_ms)
    return None


def _is_passed(orphan: Orphan, passed: _PassedOver) -> bool:
    """Whether the object's writer has committed or failed since."""
    if orphan.kind not in _DATA or orphan.info.modified_ms >= passed.stored_ms - MARGIN_MS:
        return False
    made_for = parse_snapshot_key(orphan.info.key) or 0
    return made_for <= passed.seq


def _of_catalogs(backup: Backup, orphans: Iterable[Orphan], before_ms: int) -> Iterator[Orphan]:
    """Objects of unsealed catalogs, if a newer catalog was sealed long ago."""
    unsealed = [orphan for orphan in orphans if orphan.kind == "catalog"]
    if not unsealed:
        return
    infos = {
        _sealed(info.key): info
        for info in own_objects(backup.store.list(backup.layout.catalog_prefix))
        if _sealed(info.key)
    }
    newest = max((seq for seq, info in infos.items() if info.modified_ms < before_ms), default=0)
    try:
        named = {key for seq in infos for key in _parts(backup, seq)}
    except Damaged as error:
        noted("leftovers_kept", what="unsealed catalogs", why=error.message)
        return
    for orphan in unsealed:
        seq = _catalog_of(orphan.info.key)
        if seq is not None and seq < newest and seq not in infos and orphan.info.key not in named:
            yield orphan


def _sealed(key: str) -> int:
    """The number of the sealed catalog; 0 for other keys, because no catalog belongs to commit 0."""
    return parse_catalog_key(key) or 0


def _catalog_of(key: str) -> int | None:
    """The number of the catalog for which the object was made."""
    if (part := parse_part_key(key)) is not None:
        return part
    digits = key.rpartition("/")[2].partition(".")[0]
    return whole_number(digits)


def _parts(backup: Backup, seq: int) -> Iterator[str]:
    key = backup.layout.seal_key(seq)
    data = backup.store.get(key)
    seal = None if data is None else decode_seal(data, key=key, layout=backup.layout)
    if isinstance(seal, CatalogSeal):
        yield from (part.key for part in seal.segments)
        yield from (chunk.ref.key for chunk in seal.history)


def _of_folders(backup: Backup, orphans: Iterable[Orphan], before_ms: int) -> Iterator[Orphan]:
    """The content of folders without a record and without a recent object."""
    quiet: dict[str, bool] = {}
    for orphan in orphans:
        prefix = next((p for p in backup.layout.record_prefixes if orphan.info.key.startswith(p)), None)
        if prefix is None or orphan.kind in _DATA or orphan.kind == "catalog":
            continue
        folder = f"{prefix}{orphan.info.key.removeprefix(prefix).split('/')[0]}/"
        if folder not in quiet:
            quiet[folder] = folder_of(backup.store, folder).quiet_since_ms < before_ms
        if quiet[folder]:
            yield orphan


def find_named(
    commits: Iterable[StoredCommit], candidates: Collection[str], clock: Clock
) -> Generator[None, None, frozenset[str]]:
    """The `candidates` named by any commit, in any way."""
    named: set[str] = set()
    paused = Pauses(clock)
    for stored in commits:
        changes = stored.commit.changes
        keys: list[str | None] = [*changes.snapshot_keys, *changes.removed]
        for segment in changes.segments:
            keys += (segment.key, segment.index_key, segment.pack)
        named.update(key for key in keys if key is not None and key in candidates)
        yield from paused.if_due()
    return frozenset(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoversResult:
    """The result of a pass. `locked`: keys protected by the store. `unfinished`: swept uploads. `undecided` objects
    stay until a later pass can decide."""

    objects: int = 0
    bytes: int = 0
    locked: tuple[str, ...] = ()
    unfinished: int = 0
    undecided: int = 0


def plan_leftovers(backup: Backup, *, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS) -> LeftoversPlan:
    """The plan, in one go. Raises as `leftover_steps`."""
    return run_to_end(leftovers_plan_steps(backup, clock=clock, grace_ms=max(grace_ms, LEFTOVER_AFTER_MS)))


def collect_leftovers(backup: Backup, plan: LeftoversPlan, *, clock: Clock) -> LeftoversResult:
    """Carry out `plan`. Raises as `leftover_steps`.

    Commits made since the plan are read before any deletion. Each deletion stands alone, so a pass may be interrupted
    anywhere, and two concurrent passes delete the same objects. Even if a run believed to be over came back, its commit
    would fail loudly: a commit first checks the existence of all segments, and the body of a segment is deleted before
    its index.
    """
    return run_to_end(_carried_out(backup, plan, clock))


def leftover_steps(
    backup: Backup, *, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS
) -> Generator[None, None, LeftoversResult]:
    """One pass with frequent pauses, for a continuous run. `grace_ms` is at least a day. Raises `DamagedCommit` and
    `CommitsGone` if the history is damaged, `ClocksDiffer`, `StoreDenied` without any right to delete, and errors of
    the store."""
    plan = yield from leftovers_plan_steps(backup, clock=clock, grace_ms=max(grace_ms, LEFTOVER_AFTER_MS))
    return (yield from _carried_out(backup, plan, clock))


def _carried_out(backup: Backup, plan: LeftoversPlan, clock: Clock) -> Generator[None, None, LeftoversResult]:
    unfinished = backup.store.sweep_unfinished(before_ms=plan.before_ms)
    if not plan.objects:
        return LeftoversResult(unfinished=unfinished, undecided=len(plan.undecided))
    # 1. Check the right to delete.
    backup.store.delete(backup.layout.delete_probe_key)  # without the right to delete: fail first
    yield
    head = backup.state()
    # 2. The log must still contain the plan's head.
    if gone := why_missing(backup, head, head_of(plan.head)):
        raise CommitsGone(gone, hint="restore the missing commits to the store first; nothing was deleted")
    # 3. Spare the objects named by commits made since the plan.
    planned_keys = {orphan.info.key for orphan in plan.objects}
    named = yield from find_named(backup.log.read(after=plan.head.seq, upto=head.seq), planned_keys, clock)
    named |= planned_keys & {
        key for segment in head.stored_segments() for key in (segment.object_key, segment.index_key) if key
    }
    deletions = _Deletions(backup)
    doomed = [orphan for orphan in _bodies_first(plan.objects) if orphan.info.key not in named]
    read_upto = head.seq
    # 4. Delete in batches, each with its audit lines before.
    for first in range(0, len(doomed), _DELETED_AT_ONCE):
        since = tuple(backup.log.read(after=read_upto))  # a slow roll-up may have committed at a pause
        named |= yield from find_named(since, planned_keys, clock)
        read_upto = since[-1].commit.seq if since else read_upto
        batch = [orphan for orphan in doomed[first : first + _DELETED_AT_ONCE] if orphan.info.key not in named]
        lines = [
            Deletion(kind=OBJECT, what=orphan.info.key, rule=RULE, bytes=orphan.info.size_bytes) for orphan in batch
        ]
        note_deletions(backup.store, backup.layout, lines, by=BY, commit=head.seq)
        for orphan in batch:
            deletions.delete(orphan)
        yield
    decided("collect_leftovers", objects=deletions.objects, bytes=deletions.bytes, why="interrupted runs left them")
    return LeftoversResult(
        objects=deletions.objects,
        bytes=deletions.bytes,
        locked=tuple(deletions.locked),
        unfinished=unfinished,
        undecided=len(plan.undecided),
    )


def _bodies_first(orphans: Sequence[Orphan]) -> Sequence[Orphan]:
    """A commit notices a missing segment body, and would not notice a missing index."""
    return sorted(orphans, key=lambda orphan: (orphan.kind == "index", orphan.info.key))


@dataclass(slots=True)
class _Deletions:
    backup: Backup
    objects: int = 0
    bytes: int = 0
    locked: list[str] = field(default_factory=list)

    def delete(self, orphan: Orphan) -> None:
        """Delete the object, unless replaced since the plan, or completed by a record."""
        layout, key = self.backup.layout, orphan.info.key
        check(not key.startswith(layout.commits_prefix) and lies_below(key, layout.prefix), f"{key} is not a leftover")
        if self.backup.store.head(key) != orphan.info or self._has_record(orphan):
            return
        try:
            self.backup.store.delete(key)
        except StoreDenied:  # the right was checked before: the store protects the object
            self.locked.append(key)
        else:
            self.objects += 1
            self.bytes += orphan.info.size_bytes

    def _has_record(self, orphan: Orphan) -> bool:
        if (record := _RECORDS.get(orphan.kind)) is None:
            return False
        prefix = next(p for p in self.backup.layout.record_prefixes if orphan.info.key.startswith(p))
        folder = orphan.info.key.removeprefix(prefix).split("/")[0]
        return self.backup.store.head(f"{prefix}{folder}/{record}") is not None
