"""Pieces appended to a log: a batch, or control records of transactions. A piece knows its offsets, and recognises
itself in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsite.kafka.producer import Producer
from offsite.kafka.transactions.outcomes import TransactionOutcome
from offsite.log.batch import BatchHeader
from offsite.log.markers import parse_control_marker

_OUTCOME_BYTES = 78  # a batch with one control record, as the log has it


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """A batch at `[start, end)`. `sequence`: sequence number of the first record."""

    start: int
    end: int
    data: memoryview
    producer: Producer
    sequence: int

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def take_match(self, batch: memoryview, header: BatchHeader) -> bool:  # noqa: ARG002  # as outcomes have it
        """Whether a batch of the log at `start` is the same batch."""
        mine = (self.producer.producer_id, self.producer.epoch, self.sequence, self.end - self.start)
        return mine == (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count)


@dataclass(slots=True, kw_only=True, eq=False)
class ControlRecords:
    """Control records from `start` on, one per outcome."""

    start: int
    outcomes: Sequence[TransactionOutcome]

    @property
    def end(self) -> int:
        return self.start + len(self.outcomes)

    @property
    def size_bytes(self) -> int:
        return _OUTCOME_BYTES * len(self.outcomes)

    def take_match(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether a batch of the log at `start` is the first control record of the piece. A match is removed from the
        piece."""
        first, marker = self.outcomes[0], parse_control_marker(batch, header) if header.is_control else None
        is_same = (header.producer_id, header.producer_epoch) == (first.producer_id, first.producer_epoch)
        if marker is None or not is_same or (marker.kind == "commit") != first.committed:
            return False
        self.start, self.outcomes = self.start + 1, self.outcomes[1:]
        return True


Piece: TypeAlias = Batch | ControlRecords
