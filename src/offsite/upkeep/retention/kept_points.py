"""Chooses the restore points kept by a policy, with the rule. Pure; reads only a few lines and commits of the history.

Buckets are hours, days, weeks, months and years in UTC. Of each of the last N buckets with a restore point, the newest
complete point stays: an interrupted pass is no point to restore. If a bucket has no complete point near its end, the
newest point stays, and no bucket is lost. N counts only buckets with a point, and a paused backup loses nothing;
maintenance commits, such as retention's own, do not count.

Ages count back from the newest complete restore point (`reckon`), never from a clock alone. So neither a source
outage, nor a paused backup, nor a later jump of the clock makes any point older. Commit times never go back; a point
dated after now stays, whatever its bucket, because its age is unknown.

The time of the newest complete point comes from a clock too. The records in the point serve as witnesses, because
records are dated by other clocks: if the newest record is less than a day older than the point, ages count from the
record. Otherwise only the rhythm of the backup can confirm the time: a pause much longer than the usual pauses may be a
jump of the clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import pairwise
from operator import attrgetter

from offsite.log.range import Span, uncovered
from offsite.model.clock import MOST_APART_MS, WITNESSED_MS
from offsite.model.names import amount
from offsite.model.units import format_duration, format_time
from offsite.repository.commit import FOR_EVER, Commit, Pin
from offsite.repository.commit_history import CommitHistory, CommitSummary
from offsite.repository.state import FIRST_SEQ, BackupState
from offsite.upkeep.retention.policy import RetentionPolicy

NEWEST = "newest"
COMPLETE = "newest complete"
CONSISTENT = "newest consistent"
AGE = "age"
AHEAD = "dated ahead"
PINNED = "pinned"
IN_USE = "in use"
SILENT = "silent source"
FIXED = frozenset({NEWEST, COMPLETE, CONSISTENT, AHEAD, PINNED, IN_USE, SILENT})
"""The rules that keep points regardless of the policy."""
_LOOKED_BACK = 100
"""Restore points of a bucket examined for a complete one, from the newest down."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MONDAY_MS = 4 * _DAY_MS
"""The first Monday after the epoch, which was a Thursday."""
_LAST_MS = 253_402_300_799_000
"""The last second of the year 9999, the end of the calendar."""
LEAST_STEP_MS = 3_600_000
"""A shorter pause never counts as a jump of a clock."""
_RHYTHMS = 3
"""A pause of this many usual pauses is long."""
_PAUSES_COMPARED = 100
_WITNESSES_MAX = 20
"""Restore points examined for one with records of its own."""
RUNS_CHECKED = 200
"""Dropped runs of restore points whose newest point is examined, from the newest run down."""


class CommitKind(Enum):
    """The purpose of a commit, as stated in the commit."""

    COMPLETE = "everything in the source at that time was copied, or is named as not copied"
    INCOMPLETE = "a pass that later commits continued, or that was interrupted"
    UPKEEP = "a roll-up, a compaction, retention, a pin: no new records since the commit before"


