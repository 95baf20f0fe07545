"""The content of a backup before disbelieved commits; consulted before the whole backup is removed.

A collector keeps the data removed by such a commit (see `agreement`). A backup must not look empty because of such a
commit either, when compared with its replacement. Anyone with the right to create objects can create a commit with
removals of data or pins, or an incomplete catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.repository.backup import Backup
from offsite.repository.commit import Pin
from offsite.repository.fold import fold
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.local_memory import LetGoMemory
from offsite.repository.replaced import CollectedHint, collected_hint
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import (
    DisbelievedCommit,
    RetentionInForce,
    judge_commit,
    loosened_pins,
    read_commit_to_judge,
)
from offsite.upkeep.collection.plan import CatalogCheck
from offsite.upkeep.deletion import run_to_end


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedCommit:
    """The state `before` a disbelieved commit, the reason, and the `pins` that the commit removed or shortened."""

    before: BackupState
    disbelieved: DisbelievedCommit
    pins: tuple[Pin, ...]

    def __str__(self) -> str:
        return (
            f"commit {self.disbelieved.commit} deleted a part of the backup, and this machine does not accept the "
            f"deletion: {self.disbelieved.why}"
        )


def find_disputed(
    backup: Backup, *, in_force: RetentionInForce, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS
) -> Iterator[DisputedCommit]:
    """The commits of `backup` with removals of data or pins, not yet judged or not believed by a collection, and
    neither made nor believed by this machine. Raises `DamagedObject` if a catalog contradicts the commits,
    `DamagedCommit`, `ClocksDiffer`, and errors of the store."""
    head, hint, catalogs = backup.state(), collected_hint(backup), CatalogCheck(backup)
    hint = hint if hint.upto <= head.seq else CollectedHint()
    state = backup.catalog.state(upto=hint.upto) if hint.upto else BackupState(backup=head.backup)
    doubtful = list(hint.pending)
    for stored in backup.log.read(after=state.seq, upto=head.seq):
        catalogs.check(state, stored)
        if stored.commit.changes.needs_judgement:
            doubtful.append(stored.commit.seq)
        state = fold(state, [stored])
    for seq in doubtful:
        before, commit = read_commit_to_judge(backup, seq)
        points = len(fold(before, [commit]).history)
        if LetGoMemory(backup=backup).rule_of(seq, commit.hash, points=points) is not None:
            continue
        disbelieved = run_to_end(
            judge_commit(backup, commit, before, in_force=in_force, clock=clock, grace_ms=grace_ms)
        ).disbelieved
        if disbelieved is not None:
            pins = loosened_pins(commit, before)
            yield DisputedCommit(
                before=before, disbelieved=disbelieved, pins=tuple(pin for pin in before.pins if pin.seq in pins)
            )
