"""What every deletion of old data keeps to. By age: only if the local machine's clock and the store's roughly agree. In
a commit of its own: with a line in the audit before the commit, uninterrupted, and remembered as made by this machine.
In steps: a generator with frequent pauses, so that a following run does the work between its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import ClocksDiffer, CommitLost
from offsite.model.ids import random_id
from offsite.model.uninterrupted import uninterrupted
from offsite.model.units import format_duration, format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.local_memory import NO_RULE, LetGoMemory
from offsite.repository.snapshots.audit_record import Deletion, note_deletions
from offsite.repository.state import BackupState

ResultT = TypeVar("ResultT")

ATTEMPTS = 10
"""How often to try again after losing to another writer: a continuous run commits every few seconds."""
PAUSE_S = 0.5
"""Approximate seconds of work between two pauses."""


def check_clocks(store_ms: int, clock: Clock, *, place: str) -> int:
    """Return `store_ms`, the time of the store at `place`, if `clock` roughly agrees. Raises `ClocksDiffer`."""
    local_ms = clock.now_ms()
    if abs(store_ms - local_ms) > MOST_APART_MS:
        apart = format_duration(abs(store_ms - local_ms) / 1000)
        raise ClocksDiffer(
            f"the clock of {place} says {format_time(store_ms)}, and the clock of this machine says "
            f"{format_time(local_ms)}: the difference is {apart}, so one clock is wrong",
            hint="correct the wrong clock; nothing was deleted",
        )
    return store_ms


def commit_upkeep(  # noqa: PLR0913  # all by keyword but what is committed, and onto what
    backup: Backup,
    base: BackupState,
    changes: CommitChanges,
    *,
    deletions: Sequence[Deletion] = (),
    by: str = "",
    rule: str = NO_RULE,
) -> BackupState:
    """Commit `changes` on top of `base`, with everything else as in `base`, and return the new state. Before the
    commit, `deletions` are noted in the audit as work of kind `by` (empty: the commit deletes nothing). `rule`: the
    policy in words. Raises as `Backup.commit`."""
    writer = random_id(16)
    if by:
        note_deletions(backup.store, backup.layout, deletions, by=by, commit=base.seq, writer=writer)
    with uninterrupted():
        after = backup.commit(base.carry_over(changes), base=base, writer=writer)
    LetGoMemory(backup=backup).note_made(after, rule)
    return after


def commit_on_newest(backup: Backup, commit: Callable[[BackupState], ResultT]) -> ResultT:
    """The result of `commit` on the newest state, tried anew while other writers are first. Raises `CommitLost` if they
    keep being first, and the errors of `commit`."""
    for _ in range(ATTEMPTS - 1):
        try:
            return commit(backup.state())
        except CommitLost:
            continue
    return commit(backup.state())


class Pauses:
    """Pauses after `PAUSE_S` seconds of work. The duration of a pause is no work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = clock.monotonic_s() + PAUSE_S

    def if_due(self) -> Generator[None, None, None]:
        """A pause, if due."""
        if self._clock.monotonic_s() >= self._next_s:
            yield
            self._next_s = self._clock.monotonic_s() + PAUSE_S


def run_to_end(steps: Generator[None, None, ResultT]) -> ResultT:
    """The result of work in steps, done without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
