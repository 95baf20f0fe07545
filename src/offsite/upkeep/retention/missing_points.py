"""Restore points that disappeared since an earlier look, and who removed them: as lines of the audit claim, where a
commit confirms the line. A disappearance without a line is nobody's of ours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from offsite.log.range import Span, uncovered
from offsite.model.names import amount
from offsite.repository.backup import Backup
from offsite.repository.local_memory import LastLook, LetGoMemory
from offsite.repository.partition_history import join_spans
from offsite.repository.snapshots.audit_record import POINTS, AuditLine, read_audit
from offsite.repository.state import BackupState
from offsite.upkeep.retention.kept_points import choose_all, merge_chosen, unbroken_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsLetGo:
    """How many restore points went, by whom and by which kind of work, as the audit claims; both are empty without a
    line."""

    who: str
    by: str
    points: int

    @property
    def is_claimed(self) -> bool:
        """Whether anybody left a line."""
        return bool(self.who)

    def __str__(self) -> str:
        by = (
            f"{self.by}, by {self.who}, as the audit says (offsite retention log)"
            if self.is_claimed
            else "without an audit line"
        )
        return f"{amount(self.points, 'restore point')} deleted since you last looked: {by}"


def since_look(backup: Backup, state: BackupState) -> tuple[PointsLetGo, ...]:
    """Restore points that went since somebody last looked on the local machine. The first call only notes the current
    points. Raises the errors of the store, and `DamagedCommit`."""
    look = LetGoMemory(backup=backup).last_look()
    if look is None:
        note_look(backup, state)
        return ()
    return let_go_since(backup, look, state)


def note_look(backup: Backup, state: BackupState) -> None:
    """Note that somebody looked at `state`."""
    if state.seq and not state.unreadable:
        LetGoMemory(backup=backup).note_looked(LastLook.at(state))


def let_go_since(backup: Backup, look: LastLook, state: BackupState) -> tuple[PointsLetGo, ...]:
    """Restore points that went since the look. Every commit is a restore point until a commit drops the point: with the
    expected number of points none went, and nothing is read. Nothing is reported of a state that is unreadable before
    its end, or does not continue the seen state."""
    if state.unreadable or state.seq < look.commit or look.points + state.seq - look.commit == len(state.history):
        return ()
    before = backup.catalog.state(upto=look.commit)
    if before.head_hash != look.hash:
        return ()
    unexplained = list(_without(_runs(before), _runs(state)))
    gone: list[PointsLetGo] = []
    for line, spans in _audited(backup, look.commit) if unexplained else ():
        remaining = list(_without(unexplained, join_spans(spans)))
        if points := _size(unexplained) - _size(remaining):
            gone.append(PointsLetGo(who=line.who, by=line.by, points=points))
        unexplained = remaining
    if unexplained:
        gone.append(PointsLetGo(who="", by="", points=_size(unexplained)))
    return tuple(_summed(gone))


def _runs(state: BackupState) -> list[Span]:
    return unbroken_runs(state.history, merge_chosen(state.history, choose_all(state.history)))


def _audited(backup: Backup, after: int) -> Iterator[tuple[AuditLine, Sequence[Span]]]:
    """The audit lines about restore points behind commit `after`, of commits that exist, with the points that these
    commits dropped."""
    writers: set[str] = set()
    for line in read_audit(backup.store, backup.layout, after=after - 1):
        if isinstance(line, AuditLine) and line.deletion.kind == POINTS and line.writer not in writers:
            stored = backup.log.get(line.commit + 1)
            if stored is not None and stored.commit.writer == line.writer:
                writers.add(line.writer)
                yield line, stored.commit.changes.forgotten


def _summed(gone: Iterable[PointsLetGo]) -> Iterator[PointsLetGo]:
    points: dict[tuple[str, str], int] = {}
    for loss in gone:
        points[loss.who, loss.by] = points.get((loss.who, loss.by), 0) + loss.points
    for (who, by), number in points.items():
        yield PointsLetGo(who=who, by=by, points=number)


def _without(spans: Iterable[Span], excluded: Sequence[Span]) -> Iterator[Span]:
    """The parts of `spans` outside of all `excluded` spans, which rise."""
    for start, end in spans:
        first = max(0, bisect_right(excluded, start, key=itemgetter(0)) - 1)
        yield from uncovered(start, end, (excluded[at] for at in range(first, len(excluded))))


def _size(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
