"""What a backup must still hold when retention lets go of the rest: every kept restore point what its topics held then.

It goes by the truth of `Judge`, point by point, and by its own plain reckoning of what a policy keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offsite.backup.run import BackupResult
from offsite.log.range import PartitionId
from offsite.model.errors import NoSuchRestorePoint
from offsite.repository.backup import Backup
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from tests.worlds.source_events.judge import Judge, Known, Planned
from tests.worlds.source_events.source import SimSource


@dataclass(frozen=True)
class Then:
    """A restore point when it was made: its time by the store's clock, whether its pass was complete, and where what
    each topic that was there held began: by what the source told (`log_starts`), and as far as the source never let go
    of it (`starts`)."""

    time_ms: int
    complete: bool
    starts: dict[PartitionId, int]
    log_starts: dict[PartitionId, int]


class RetentionJudge(Judge):
    """A judge to whom a kept point may hold more than it needs, and never less."""

    def __init__(self) -> None:
        super().__init__()
        self.then: dict[int, Then] = {}

    def after(self, planned: Planned, source: SimSource, result: BackupResult, state: BackupState) -> None:
        super().after(planned, source, result, state)
        alive = {known for known in self.known if not self._gone(known)}
        for known, position in state.positions.items():
            self.known[known].let_go = max(self.known[known].let_go, position.log_start)
        self.then[state.seq] = Then(
            time_ms=state.committed_at_ms,
            complete=not state.incomplete,
            starts={known: self.known[known].let_go for known in alive if known in state.positions},
            log_starts={known: state.positions[known].log_start for known in alive if known in state.positions},
        )

    def note_next(self, seq: int, *, time_ms: int) -> None:
        """Take the restore point of a commit that changed nothing of what the one before it held."""
        before = max(each for each in self.points if each < seq)
        then = replace(self.then[before], time_ms=time_ms, complete=False)  # no rule has to keep it for what it holds
        self.points[seq], self.then[seq] = self.points[before], then

    def compare(self, state: BackupState, known: dict[PartitionId, Known], backup: Backup | None = None) -> None:
        then = self.then.get(state.seq)
        for partition, expected in known.items():
            position = state.positions.get(partition)
            assert (position.end if position else 0) == expected.position, f"position of {partition}"
            start = expected.position if then is None else then.starts.get(partition, expected.position)
            needed = {o: value for o, value in expected.held().items() if o >= start}
            holes = [hole for hole in state.holes if hole.partition_id == partition]
            lost = {o for hole in holes for o in range(hole.start, hole.end)}
            missing = {o for o in expected.lost if expected.values[o] is not None and o >= start} - lost
            assert not missing, f"commit {state.seq}: {partition} lacks {sorted(missing)}, and names no hole"
            assert not needed.keys() & lost, (
                f"commit {state.seq}: {partition} calls {sorted(needed.keys() & lost)} lost"
            )
            if backup is not None:
                found = self._read(backup, state, partition)
                assert needed.items() <= found.items(), f"commit {state.seq}: {partition} needs {needed}, holds {found}"
                assert found.items() <= expected.held().items(), f"commit {state.seq}: {partition} holds {found}"

    def compare_all(self, backup: Backup) -> None:
        """Compare every restore point that is left, to the record, and look whether its objects are there."""
        head = backup.state()
        for seq, known in self.points.items():
            if head.history.find(seq) is None:
                self._assert_dropped(backup, seq, head)
                continue
            state = backup.state_at(seq, head=head)
            for segment in state.all_segments():
                assert backup.store.head(segment.object_key), f"commit {seq}: {segment.object_key} is gone"
            self.compare(state, known, backup)

    @staticmethod
    def _assert_dropped(backup: Backup, seq: int, head: BackupState) -> None:
        try:
            backup.state_at(seq, head=head)
        except NoSuchRestorePoint:
            return
        raise AssertionError(f"commit {seq} was dropped, and is served")

    def needed(self, backup: Backup) -> Iterator[Segment]:
        """The segments, as they were written, that a kept point needs, or would need if nothing was let go before."""
        head = backup.state()
        for line in head.history:
            then, state = self.then[line.seq], backup.state_at(line.seq, head=head)
            for known, start in then.log_starts.items():
                end = state.positions[known].end
                for segment in state.segments.get(known, ()):
                    if start < max(segment.end, segment.last_offset + 1) and segment.start < end:
                        yield segment.as_written
