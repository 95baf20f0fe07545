"""The records of one segment that belong to a piece, in batches; damage is told once, by the piece it lies in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage, Piece
from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import Segment
from offsite.archives.kafka_backup.segment_reader import Misindexed, SegmentReader, SegmentStep
from offsite.archives.kafka_backup.walk import Skipped
from offsite.log.record import Record

_RECORDS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    files: Files
    segment: Segment
    piece: Piece
    on_damage: OnDamage

    def batches(self) -> Iterator[Sequence[Record]]:
        """Rising; ends where the piece does."""
        piece, last = self.piece, self.segment.start - 1
        for step in SegmentReader(self.files, self.segment, piece.start).steps():
            if isinstance(step, Skipped | Misindexed):
                self._tell(step, last)
                continue
            last = step.records[-1].offset
            yield from self._taken(step.records)
            if piece.end is not None and last >= piece.end:
                return

    def _taken(self, records: list[Record]) -> Iterator[Sequence[Record]]:
        piece = self.piece
        if not (piece.takes(records[0].offset) and piece.takes(records[-1].offset)):
            records = [record for record in records if piece.takes(record.offset)]
        for first in range(0, len(records), _RECORDS_AT_ONCE):
            yield records[first : first + _RECORDS_AT_ONCE]

    def _tell(self, step: SegmentStep, last: int) -> None:
        """The piece that would take the record after `last` is where the damage lies."""
        if isinstance(step, Skipped):
            if self.piece.takes(step.after + 1):
                problem = f"{step.end - step.start} bytes skipped behind offset {step.after}: {step.problem}"
                self.on_damage(Damage(file=self.segment.records_key, position=step.start, problem=problem))
        elif isinstance(step, Misindexed) and self.piece.takes(last + 1):
            problem = "the entry contradicts the records, one of which may have a wrong offset"
            self.on_damage(Damage(file=self.segment.index_key, position=step.position, problem=problem))
