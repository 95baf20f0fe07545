"""Reads the records of a piece of an indexed archive, file by file. A file is trusted as far as the hash matches.

Of a file with a wrong hash, only parts with matching checksums of their own are taken; a format without such checksums
loses the whole file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol

from offsite.archives.archive import (
    ArchiveContents,
    Damage,
    FileReceipt,
    OnDamage,
    Piece,
    ignore_damage,
    read_while_usable,
    refuse_damage,
)
from offsite.archives.file_parts import SourceFile, open_file
from offsite.archives.files import Files
from offsite.archives.indexed.archive import IndexedArchive
from offsite.archives.overlap import SortedRun, clip_to_piece, describe_contradiction, merge_runs
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_OFFSET

Batches = Iterator[Sequence[Record]]

SORT_IT = "write its records into another file in the order of their offsets, and use that file"
"""Advice for an unsorted file."""


class FileFormat(Protocol):
    """Reads files of a format."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Batches:
        """Yield the undamaged records in file order. Reports the rest with the byte where damage begins. A format with
        the ability yields the records of an unindexed file by rising offsets."""

    def first_offset(self, source: SourceFile) -> int | None:  # noqa: ARG002 - most formats have to read records
        """Return the least offset in the file if known without reading records, else None."""
        return None

    def checks_parts(self, source: SourceFile) -> bool:
        """Whether checksums inside the file find a flipped bit wherever records are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedReader(ABC):
    """An `ArchiveReader` of an indexed format. A subclass names the archive and the file format."""

    files: Files

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        return self.archive.contents(self._first_offset, on_damage)

    def check_sizes(self, on_damage: OnDamage) -> None:
        """See `IndexedArchive.check_sizes`."""
        self.archive.check_sizes(on_damage)

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Batches:
        listed = self.archive.listed(piece)
        of = TopicPartition(topic=piece.topic, partition=piece.partition)
        file_format = self._format  # one for all: what it has in memory of several files is bounded together
        runs = [
            SortedRun(
                file=key,
                start=self._start(key, listed.get(key)),
                open=partial(
                    read_while_usable, partial(self._file, file_format, key, listed.get(key), of), key, on_damage
                ),
            )
            for key in piece.files
        ]
        return clip_to_piece(piece, merge_runs(runs, on_damage))

    @property
    @abstractmethod
    def archive(self) -> IndexedArchive:
        """The archive with its indexes."""

    @property
    @abstractmethod
    def _format(self) -> FileFormat: ...

    def _file(
        self, file_format: FileFormat, key: str, listed: FileReceipt | None, of: TopicPartition, on_damage: OnDamage
    ) -> Batches:
        source = open_file(self.files, key, listed, on_damage)
        if source is None:
            return
        if source.intact is not False:
            yield from _rising(source, file_format.records(source, of, on_damage), on_damage)
        elif file_format.checks_parts(source):
            yield from _whole_parts(source, of, file_format, on_damage)
        else:
            on_damage(_distrust(source))

    def _start(self, key: str, listed: FileReceipt | None) -> int:
        """Return the first offset of a file, as far as known before reading."""
        if listed is not None:
            return listed.first_offset
        first = self._first_offset(key)
        name = self.archive.layout.parse_file(key)
        return first if first is not None else name.start if name else 0

    def _first_offset(self, key: str) -> int | None:
        name = self.archive.layout.parse_file(key)
        source = open_file(self.files, key, None, ignore_damage)
        if name is None or source is None:
            return None
        if (first := self._format.first_offset(source)) is not None:
            return first
        source.window.back_to(0)
        of = TopicPartition(topic=name.topic, partition=name.partition)
        batches = read_while_usable(partial(self._format.records, source, of), key, ignore_damage)
        return next((batch[0].offset for batch in batches if batch), None)


def _whole_parts(source: SourceFile, of: TopicPartition, file_format: FileFormat, on_damage: OnDamage) -> Batches:
    damages: list[Damage] = []

    def report(damage: Damage) -> None:
        damages.append(damage)
        on_damage(damage)

    yield from _rising(source, file_format.records(source, of, report), report)
    if not damages:
        problem = "its bytes differ from the index, although every part passes its own checksum"
        on_damage(Damage(file=source.key, position=0, problem=problem))


def _rising(source: SourceFile, batches: Batches, on_damage: OnDamage) -> Batches:
    """Yield the records of a file by rising offset, every record once. Decreasing offsets in an indexed file are
    damage. An unindexed file is unsorted, and ends at the first decreasing offset."""
    last: Record | None = None
    for batch in batches:
        if not batch:
            continue
        if _rises(batch, last):
            last = batch[-1]
            yield batch
            continue
        in_order, problems = _in_order(source, batch, last)
        if in_order:
            last = in_order[-1]
            yield in_order
        for damage in problems:
            on_damage(damage)
        if any(damage.unfit for damage in problems):
            return


def _rises(batch: Sequence[Record], last: Record | None) -> bool:
    before = -1 if last is None else last.offset
    is_between = before < batch[0].offset and batch[-1].offset < MAX_OFFSET
    return is_between and all(before.offset < after.offset for before, after in pairwise(batch))


def _in_order(source: SourceFile, batch: Sequence[Record], last: Record | None) -> tuple[list[Record], list[Damage]]:
    """Return the records of `batch` that rise behind `last`, and the problems of the rest."""
    in_order, problems = list[Record](), list[Damage]()
    for record in batch:
        if record.offset >= MAX_OFFSET:
            problem = f"offset {record.offset} is impossible"
            problems.append(Damage(file=source.key, position=source.window.position, problem=problem))
        elif last is None or last.offset < record.offset:
            in_order.append(record)
            last = record
        elif record != last:
            damage = describe_contradiction(source.key, record, last, source.key, position=source.window.position)
            if source.intact is None and record.offset < last.offset:
                unsorted = f"unsorted: offset {record.offset} after {last.offset}"
                return in_order, [*problems, replace(damage, problem=unsorted, unfit=SORT_IT)]
            problems.append(damage)
    return in_order, problems


def _distrust(source: SourceFile) -> Damage:
    """Describe a file that is never opened, because parsers may not survive the contents."""
    is_cut = source.held_bytes < source.size_bytes
    problem = f"truncated, {source.size_bytes} bytes in the index" if is_cut else "its bytes differ from the index"
    position = source.held_bytes if is_cut else 0
    return Damage(file=source.key, position=position, problem=f"{problem}: the whole file is left out")
