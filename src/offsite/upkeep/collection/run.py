"""The collection of a backup: deletes superfluous objects, after reading the segments with the same data.

A pass goes in small steps: plan, read, check the newest state again, delete, and note the progress. It may be
interrupted anywhere, also by `kill -9`. Only objects are deleted, each superfluous on its own, and the next pass finds
the rest by the same commits. Two concurrent processes delete the same objects.

A pass that finds damage deletes nothing: the old object may be the only sound copy, and on a damaging store every copy
counts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from offsite.engine.runner import Done, OnProgress, Runner, job_named
from offsite.model.clock import Clock
from offsite.model.errors import CommitsGone, DamagedObject, StoreDenied, check
from offsite.model.journal import decided
from offsite.model.names import amount
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.repository.heads import head_of, why_missing
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.local_memory import LetGoMemory
from offsite.repository.replaced import CollectedHint, collected_hint, note_collected
from offsite.repository.segments.segment import Segment
from offsite.repository.snapshots.audit_record import OBJECT, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import NOTHING_IN_FORCE, DisbelievedCommit, RetentionInForce, log_disbelieved
from offsite.upkeep.collection.plan import (
    LOOKED_UP_AT_ONCE,
    CollectableObject,
    CollectionPlan,
    collection_plan_steps,
    find_needed,
)
from offsite.upkeep.deletion import run_to_end
from offsite.upkeep.verification.segments import SegmentFinding, make_shares, verify_share

STEP_BYTES = 256 * MIB
"""Raw bytes read by one step, about: rounds of a backup wait for the step."""
DELETED_AT_ONCE = 1_000
"""Objects deleted by one step."""
BY = "collect"
RULE = "commits replaced or deleted it, and no restore point needs it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionResult:
    """The result of a pass: deleted objects and bytes, and `upto`, the commit up to which replaced objects are deleted.
    `is_last`: no later commit is old enough. `locked`: keys protected by the store, skipped. `kept`: disbelieved
    commits with removals; nothing was deleted because of their word."""

    objects: int
    bytes: int
    upto: int
    is_last: bool
    locked: tuple[str, ...] = ()
    kept: tuple[DisbelievedCommit, ...] = ()


def plan_collection(
    backup: Backup, *, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS, in_force: RetentionInForce = NOTHING_IN_FORCE
) -> CollectionPlan:
    """The plan of the next pass. Raises as `collection_plan_steps`."""
    return run_to_end(collection_plan_steps(backup, clock=clock, grace_ms=grace_ms, in_force=in_force))


def collect(
    backup: Backup,
    plan: CollectionPlan,
    *,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> CollectionResult:
    """Carry out `plan`. Raises as `collection_steps`."""
    return run_to_end(_carried_out(backup, plan, runner=runner, on_progress=on_progress, step_bytes=None))


def collection_steps(
    backup: Backup,
    *,
    runner: Runner,
    clock: Clock,
    grace_ms: int = LEFTOVER_AFTER_MS,
    in_force: RetentionInForce = NOTHING_IN_FORCE,
) -> Generator[None, None, CollectionResult]:
    """One pass, with a pause after each step. Raises `DamagedObject` if a replacement is damaged, `DamagedCommit` and
    `CommitsGone` if the history is (nothing was deleted in these cases), and errors of the store."""
    plan = yield from collection_plan_steps(backup, clock=clock, grace_ms=grace_ms, in_force=in_force)
    return (yield from _carried_out(backup, plan, runner=runner, on_progress=None, step_bytes=STEP_BYTES))


def _carried_out(
    backup: Backup, plan: CollectionPlan, *, runner: Runner, on_progress: OnProgress | None, step_bytes: int | None
) -> Generator[None, None, CollectionResult]:
    locked: tuple[str, ...] = ()
    if plan.objects:
        backup.store.delete(backup.layout.delete_probe_key)  # without the right to delete: fail before hours of reading
        for share in _shares(plan.replacements, step_bytes):
            if not _are_sound(backup, share, runner, on_progress):
                return CollectionResult(objects=0, bytes=0, upto=0, is_last=False)
            yield
        locked = yield from _delete(backup, plan)
        decided("collect", objects=len(plan.objects) - len(locked), bytes=plan.bytes, why=RULE, locked=len(locked))
    _note(backup, plan)
    log_disbelieved(plan.disbelieved)
    return CollectionResult(
        objects=len(plan.objects) - len(locked),
        bytes=sum(collectable.bytes for collectable in plan.objects if collectable.key not in locked),
        upto=plan.upto,
        is_last=plan.is_last,
        locked=locked,
        kept=plan.disbelieved,
    )


def _note(backup: Backup, plan: CollectionPlan) -> None:
    """Write the progress; for a backup begun by an earlier version also if none exists yet."""
    hint = CollectedHint(upto=plan.upto, pending=plan.pending)
    if hint != collected_hint(backup) or backup.store.head(backup.layout.collected_key) is None:
        note_collected(backup, hint.upto, hint.pending)
        LetGoMemory(backup=backup).forget(upto=hint.upto, but=hint.pending)


def _shares(segments: Sequence[Segment], step_bytes: int | None) -> Iterator[Sequence[Segment]]:
    share: list[Segment] = []
    size_bytes = 0
    for segment in segments:
        share.append(segment)
        size_bytes += segment.raw_bytes
        if step_bytes is not None and size_bytes >= step_bytes:
            yield share
            share, size_bytes = [], 0
    if share:
        yield share


def _are_sound(backup: Backup, segments: Sequence[Segment], runner: Runner, on_progress: OnProgress | None) -> bool:
    """Read all of `segments`: whether each agrees with its commit. False also if another process has replaced and
    collected one meanwhile. Raises `DamagedObject`."""
    read, tasks = partial(verify_share, store=backup.store), make_shares(segments, slots=runner.slots)
    with job_named(f"collect {backup.layout.backup}: {amount(len(segments), 'segment')} to read before"):
        outcomes = runner.run_all(tasks, read, on_progress=on_progress)
    for outcome in outcomes:
        if not isinstance(outcome, Done):
            raise outcome.error
        for finding in outcome.value:
            if finding.problem:
                key = finding.segment.object_key
                if not any(key in needed for needed in find_needed([key], backup.state())):
                    return False
                raise _damage(backup, finding)
    return True


def _damage(backup: Backup, finding: SegmentFinding) -> DamagedObject:
    segment = finding.segment
    return DamagedObject(
        f"{segment.key} ({segment.topic}/{segment.partition} [{segment.start}, {segment.end})) replaced other "
        f"segments and is damaged: {finding.problem}; nothing is collected, and the replaced segments still exist",
        hint="restore the object from the store's versions or from a copy, then: offsite verify --backup "
        f"{backup.descriptor.name} --deep",
    )


def _delete(backup: Backup, plan: CollectionPlan) -> Generator[None, None, tuple[str, ...]]:
    """Delete the objects that the newest state, folded again from the repository, does not need either. Returns the
    keys protected by the store."""
    head = backup.state()
    if gone := why_missing(backup, head, head_of(plan.head)):
        raise CommitsGone(gone, hint="restore the missing commits to the store first; nothing was collected")
    doomed = _superfluous(plan, head)
    locked: list[str] = []
    for first in range(0, len(doomed), DELETED_AT_ONCE):
        batch = doomed[first : first + DELETED_AT_ONCE]
        lines = [
            Deletion(kind=OBJECT, what=collectable.key, rule=RULE, bytes=collectable.bytes) for collectable in batch
        ]
        note_deletions(backup.store, backup.layout, lines, by=BY, commit=head.seq)
        with ThreadPoolExecutor(max_workers=LOOKED_UP_AT_ONCE, thread_name_prefix="collect") as pool:
            deleted = list(pool.map(partial(_delete_one, backup), batch))
        locked += [collectable.key for collectable, is_gone in zip(batch, deleted, strict=True) if not is_gone]
        yield
    return tuple(locked)


def _superfluous(plan: CollectionPlan, head: BackupState) -> tuple[CollectableObject, ...]:
    keys = {key for collectable in plan.objects for key in (collectable.body, collectable.key)}
    needed = {key for needed_keys in find_needed(keys, head) for key in needed_keys}
    return tuple(collectable for collectable in plan.objects if needed.isdisjoint((collectable.body, collectable.key)))


def _delete_one(backup: Backup, collectable: CollectableObject) -> bool:
    """Whether the object is gone. False if the store protects the object: the right to delete was checked before."""
    check(
        backup.layout.is_stored_body(collectable.key), f"{collectable.key} is not an object that a collection deletes"
    )
    try:
        backup.store.delete(collectable.key)
    except StoreDenied:
        return False
    return True
