"""The restore points of a backup on a line of time: grouped where they are many, with marks for what happened to the
backup and to its source. Pure: from the state and the last checks.

Marks tell what the repository knows. A check or a drill is known by its last one; a topic that was created anew is
known by the time when a run found its predecessor deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.names import amount
from offsite.model.units import format_duration
from offsite.overview.comparison import UNKNOWN_MS
from offsite.repository.commit import Pin
from offsite.repository.commit_history import COLUMNS, NO_CHECKPOINT, Columns, CommitHistory, CommitSummary
from offsite.repository.snapshots.check_records import VerifyRecord
from offsite.repository.state import BackupState
from offsite.upkeep.verification.last_checks import LastChecks

GROUPS_MAX = 32
"""Groups, or single restore points, of one view: more are hard to tell apart on a phone."""
MARKS_MAX = 30
"""Marks of one kind that are told in words."""
_SECOND_MS = 1_000
_DAY_S = 86_400
_STEPS_S = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 43_200, _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S)
_LONG_STEP_S = 28 * _DAY_S
_HOLES, _CHECKPOINTS = COLUMNS.index("holes"), COLUMNS.index("checkpoint")


class MarkKind(StrEnum):
    """Kinds of marks, in the order of their rows on a line of time."""

    CHECKPOINT = "checkpoint"
    CHECK = "check or drill"
    LOSS = "hole or branch"
    DELETED = "deleted at the source"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMark:
    """Something that happened at `at_ms` (epoch ms by the store's clock), in words. `is_bad`: a loss, or damage."""

    at_ms: int
    kind: MarkKind
    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PointGroup:
    """Restore points that follow each other, `count` of them, between `from_ms` and `to_ms` (epoch ms): of all commits
    the `newest`, and the number of commits with `holes` and of `checkpoints`. `pin`: why the only point is pinned."""

    from_ms: int
    to_ms: int
    count: int
    newest: CommitSummary
    holes: int
    checkpoints: int
    pin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """A view of the restore points committed within `[from_ms, to_ms]`, of `total` points from `first_ms` to `last_ms`.
    `groups`: the oldest first. `left_out`: older points of the view that no group holds. `marks`: the oldest first."""

    from_ms: int
    to_ms: int
    first_ms: int
    last_ms: int
    total: int
    groups: tuple[PointGroup, ...] = ()
    left_out: int = 0
    marks: tuple[TimeMark, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the view shows all of the line."""
        return self.from_ms <= self.first_ms and self.to_ms >= self.last_ms

    @property
    def count(self) -> int:
        """The number of restore points in the view."""
        return self.left_out + sum(group.count for group in self.groups)

    def moved(self, by: float) -> tuple[int, int]:
        """The view moved by a part of its length, within the line."""
        length_ms = self.to_ms - self.from_ms
        start_ms = min(
            max(self.first_ms, self.from_ms + int(by * length_ms)), max(self.first_ms, self.last_ms - length_ms)
        )
        return start_ms, start_ms + length_ms

    def wider(self) -> tuple[int, int]:
        """A view of three times the length, within the line."""
        length_ms = max(1, self.to_ms - self.from_ms)
        return max(self.first_ms, self.from_ms - length_ms), min(self.last_ms, self.to_ms + length_ms)

    def told(self, kind: MarkKind) -> tuple[TimeMark, ...]:
        """The newest marks of a kind, the newest first."""
        return tuple(mark for mark in reversed(self.marks) if mark.kind is kind)[:MARKS_MAX]


def draw_time_line(
    state: BackupState, checks: LastChecks | None = None, *, from_ms: int | None = None, to_ms: int | None = None
) -> TimeLine:
    """Draw the restore points within a view; by default all. Reads the lines of the view only."""
    history = state.history
    first_ms, last_ms = history.first_ms, history[-1].committed_at_ms if history else 0
    start_ms = first_ms if from_ms is None else max(first_ms, from_ms)
    end_ms = last_ms if to_ms is None else min(last_ms, to_ms)
    if start_ms > end_ms:
        start_ms, end_ms = first_ms, last_ms
    low, high = history.count_at(start_ms - 1), history.count_at(end_ms)
    groups = tuple(_groups(history, low, high, state.pins))
    marks = sorted(_marks(state, history.lines(low, high), checks), key=lambda mark: (mark.at_ms, mark.text))
    is_to_end = end_ms == last_ms  # a check and a deletion follow the commit that they are about
    return TimeLine(
        from_ms=start_ms,
        to_ms=end_ms,
        first_ms=first_ms,
        last_ms=last_ms,
        total=len(history),
        groups=groups,
        left_out=high - low - sum(group.count for group in groups),
        marks=tuple(mark for mark in marks if start_ms <= mark.at_ms and (mark.at_ms <= end_ms or is_to_end)),
    )


def _groups(history: CommitHistory, low: int, high: int, pins: Iterable[Pin]) -> Iterator[PointGroup]:
    """The points at positions `[low, high)`: each alone if they are few, or too close to each other for groups."""
    reasons = {pin.seq: pin.reason for pin in pins}
    length_ms = history[high - 1].committed_at_ms - history[low].committed_at_ms if high > low else 0
    if high - low <= GROUPS_MAX or length_ms < _SECOND_MS:
        for position in range(max(low, high - GROUPS_MAX), high):
            yield _group(history, position, position + 1, reasons)
        return
    step_ms = _step_ms(length_ms)
    at = low
    while at < high:
        end_ms = history[at].committed_at_ms // step_ms * step_ms + step_ms
        following = min(high, history.count_at(end_ms - 1))
        yield _group(history, at, following, reasons)
        at = following


def _step_ms(length_ms: int) -> int:
    """A round length of a group, so that at most `GROUPS_MAX` begin within `length_ms`."""
    least_s = length_ms / _SECOND_MS / (GROUPS_MAX - 1)
    step_s = next((step_s for step_s in _STEPS_S if step_s >= least_s), 0)
    return (step_s or _LONG_STEP_S * -(-int(least_s) // _LONG_STEP_S)) * _SECOND_MS


def _group(history: CommitHistory, low: int, high: int, reasons: dict[int, str]) -> PointGroup:
    lines, newest = history.lines(low, high), history[high - 1]
    return PointGroup(
        from_ms=lines[1][0],
        to_ms=newest.committed_at_ms,
        count=high - low,
        newest=newest,
        holes=high - low - lines[_HOLES].count(0),
        checkpoints=high - low - lines[_CHECKPOINTS].count(NO_CHECKPOINT),
        pin=reasons.get(newest.seq, "") if high - low == 1 else "",
    )


def _marks(state: BackupState, lines: Columns, checks: LastChecks | None) -> Iterator[TimeMark]:
    yield from _commit_marks(lines)
    yield from _branch_marks(state)
    yield from _deletion_marks(state)
    if checks is not None:
        yield from _check_marks(checks)


def _commit_marks(lines: Columns) -> Iterator[TimeMark]:
    for seq, at_ms, holes, checkpoint in zip(lines[0], lines[1], lines[_HOLES], lines[_CHECKPOINTS], strict=True):
        if checkpoint != NO_CHECKPOINT:
            yield TimeMark(at_ms=at_ms, kind=MarkKind.CHECKPOINT, text=f"checkpoint {checkpoint}, commit {seq}")
        if holes:
            text = f"commit {seq} found {amount(holes, 'hole')}: the source had lost records"
            yield TimeMark(at_ms=at_ms, kind=MarkKind.LOSS, text=text, is_bad=True)


def _branch_marks(state: BackupState) -> Iterator[TimeMark]:
    for branch in state.branches:
        point = state.history.find(branch.commit)
        if point is not None:
            text = f"commit {branch.commit} found {branch.partition_id} cut back to offset {branch.at:,}"
            yield TimeMark(at_ms=point.committed_at_ms, kind=MarkKind.LOSS, text=text, is_bad=True)


def _deletion_marks(state: BackupState) -> Iterator[TimeMark]:
    latest = {shape.incarnation for shape in state.latest_shapes().values()}
    for incarnation, shape in state.topics.items():
        if shape.is_deleted:
            anew = "" if incarnation in latest else ", and created anew under the same name"
            text = f"{shape.topic} was found deleted at the source{anew}"
            yield TimeMark(at_ms=shape.deleted_ms, kind=MarkKind.DELETED, text=text, is_bad=True)


def _check_marks(checks: LastChecks) -> Iterator[TimeMark]:
    yield from (_check_mark(record, "") for record in checks.verified)
    yield from (_check_mark(record, ", claimed by another installation") for record in checks.claimed)
    if checks.proven_ms != UNKNOWN_MS:
        yield TimeMark(at_ms=checks.proven_ms, kind=MarkKind.CHECK, text="a drill proved the backup")
    for drill, whose in ((checks.drill, ""), (checks.claimed_drill, ", claimed by another installation")):
        if drill is not None and drill.ended_ms != checks.proven_ms:
            said = {True: "proved the backup", False: "did NOT prove the backup", None: "proved nothing"}[drill.proven]
            yield TimeMark(
                at_ms=drill.ended_ms, kind=MarkKind.CHECK, text=f"a drill {said}{whose}", is_bad=drill.proven is False
            )


def _check_mark(record: VerifyRecord, whose: str) -> TimeMark:
    said = "sound" if record.ok else "DAMAGE"
    text = f"{record.depth} check as of commit {record.commit}: {said}{whose}"
    return TimeMark(at_ms=record.verified_at_ms, kind=MarkKind.CHECK, text=text, is_bad=not record.ok)


def describe_line(line: TimeLine) -> str:
    """The view in one sentence, for who does not see it."""
    length = format_duration((line.to_ms - line.from_ms) / 1000)
    return f"{line.count:,} of {line.total:,} restore points within {length}, listed below"
