"""Reads the archive of JSON lines, with its index or without: damage costs the lines it hits, of a compressed file all
that follows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_window import SourceFile
from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_reading import FileFormat, IndexedReader
from offsite.archives.inflate import BadStream
from offsite.archives.jsonl.compression import Lines, lines_in
from offsite.archives.jsonl.line import BadLine, record_of
from offsite.archives.jsonl.place import jsonl_archive
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record

__all__ = ["JsonlReader"]

MAX_BLANK_LINES = 1_000_000
"""Of one file: compressed, they cost nothing, and each takes its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlReader(IndexedReader):
    @property
    def _archive(self) -> IndexedArchive:
        return jsonl_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _LineFiles()


class _LineFiles:
    """How one file is read."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        next_offset, must_be_checked, blank = 0, source.intact is False, 0
        for lines in _lines(source, on_damage):
            batch: list[Record] = []
            for number, line in enumerate(lines.lines):
                if not line or line.isspace():
                    blank += 1
                    continue
                try:
                    record = record_of(line, of, first=next_offset, must_be_checked=must_be_checked)
                except BadLine as error:
                    if batch:  # given before the damage is told: who listens learns where it lies
                        yield batch
                        batch = []
                    on_damage(Damage(file=source.key, position=lines.position_of(number), problem=str(error)))
                    continue
                next_offset = record.offset + 1
                batch.append(record)
            yield batch
            if blank > MAX_BLANK_LINES:
                problem = f"more than {MAX_BLANK_LINES:,} empty lines: the rest is left out"
                on_damage(Damage(file=source.key, position=lines.position, problem=problem))
                return

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - each line does, or is not taken
        return True


def _lines(source: SourceFile, on_damage: OnDamage) -> Iterator[Lines]:
    try:
        yield from lines_in(source)
    except BadStream as error:
        on_damage(Damage(file=source.key, position=error.position, problem=str(error)))
