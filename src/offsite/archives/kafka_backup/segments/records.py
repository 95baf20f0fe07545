"""The records of one segment that belong to a piece, in batches; damage is told once, by the piece it lies in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage, Piece, while_usable
from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import SegmentFile
from offsite.archives.kafka_backup.segments.reader import Misindexed, SegmentReader
from offsite.archives.kafka_backup.segments.records_file import RecordsFile
from offsite.archives.kafka_backup.segments.walk import Skipped
from offsite.archives.overlap import clipped
from offsite.log.records.record import Record

_RECORDS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    files: Files
    segment: SegmentFile
    piece: Piece
    on_damage: OnDamage

    def batches(self) -> Iterator[Sequence[Record]]:
        """Rising; ends where the piece does."""
        return clipped(self.piece, while_usable(self._unclipped, self.segment.records_key, self.on_damage))

    def _unclipped(self, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        end = self.piece.end
        for step in SegmentReader(self.files, self.segment, self.piece.start).steps():
            if isinstance(step, Skipped | Misindexed):
                if self.piece.takes(max(step.after + 1, self.segment.start)):
                    on_damage(damage_of(self.files, self.segment, step))
                continue
            for first in range(0, len(step.records), _RECORDS_AT_ONCE):
                yield step.records[first : first + _RECORDS_AT_ONCE]
            if end is not None and step.records[-1].offset >= end:
                return


def damage_of(files: Files, segment: SegmentFile, step: Skipped | Misindexed) -> Damage:
    """What to tell of it. Bytes that the file holds twice, as after a crash of the tool, are no loss but a note."""
    if isinstance(step, Misindexed):
        problem = f"the entry contradicts the records behind offset {step.after}, one of which may have a wrong offset"
        return Damage(file=segment.index_key, position=step.position, problem=problem)
    size_bytes = step.end - step.start
    problem = f"{size_bytes} bytes skipped behind offset {step.after}: {step.problem}"
    file = RecordsFile(files, segment.records_key, segment.records_bytes)
    if file.is_repeated(step.start, step.end):
        problem = f"{size_bytes} bytes skipped behind offset {step.after}, which a crash left: they were written again"
        return Damage(file=file.key, position=step.start, problem=problem, is_note=True)
    return Damage(file=file.key, position=step.start, problem=problem)
