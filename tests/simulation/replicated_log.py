"""The log of one partition: what is durable, and what its leader has appended and may still lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from offsite_participant.bcs import CheckpointRecord
from tests.simulation.engine import Command, Done
from tests.virtual_time import Scheduler

Record = Command | Done | CheckpointRecord

REPLICATION_S = 0.05


@dataclass
class ReplicatedLog:
    """`records` are durable, the first of them at position `start`. A batch is durable as a whole or not at all;
    `end_of_batch` is behind the one that became so last, of which `on_durable` is told."""

    scheduler: Scheduler
    start: int = 0
    records: list[Record] = field(default_factory=list)
    term: int = 0
    end_of_batch: int = 0
    on_durable: Callable[[], None] = lambda: None
    _pending: list[tuple[int, tuple[Record, ...], Callable[[], None]]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def at(self, position: int) -> Record:
        return self.records[position - self.start]

    def read(self, start: int, end: int) -> tuple[Record, ...]:
        """Raises `LookupError` for what is compacted away."""
        if start < self.start:
            raise LookupError(f"{start} is compacted away, the log begins at {self.start}")
        return tuple(self.records[start - self.start : end - self.start])

    def append(self, term: int, batch: Sequence[Record], done: Callable[[], None] = lambda: None) -> None:
        """Append as the leader of `term`; `done` is called once the batch is durable. What a deposed leader appends is
        lost, and it is not told."""
        if term != self.term:
            return
        self._pending.append((term, tuple(batch), done))
        self.scheduler.soon(REPLICATION_S, self._replicate)

    def _replicate(self) -> None:
        if self._pending:
            _, batch, done = self._pending.pop(0)
            self.records.extend(batch)
            self.end_of_batch = self.end
            done()
            self.on_durable()

    def elect(self, term: int) -> None:
        """A new leader: of what was under way some batches made it, and nobody is told of them."""
        for _, batch, _ in self._pending[: self.scheduler.chance.randint(0, len(self._pending))]:
            self.records.extend(batch)
        self._pending.clear()
        self.term = term

    def compact(self, before: int) -> None:
        if before > self.start:
            del self.records[: before - self.start]
            self.start = before
