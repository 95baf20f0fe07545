"""Reads and writes the Parquet archive: ranges in order into files readable as a table by Spark and other tools.

Reads with or without index, also files of Spark's Kafka source in the same folders, in any order: row groups without an
index are read by offsets, and sorted where offsets mix. Pages written by offsite have checksums. Page headers and
footers have none, and damage may make pyarrow end the process: a file that contradicts the index is never opened.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_parts import SourceFile
from offsite.archives.files import Files
from offsite.archives.indexed.archive import IndexedArchive
from offsite.archives.indexed.reading import FileFormat, IndexedReader
from offsite.archives.indexed.writing import IndexedWriter, Losses, NewFile
from offsite.archives.overlap import group_overlapping
from offsite.archives.parquet.pages import check_footer
from offsite.archives.parquet.row_groups import (
    COLUMNS,
    FileClaims,
    OffsetSpan,
    SortRoom,
    find_dictionary_columns,
    find_offset_spans,
)
from offsite.archives.parquet.table import (
    PARQUET,
    OtherColumns,
    check_columns,
    decode_rows,
    make_table,
    parquet_archive,
    split_by_headers,
    table_schema,
)
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_OFFSET, MAX_RATIO

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

__all__ = ["ParquetReader", "ParquetWriter"]


_OPTIONS = {
    "page_checksum_verification": True,
    "pre_buffer": False,  # starts threads
    "buffer_size": 1 << 20,  # otherwise a column of a row group is read as a whole
    "coerce_int96_timestamp_unit": "us",  # Spark's old timestamps: as nanoseconds those after 2262 would turn over
}
_SORTED_BATCH = 2_000
_SORT_IT = (
    "sort it in Spark, and use the result: .repartition('topic', 'partition').sortWithinPartitions('topic', "
    "'partition', 'offset').write.partitionBy('topic', 'partition').parquet(…)"
)
_WHOLE_BYTES = 64 << 20
"""Files up to this size are read at once: files written by offsite have about half the size."""


class RandomAccess(io.RawIOBase):
    """A file of an archive for readers with random access.

    `fetch` returns bytes from a start, at most a given number. `first_start`: start of the first read since `mark`.
    """

    def __init__(self, size_bytes: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size_bytes, self.fetch = size_bytes, fetch
        self._position = self.first_start = 0
        self.mark()

    def mark(self) -> None:
        self._is_marked = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        length = self.size_bytes - self._position if size < 0 else size
        if self._is_marked:
            self.first_start, self._is_marked = self._position, False
        data = self.fetch(self._position, length) if length > 0 else b""
        self._position += len(data)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(IndexedReader):
    @property
    def _archive(self) -> IndexedArchive:
        return parquet_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _ParquetFiles(files=self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParquetFiles(FileFormat):
    """Reads a file. `room`: for all files open at once."""

    files: Files
    room: SortRoom = field(default_factory=SortRoom)

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        from pyarrow import parquet

        place = self._place(source)
        try:
            check_footer(place.fetch, place.size_bytes)
            metadata = parquet.read_metadata(place)
            named = find_dictionary_columns(metadata)
            claims = FileClaims(fetch=place.fetch, size_bytes=place.size_bytes, named=named)
            grown = Growth(most_bytes=max(MAX_EXPANDED_BYTES, source.plain_bytes, MAX_RATIO * place.size_bytes))
            with parquet.ParquetFile(place, metadata=metadata, read_dictionary=named, **_OPTIONS) as file:
                check_columns(file.schema_arrow)
                parts = _Parts(file, place, source.key, of, claims, grown)
                if source.intact is not None:
                    for number in range(file.num_row_groups):
                        yield from parts.records(number, on_damage)
                    return
                _note_others(file, source.key, on_damage)
                for spans in group_overlapping(
                    find_offset_spans(file, place.fetch, place.size_bytes), attrgetter("low", "high")
                ):
                    if len(spans) == 1 and spans[0].rises:
                        yield from parts.records(spans[0].number, on_damage)
                    else:
                        yield from self._sorted(parts, spans, on_damage)
        except OtherColumns as error:
            on_damage(
                Damage(file=source.key, position=0, problem=str(error), unfit=parquet_archive(self.files).layout.advice)
            )
        except _TooMuchToSort as error:
            on_damage(Damage(file=source.key, position=place.first_start, problem=str(error), unfit=_SORT_IT))
        except _errors() as error:
            on_damage(Damage(file=source.key, position=place.first_start, problem=f"not a Parquet file: {error}"))

    def first_offset(self, source: SourceFile) -> int | None:
        from pyarrow import parquet

        place = self._place(source)
        try:
            check_footer(place.fetch, place.size_bytes)
            with parquet.ParquetFile(place, **_OPTIONS) as file:
                check_columns(file.schema_arrow)
                spans = find_offset_spans(file, place.fetch, place.size_bytes)
        except _errors():
            return None
        return min((span.low for span in spans if 0 <= span.low <= span.high and span.low < MAX_OFFSET), default=None)

    def _sorted(self, parts: _Parts, spans: Sequence[OffsetSpan], on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        """Yield the records of row groups with mixed offsets, sorted by offset. With a damaged row group the missing
        offsets are unknown, so no record is taken."""
        damages = list[Damage]()
        with self.room.part() as room:
            records = list[Record]()
            for span in spans:
                for batch in parts.records(span.number, damages.append):
                    if not room.take(batch):
                        low, high = spans[0].low, max(mixed_span.high for mixed_span in spans)
                        raise _TooMuchToSort(
                            f"unsorted: offsets {low} to {high} without an order, and too many to sort here"
                        )
                    records += batch
            for damage in damages:
                on_damage(damage)
            if damages:
                return
            records.sort(key=_offset)
            for at in range(0, len(records), _SORTED_BATCH):
                yield records[at : at + _SORTED_BATCH]

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - see the module
        return False

    def _place(self, source: SourceFile) -> RandomAccess:
        size_bytes = source.size_bytes or self._size_bytes(source.key)
        if size_bytes > _WHOLE_BYTES:
            return RandomAccess(
                size_bytes, lambda start, length: self.files.get_range(source.key, start, length) or b""
            )
        data = source.window.read(size_bytes)
        return RandomAccess(len(data), lambda start, length: data[start : start + length])

    def _size_bytes(self, key: str) -> int:
        folder = key.rpartition("/")[0] + "/"
        return next((info.size_bytes for info in self.files.list(folder) if info.key == key), 0)


class _TooMuchToSort(ValueError):
    """Unsorted records do not fit into memory."""


class _Parts(NamedTuple):
    """The row groups of an open file."""

    file: ParquetFile
    place: RandomAccess
    key: str
    of: TopicPartition
    claims: FileClaims
    grown: Growth

    def records(self, number: int, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        self.place.mark()
        try:
            records = self.claims.batch_records(self.file.metadata, number)
            columns = [name for name in self.file.schema_arrow.names if name in COLUMNS]
            for batch in self.file.iter_batches(records, row_groups=[number], columns=columns, use_threads=False):
                self.grown.add(batch.nbytes)
                for part in split_by_headers(batch):
                    yield _counted(decode_rows(part, self.of), self.grown, is_named=bool(self.claims.named))
        except OtherColumns:
            raise
        except _errors() as error:
            problem = f"row group {number} cannot be read: {error}"
            on_damage(Damage(file=self.key, position=self.place.first_start, problem=problem))


def _note_others(file: ParquetFile, key: str, on_damage: OnDamage) -> None:
    def note(problem: str) -> None:
        on_damage(Damage(file=key, position=0, problem=problem, is_note=True))

    schema = file.schema_arrow
    if unread := sorted({*schema.names} - {*COLUMNS, *table_schema().names}):
        note(f"columns that are not read: {', '.join(name[:40] for name in unread[:5])}")
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    is_spark_old = any(column.path == "timestamp" and column.physical_type == "INT96" for column in columns)
    if schema.field("timestamp").type.tz is None and not is_spark_old:
        note("timestamps without a time zone, which are read as UTC")


def _offset(record: Record) -> int:
    return record.offset


def _counted(records: Sequence[Record], grown: Growth, *, is_named: bool) -> Sequence[Record]:
    if is_named:
        grown.add(sum(len(record[3] or b"") + len(record[4] or b"") for record in records))
    return records


@dataclass(slots=True, kw_only=True)
class Growth:
    """Counts the decoded size of a file. Raises `ValueError` beyond `most_bytes`."""

    most_bytes: int
    _bytes: int = 0

    def add(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        if self._bytes > self.most_bytes:
            raise ValueError(f"it comes to more than {self.most_bytes} bytes")


def _errors() -> tuple[type[Exception], ...]:
    """Return the errors raised by pyarrow for bytes other than Parquet, and `BadTable`."""
    import pyarrow as pa

    return (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)


_ROW_GROUP_BYTES = 8 << 20
_ROW_GROUP_RECORDS = 64 << 10
"""A row group ends with the group of records that reaches either limit: a reader takes a row group into memory."""
_REPEATING = ["timestampType"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetWriter(IndexedWriter):
    """Refuses header names outside UTF-8 and times beyond the year 294,246, unless `lossy`."""

    @property
    def _archive(self) -> IndexedArchive:
        return parquet_archive(self.files)

    @property
    def _kind(self) -> str:
        return PARQUET

    def _new_file(self, losses: Losses) -> NewFile:
        return lambda _: _ParquetFile(losses)


class _ParquetFile:
    """Builds a file."""

    def __init__(self, losses: Losses) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._losses = losses
        self._sink = pa.BufferOutputStream()
        self._writer = parquet.ParquetWriter(
            self._sink,
            table_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=_REPEATING,
            write_page_checksum=True,
            store_schema=False,
        )
        self._waiting: list[RecordColumns] = []
        self._waiting_bytes = self._waiting_records = self._plain_bytes = 0

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def add(self, columns: RecordColumns) -> None:
        self._waiting.append(columns)
        self._waiting_bytes += columns.size_bytes()
        self._waiting_records += len(columns.offsets)
        if self._waiting_bytes >= _ROW_GROUP_BYTES or self._waiting_records >= _ROW_GROUP_RECORDS:
            self._end_row_group()

    def close(self) -> tuple[Buffer, int]:
        if self._waiting:
            self._end_row_group()
        self._writer.close()
        return memoryview(self._sink.getvalue()), self._plain_bytes

    def _end_row_group(self) -> None:
        self._writer.write_table(self._table(), row_group_size=self._waiting_records)
        self._plain_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes, self._waiting_records = [], 0, 0

    def _table(self) -> pa.Table:
        columns = (tuple(chain.from_iterable(column)) for column in zip(*self._waiting, strict=True))
        return make_table(RecordColumns._make(columns), self._losses)
