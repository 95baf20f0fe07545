"""The reference moment for ages, and its evidence: never a clock alone. Pure, apart from requested commits.

Ages count back from the newest complete restore point. So neither a source outage, nor a paused backup, nor a later
jump of the clock makes any point older. The time of the newest complete point comes from a clock too. The records in
the point serve as witnesses, because records are dated by other clocks: if the newest record is less than a day older
than the point, ages count from the record. Otherwise only the rhythm of the backup can confirm the time: a pause much
longer than the usual pauses may be a jump of the clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from offsite.model.clock import MOST_APART_MS, WITNESSED_MS
from offsite.model.names import amount
from offsite.model.units import format_duration, format_time
from offsite.repository.commit import Commit
from offsite.repository.commit_history import CommitHistory, CommitSummary
from offsite.repository.state import FIRST_SEQ, BackupState

LEAST_STEP_MS = 3_600_000
"""A shorter pause never counts as a jump of a clock."""
_RHYTHMS = 3
"""A pause of this many usual pauses is long."""
_PAUSES_COMPARED = 100
_LOOKED_BACK = 20
"""Restore points examined for one with records of its own."""
RUNS_CHECKED = 200
"""Dropped runs of restore points whose newest point is examined, from the newest run down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoning:
    """Ages count back from `from_ms`, according to the newest complete restore point `complete`. `witnessed`: the
    newest record confirms the time."""

    complete: CommitSummary
    from_ms: int
    witnessed: bool


def reckon(state: BackupState, complete: CommitSummary, *, now_ms: int) -> Reckoning:
    """The reckoning for the newest complete restore point, with the state `state`. A point dated after `now_ms` counts
    as made now."""
    at_ms = min(now_ms, complete.committed_at_ms)
    recorded = max((time for time in _record_times(state) if time <= at_ms + MOST_APART_MS), default=-1)
    witnessed = recorded >= at_ms - WITNESSED_MS
    return Reckoning(complete=complete, from_ms=min(at_ms, recorded) if witnessed else at_ms, witnessed=witnessed)


def explain_silence(reckoning: Reckoning, *, floor_ms: int, now_ms: int) -> str:
    """Why nothing expires, if the source was silent for longer than the floor; else empty."""
    complete, silent_ms = reckoning.complete, now_ms - reckoning.complete.committed_at_ms
    if not floor_ms or silent_ms <= floor_ms:
        return ""
    silent, floor = format_duration(silent_ms / 1000), format_duration(floor_ms / 1000)
    return (
        f"nothing is deleted: the newest complete restore point, commit {complete.seq}, is {silent} old, and the "
        f"floor is {floor}; make the backup run again, or lower --floor"
    )


def explain_clock_jump(history: CommitHistory, newest_gone: int, reckoning: Reckoning) -> str:
    """Why the clock may have jumped ahead between restore point `newest_gone` and the newest complete point; else
    empty. A record that confirms the time of the newest point rules out a jump."""
    if reckoning.witnessed:
        return ""
    low, high = (bisect_left(history, seq, key=attrgetter("seq")) for seq in (newest_gone, reckoning.complete.seq))
    longest = _longest_plausible_ms(history, high)
    for older, newer in pairwise(history[at] for at in range(low, high + 1)):
        pause_ms = min(newer.committed_at_ms, reckoning.from_ms) - older.committed_at_ms
        if pause_ms > longest:
            return (
                f"between commits {older.seq} and {newer.seq} the clock advanced by "
                f"{format_duration(pause_ms / 1000)}, and no record in the newest complete restore point has such a "
                "late time: the clock may have jumped"
            )
    return ""


def explain_clock_behind(history: CommitHistory, newest_gone: int, read: Callable[[int], Commit]) -> str:
    """Why the clock may have been behind at restore point `newest_gone`, and the point younger than dated; else empty.
    `read` returns a commit by number.

    A clock behind the real time shows in the same way: the records of a commit are dated long after the commit. Commit
    times never go back, and a later commit without records of its own has the time of the commit before.
    """
    high = bisect_left(history, newest_gone, key=attrgetter("seq"))
    for at in range(high, max(-1, high - _LOOKED_BACK), -1):
        line = history[at]
        changes = read(line.seq).changes
        times = [segment.timestamp_max_ms for segment in changes.segments if segment.timestamp_max_ms >= 0]
        if changes.is_upkeep:
            continue
        if not times:
            if line.seq > FIRST_SEQ and read(line.seq - 1).committed_at_ms == line.committed_at_ms:
                return f"commits {line.seq - 1} and {line.seq} have the same time: the clock may have been behind"
            continue
        late = [time for time in times if time > line.committed_at_ms + WITNESSED_MS]
        if 2 * len(late) <= len(times):
            return ""
        return (
            f"commit {line.seq} is dated {format_time(line.committed_at_ms)}, but {amount(len(late), 'segment')} of "
            f"{len(times)} in it have records up to {format_time(max(late))}: the clock may have been behind"
        )
    older, newer = history[high], history[min(high + 1, len(history) - 1)]
    pause_ms = newer.committed_at_ms - older.committed_at_ms
    if pause_ms <= max(2 * WITNESSED_MS, _longest_plausible_ms(history, high)):
        return ""
    pause = format_duration(pause_ms / 1000)
    return f"no record confirms the time of commit {older.seq}, and the next commit followed {pause} later"


def _record_times(state: BackupState) -> Iterator[int]:
    lasts = (segments.last for segments in state.segments.values())
    return (last.timestamp_max_ms for last in lasts if last is not None and last.timestamp_max_ms >= 0)


def _longest_plausible_ms(history: CommitHistory, high: int) -> int:
    """The longest pause up to line `high` consistent with the backup's rhythm. The recent pauses, except for the
    longest, are the rhythm."""
    times = (history[at].committed_at_ms for at in range(max(0, high - _PAUSES_COMPARED), high + 1))
    pauses = sorted(pause for pause in _pauses(times) if pause)[:-1]
    return max(LEAST_STEP_MS, _RHYTHMS * pauses[len(pauses) // 2]) if pauses else WITNESSED_MS


def _pauses(times: Iterable[int]) -> Iterator[int]:
    return (later - earlier for earlier, later in pairwise(times))