KindOf = Callable[[int], CommitKind]
"""The kind of the commit with that number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPoints:
    """Restore points `first` to `last` (commit numbers, both inclusive), their number, and the rule."""

    first: int
    last: int
    points: int
    rule: str


def choose_by_rules(
    history: CommitHistory, policy: RetentionPolicy, *, from_ms: int, kind_of: KindOf
) -> Iterator[ChosenPoints]:
    """The points chosen by the policy's rules, in the order of examination. Each bucket calls `kind_of` once or a few
    times, and there may be thousands of buckets. Ages count back from `from_ms`."""
    if policy.keep_age_ms is not None:
        yield from _from(history, from_ms - policy.keep_age_ms, AGE)
    for rule, buckets in policy.counts.items():
        yield from _buckets(history, rule, buckets, kind_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPoints:
    """Commit numbers `[start, end)` whose restore points a rule keeps."""

    start: int
    end: int
    rule: str


def find_newest_complete(history: CommitHistory, *, completed_at_ms: int, kind_of: KindOf) -> CommitSummary | None:
    """The newest complete restore point. `completed_at_ms`: from the newest state."""
    at = bisect_right(history, completed_at_ms, key=attrgetter("committed_at_ms")) - 1
    lines = (history[index] for index in range(at, max(-1, at - _LOOKED_BACK), -1))
    return next((line for line in lines if kind_of(line.seq) is CommitKind.COMPLETE), None)


def choose_always_kept(
    history: CommitHistory, *, now_ms: int, complete: CommitSummary | None, default: int | None = None
) -> list[ChosenPoints]:
    """The newest restore point, the newest complete point, the `default` point of a restore, and the points dated after
    now."""
    if not history:
        return []
    named = [(history[-1].seq, NEWEST), *([(complete.seq, COMPLETE)] if complete else [])]
    named += [(default, CONSISTENT)] if default is not None else []
    choices = [ChosenPoints(start=seq, end=seq + 1, rule=rule) for seq, rule in named]
    return [*choices, *_from(history, now_ms + 1, AHEAD)]


def choose_all(history: CommitHistory) -> list[ChosenPoints]:
    """All restore points, if none may expire."""
    return [ChosenPoints(start=history[0].seq, end=history[-1].seq + 1, rule=SILENT)] if history else []


def choose_pinned(pins: Iterable[Pin], *, now_ms: int) -> list[ChosenPoints]:
    """The points of pins in force."""
    return [ChosenPoints(start=pin.seq, end=pin.seq + 1, rule=PINNED) for pin in pins if pin_holds(pin, now_ms=now_ms)]


def pin_holds(pin: Pin, *, now_ms: int) -> bool:
    """Whether the pin is still in force."""
    return pin.until_ms == FOR_EVER or now_ms < pin.until_ms


def merge_chosen(history: CommitHistory, chosen: Iterable[ChosenPoints]) -> tuple[KeptPoints, ...]:
    """The points named by `chosen`, each once, rising, under the first rule that names the point."""
    spans: list[ChosenPoints] = []  # rising, without overlaps
    for choice in chosen:
        low = max(0, bisect_right(spans, choice.start, key=attrgetter("start")) - 1)
        high = bisect_left(spans, choice.end, key=attrgetter("start"))
        spans[low:high] = sorted([*spans[low:high], *_new_of(choice, spans[low:high])], key=attrgetter("start"))
    merged = (_counted(history, choice) for choice in spans)
    return tuple(points for points in merged if points is not None)


def unbroken_runs(history: CommitHistory, kept_points: Iterable[KeptPoints]) -> list[Span]:
    """The commit numbers `[first, last + 1)` kept without a break, rising: no point between them was ever dropped."""
    spans: list[Span] = []
    for points in kept_points:
        low = bisect_left(history, points.first, key=attrgetter("seq"))
        for first, end in _unbroken(history, low, low + points.points):
            if spans and spans[-1][1] == first:
                spans[-1] = spans[-1][0], end
            else:
                spans.append((first, end))
    return spans


def _unbroken(history: CommitHistory, low: int, high: int) -> Iterator[Span]:
    """The numbers of lines `low` to `high` of the history, split at every missing number."""
    first, last = history[low].seq, history[high - 1].seq
    if last - first == high - 1 - low:
        yield first, last + 1
        return
    middle = (low + high) // 2
    yield from _unbroken(history, low, middle)
    yield from _unbroken(history, middle, high)


def dropped_spans(history: CommitHistory, kept_points: Iterable[KeptPoints]) -> list[Span]:
    """The commit numbers `[start, end)` of restore points that are not kept, rising. Each span begins and ends at an
    existing point, so no span names an earlier deletion."""
    if not history:
        return []
    spans, at = [], history[0].seq
    for first, last in (*((points.first, points.last) for points in kept_points), (history[-1].seq + 1, 0)):
        if at < first and points_between(history, at, first - 1):
            begin = history[bisect_left(history, at, key=attrgetter("seq"))].seq
            spans.append((begin, newest_between(history, begin, first).seq + 1))
        at = last + 1
    return spans


def points_between(history: CommitHistory, first: int, last: int) -> int:
    """The number of restore points from commit `first` to `last`, both inclusive."""
    low = bisect_left(history, first, key=attrgetter("seq"))
    return bisect_right(history, last, lo=low, key=attrgetter("seq")) - low


def newest_between(history: CommitHistory, start: int, end: int) -> CommitSummary:
    """The newest restore point with a number below `end`; at least one exists from `start` on."""
    return history[
        bisect_left(history, end, lo=bisect_left(history, start, key=attrgetter("seq")), key=attrgetter("seq")) - 1
    ]


def bucket_start_ms(rule: str, time_ms: int) -> int:
    """The start of the rule's bucket around `time_ms`, epoch ms."""
    if rule == "hourly":
        return time_ms - time_ms % _HOUR_MS
    if rule == "daily":
        return time_ms - time_ms % _DAY_MS
    if rule == "weekly":
        return time_ms - (time_ms - _MONDAY_MS) % (7 * _DAY_MS)
    moment = _EPOCH + timedelta(milliseconds=min(time_ms, _LAST_MS))
    month = 1 if rule == "yearly" else moment.month
    return (datetime(moment.year, month, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def _from(history: CommitHistory, time_ms: int, rule: str) -> list[ChosenPoints]:
    """The points committed at or after `time_ms`."""
    before = history.latest_at(time_ms - 1)
    if not history or (before is not None and before.seq == history[-1].seq):
        return []
    return [ChosenPoints(start=before.seq + 1 if before else history[0].seq, end=history[-1].seq + 1, rule=rule)]


def _buckets(history: CommitHistory, rule: str, buckets: int, kind_of: KindOf) -> Iterator[ChosenPoints]:
    newest = history[-1] if buckets and history else None
    while newest is not None and buckets:
        start_ms = bucket_start_ms(rule, newest.committed_at_ms)
        seq = _best(history, newest.seq, start_ms, kind_of)
        if seq is not None:
            yield ChosenPoints(start=seq, end=seq + 1, rule=rule)
            buckets -= 1
        newest = history.latest_at(start_ms - 1)


def _best(history: CommitHistory, newest: int, start_ms: int, kind_of: KindOf) -> int | None:
    """The newest complete point of the bucket starting at `start_ms`, else its newest point. None if the bucket has
    only maintenance commits, which must not replace data read from the source."""
    at = bisect_left(history, newest, key=attrgetter("seq"))
    incomplete = None
    for index in range(at, max(-1, at - _LOOKED_BACK), -1):
        line = history[index]
        if line.committed_at_ms < start_ms:
            return incomplete
        kind = kind_of(line.seq)
        if kind is CommitKind.COMPLETE:
            return line.seq
        if kind is CommitKind.INCOMPLETE and incomplete is None:
            incomplete = line.seq
    if incomplete is None and at >= _LOOKED_BACK:
        return newest  # the bucket is larger than the search
    return incomplete


def _new_of(chosen: ChosenPoints, spans: Iterable[ChosenPoints]) -> Iterator[ChosenPoints]:
    """The parts of `chosen` outside of all `spans`, which rise."""
    for start, end in uncovered(chosen.start, chosen.end, ((span.start, span.end) for span in spans)):
        yield replace(chosen, start=start, end=end)


def _counted(history: CommitHistory, chosen: ChosenPoints) -> KeptPoints | None:
    """The chosen points with the numbers of the first and the last point; None if no point is left."""
    low = bisect_left(history, chosen.start, key=attrgetter("seq"))
    high = bisect_left(history, chosen.end, lo=low, key=attrgetter("seq"))
    if low == high:
        return None
    return KeptPoints(first=history[low].seq, last=history[high - 1].seq, points=high - low, rule=chosen.rule)


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
    for at in range(high, max(-1, high - _WITNESSES_MAX), -1):
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
    times = (segments.last_timestamp_ms for segments in state.segments.values())
    return (time_ms for time_ms in times if time_ms >= 0)


def _longest_plausible_ms(history: CommitHistory, high: int) -> int:
    """The longest pause up to line `high` consistent with the backup's rhythm. The recent pauses, except for the
    longest, are the rhythm."""
    times = (history[at].committed_at_ms for at in range(max(0, high - _PAUSES_COMPARED), high + 1))
    pauses = sorted(pause for pause in _pauses(times) if pause)[:-1]
    return max(LEAST_STEP_MS, _RHYTHMS * pauses[len(pauses) // 2]) if pauses else WITNESSED_MS


def _pauses(times: Iterable[int]) -> Iterator[int]:
    return (later - earlier for earlier, later in pairwise(times))
