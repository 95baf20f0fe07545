"""Deletes the leftovers of a backup in steps, by the plan of `leftovers_plan`, after reading the commits made since.

Each deletion stands alone, so a pass may be interrupted anywhere, and two concurrent passes delete the same objects.
Even if a run believed to be over came back, its commit would fail loudly: a commit first checks the existence of all
segments, and the body of a segment is deleted before its index.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.errors import CommitsGone, StoreDenied, check
from offsite.model.journal import decided
from offsite.repository.backup import Backup
from offsite.repository.heads import head_of, why_missing
from offsite.repository.layout import lies_below
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, Orphan
from offsite.repository.snapshots.audit_record import OBJECT, Deletion, note_deletions
from offsite.upkeep.collection.leftovers_plan import LeftoversPlan, find_named, leftovers_plan_steps
from offsite.upkeep.steps import run_to_end

BY = "leftovers"
RULE = "an interrupted run left it"
_DELETED_AT_ONCE = 500
_RECORDS = {"restore": "restore.json", "drill": "report.json", "group change": "change.json"}
"""The record that makes a folder a restore, a drill or a group change."""


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
    """Carry out `plan`. Raises as `leftover_steps`."""
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
