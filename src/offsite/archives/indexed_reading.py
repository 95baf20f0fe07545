"""The records of a piece of an indexed archive: its files one after the other, each trusted as far as its hash goes.

A file that is not what its index says is taken only in parts that prove themselves whole by checksums of their own; a
format without such checksums loses the whole file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from offsite.archives.archive import ArchiveContents, Damage, FileReceipt, OnDamage, Piece, refuse_damage, while_usable
from offsite.archives.file_window import SourceFile, open_file
from offsite.archives.files import Files
from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.overlap import Run, clipped, merged
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.untrusted.bounds import MAX_OFFSET

__all__ = ["FileFormat", "IndexedReader"]

Batches = Iterator[Sequence[Record]]


class FileFormat(Protocol):
    """How files of one format are read."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Batches:
        """What is whole, by rising offsets; the rest is reported, with the byte where it begins."""

    def checks_parts(self, source: SourceFile) -> bool:
        """Whether a flipped bit is found by checksums inside this file, wherever there are records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedReader(ABC):
    """An `ArchiveReader` of one of the indexed formats: each says what its archive is and how its files are read."""

    files: Files

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        return self._archive.contents(self._first_offset, on_damage)

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Batches:
        listed = self._archive.listed(piece)
        of = TopicPartition(topic=piece.topic, partition=piece.partition)
        runs = [
            Run(
                start=self._start(key, listed.get(key)),
                open=partial(while_usable, partial(self._file, key, listed.get(key), of), key, on_damage),
            )
            for key in piece.files
        ]
        return clipped(piece, merged(runs))

    @property
    @abstractmethod
    def _archive(self) -> IndexedArchive: ...

    @property
    @abstractmethod
    def _format(self) -> FileFormat: ...

    def _file(self, key: str, listed: FileReceipt | None, of: TopicPartition, on_damage: OnDamage) -> Batches:
        source = open_file(self.files, key, listed, on_damage)
        if source is None:
            return
        if source.intact is not False:
            yield from self._rising(source, of, on_damage)
        elif self._format.checks_parts(source):
            yield from self._whole_parts(source, of, on_damage)
        else:
            on_damage(_distrust(source))

    def _rising(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Batches:
        next_offset = 0
        for batch in self._format.records(source, of, on_damage):
            if batch and batch[0].offset < next_offset:
                problem = f"offset {batch[0].offset} before here, after {next_offset - 1}: offsets go backwards"
                on_damage(Damage(file=source.key, position=source.window.position, problem=problem))
            elif batch and batch[-1].offset >= MAX_OFFSET:
                problem = f"no record has offset {batch[-1].offset}"
                on_damage(Damage(file=source.key, position=source.window.position, problem=problem))
            elif batch:
                next_offset = batch[-1].offset + 1
                yield batch

    def _whole_parts(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Batches:
        found: list[Damage] = []

        def report(damage: Damage) -> None:
            found.append(damage)
            on_damage(damage)

        yield from self._rising(source, of, report)
        if not found:
            problem = "its bytes are not those of the index, though every part passes its own checksum"
            on_damage(Damage(file=source.key, position=0, problem=problem))

    def _start(self, key: str, listed: FileReceipt | None) -> int:
        """Where the records of a file begin, as far as can be told before it is read."""
        if listed is not None:
            return listed.first_offset
        first = self._first_offset(key)
        name = self._archive.layout.parse_file(key)
        return first if first is not None else name.start if name else 0

    def _first_offset(self, key: str) -> int | None:
        name = self._archive.layout.parse_file(key)
        source = open_file(self.files, key, None, _pass_over)
        if name is None or source is None:
            return None
        of = TopicPartition(topic=name.topic, partition=name.partition)
        batches = while_usable(partial(self._format.records, source, of), key, _pass_over)
        return next((batch[0].offset for batch in batches if batch), None)


def _distrust(source: SourceFile) -> Damage:
    """Of a file that nobody opens: parsers may not survive what is in it."""
    is_cut = source.held_bytes < source.size_bytes
    problem = f"cut, {source.size_bytes} bytes in the index" if is_cut else "its bytes are not those of the index"
    position = source.held_bytes if is_cut else 0
    return Damage(file=source.key, position=position, problem=f"{problem}: the whole file is left out")


def _pass_over(damage: Damage) -> None:
    """Damage found on the first look at a file is reported when it is read."""
