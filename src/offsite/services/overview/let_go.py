"""Which restore points are gone that were there at an earlier look, and by whom: as the lines of the audit claim, where
a commit bears them out. What no line accounts for, nobody of ours has let go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from offsite.log.range import Span, uncovered
from offsite.repository.backup import Backup
from offsite.repository.expiry import joined
from offsite.repository.snapshots.audit_record import POINTS, AuditLine, read_audit
from offsite.repository.state import BackupState
from offsite.services.let_go_memory import LetGoMemory, Look
from offsite.services.retention.kept_points import all_kept, runs, told


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsLetGo:
    """How many restore points went, by whom and by which kind of work, as the audit claims; both are empty where it has
    no line about them."""

    who: str
    by: str
    points: int

    @property
    def is_claimed(self) -> bool:
        """Whether anybody left a line."""
        return bool(self.who)

    def __str__(self) -> str:
        by = f"{self.by}, by {self.who}, as the audit says" if self.is_claimed else "by nobody who left a line"
        return f"{self.points:,} restore points let go since you looked: {by}"


def since_look(backup: Backup, state: BackupState) -> tuple[PointsLetGo, ...]:
    """What went since somebody last looked on this machine; the first time it is noted what there is. Raises what the
    store raises, and `DamagedCommit`."""
    look = LetGoMemory(backup=backup).looked()
    if look is None:
        note_look(backup, state)
        return ()
    return let_go_since(backup, look, state)


def note_look(backup: Backup, state: BackupState) -> None:
    """Somebody looked at `state`, and takes it for what it is."""
    if state.seq and not state.unreadable:
        LetGoMemory(backup=backup).note_looked(Look.at(state))


def let_go_since(backup: Backup, look: Look, state: BackupState) -> tuple[PointsLetGo, ...]:
    """What went since that look. Each commit is a restore point until one drops it, so where their number is right none
    went, and nothing is read. Of a state that cannot be read to its end, or goes on from another one, nothing is
    said."""
    if state.unreadable or state.seq < look.commit or look.points + state.seq - look.commit == len(state.history):
        return ()
    before = backup.catalog.state(upto=look.commit)
    if before.head_hash != look.hash:
        return ()
    left = list(_without(_runs(before), _runs(state)))
    gone: list[PointsLetGo] = []
    for line, spans in _audited(backup, look.commit) if left else ():
        rest = list(_without(left, joined(spans)))
        if points := _size(left) - _size(rest):
            gone.append(PointsLetGo(who=line.who, by=line.by, points=points))
        left = rest
    if left:
        gone.append(PointsLetGo(who="", by="", points=_size(left)))
    return tuple(_summed(gone))


def _runs(state: BackupState) -> list[Span]:
    return runs(state.history, told(state.history, all_kept(state.history)))


def _audited(backup: Backup, after: int) -> Iterator[tuple[AuditLine, Sequence[Span]]]:
    """The lines about restore points behind commit `after`, of commits that came to be, with what these dropped."""
    writers: set[str] = set()
    for line in read_audit(backup.store, backup.layout, after=after - 1):
        if isinstance(line, AuditLine) and line.deletion.kind == POINTS and line.writer not in writers:
            stored = backup.log.get(line.commit + 1)
            if stored is not None and stored.commit.writer == line.writer:
                writers.add(line.writer)
                yield line, stored.commit.changes.forgotten


def _summed(gone: Iterable[PointsLetGo]) -> Iterator[PointsLetGo]:
    points: dict[tuple[str, str], int] = {}
    for each in gone:
        points[each.who, each.by] = points.get((each.who, each.by), 0) + each.points
    for (who, by), number in points.items():
        yield PointsLetGo(who=who, by=by, points=number)


def _without(spans: Iterable[Span], others: Sequence[Span]) -> Iterator[Span]:
    """What of `spans` lies in none of `others`, which rise."""
    for start, end in spans:
        first = max(0, bisect_right(others, start, key=itemgetter(0)) - 1)
        yield from uncovered(start, end, (others[at] for at in range(first, len(others))))


def _size(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
