"""A base snapshot that is taken beside the processing, of an engine that cannot tell afterwards where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite_participant import bcs
from offsite_participant.bcs_snapshots import SnapshotBeside
from tests.simulation.store import Snapshot

if TYPE_CHECKING:
    from tests.simulation.leader import Leader


class SlowSnapshot:
    """What it holds is settled at a moment that its engine does not know. A leader that dies or is deposed meanwhile
    keeps nothing of it."""

    def __init__(self, leader: Leader) -> None:
        self._leader, self._partition = leader, leader.partition
        self.is_over = False

    def begin(self) -> None:
        self._beside = SnapshotBeside(self)
        self._partition.scheduler.soon(self._partition.beside_s, self.settle)

    def settle(self) -> None:
        self._end, self._state = self._leader.applied_end, self._leader.state
        self._partition.scheduler.soon(self._partition.beside_s, self.finish)

    def finish(self) -> None:
        leader, self.is_over = self._leader, True
        if leader.is_deposed or not self._partition.effect(leader, "end snapshot"):
            return
        end = self._beside.end()
        if end.is_kept:
            self._partition.add_snapshot(Snapshot(self._end, self._state, end.span))
        else:
            self._partition.scheduler.tell("aborted", f"{self._partition.name} @{end.aborted_by}")

    def processed(self) -> int:
        return self._leader.state.processed

    def written(self) -> int:
        return self._partition.log.end - 1

    def creates_after(self, position: int) -> Iterator[int]:
        log = self._partition.log
        for behind in range(max(position + 1, log.start), log.end):
            if isinstance(log.at(behind), bcs.Create):
                yield behind
