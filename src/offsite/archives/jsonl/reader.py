"""Reads the archive of JSON lines, with or without index. Damage costs the damaged lines; in a compressed file,
everything behind the damage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_window import SourceFile
from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_reading import FileFormat, IndexedReader
from offsite.archives.inflate import BadStream
from offsite.archives.jsonl.compression import Lines, read_lines
from offsite.archives.jsonl.line import BadLine, OtherFields, decode_line
from offsite.archives.jsonl.place import jsonl_archive
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record

__all__ = ["JsonlReader"]

MAX_BLANK_LINES = 1_000_000
"""Per file: compressed blank lines cost nothing, but take time."""

WRITE_IT_SO = (
    'write lines in the form of offsite: {"topic":…,"partition":…,"offset":…,"timestamp":…,"key":…,"value":…}, '
    "with null for missing values, and bytes that are not text in base64 as key64 and value64; put each topic and "
    "partition into its own folder"
)
"""Advice for lines of another tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlReader(IndexedReader):
    @property
    def _archive(self) -> IndexedArchive:
        return jsonl_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _LineFiles()


class _LineFiles(FileFormat):
    """Reads a file."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        must_be_checked, blank, unknown = source.intact is False, 0, set[str]()
        for lines in _lines(source, on_damage):
            batch: list[Record] = []
            for number, line in enumerate(lines.lines):
                if not line or line.isspace():
                    blank += 1
                    continue
                try:
                    record = decode_line(line, of, must_be_checked=must_be_checked, unknown=unknown)
                except BadLine as error:
                    if batch:  # records before the damage come first: the listener sees the place
                        yield batch
                        batch = []
                    unfit = WRITE_IT_SO if isinstance(error, OtherFields) else ""
                    position = lines.position_of(number)
                    on_damage(Damage(file=source.key, position=position, problem=str(error), unfit=unfit))
                    if unfit:
                        return
                    continue
                batch.append(record)
            yield batch
            if blank > MAX_BLANK_LINES:
                problem = f"more than {MAX_BLANK_LINES:,} empty lines: the rest is left out"
                on_damage(Damage(file=source.key, position=lines.position, problem=problem))
                return
        if unknown:
            problem = f"fields that are not read: {', '.join(sorted(unknown))}"
            on_damage(Damage(file=source.key, position=0, problem=problem, is_note=True))

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - each line does, or is not taken
        return True


def _lines(source: SourceFile, on_damage: OnDamage) -> Iterator[Lines]:
    try:
        yield from read_lines(source)
    except BadStream as error:
        on_damage(Damage(file=source.key, position=error.position, problem=str(error)))
