"""Reads and writes the Parquet archive: ranges in order into files readable as a table by Spark and other tools.

Reads with or without index, also files of Spark's Kafka source in the same folders, in any order: row groups without an
index are read by offsets, and sorted where offsets mix. Pages written by offsite have checksums. Page headers and
footers have none, and damage may make pyarrow end the process: a file that contradicts the index is never opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.decoding_process import DecodingEnded, decode_apart
from offsite.archives.file_parts import SourceFile
from offsite.archives.files import Files
from offsite.archives.indexed.archive import IndexedArchive
from offsite.archives.indexed.reading import FileFormat, IndexedReader
from offsite.archives.indexed.writing import IndexedWriter, Losses, NewFile
from offsite.archives.parquet.table import (
    PARQUET,
    OtherColumns,
    decode_rows,
    make_table,
    parquet_archive,
    table_schema,
)
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO
from offsite.model.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_SORT_IT = (
    "sort it in Spark, and use the result: .repartition('topic', 'partition').sortWithinPartitions('topic', "
    "'partition', 'offset').write.partitionBy('topic', 'partition').parquet(…)"
)
_WHOLE_BYTES = 64 << 20
"""Files up to this size are read at once: files written by offsite have about half the size."""


SORTED_BYTES = 256 * MIB
"""Memory for sorting records of a partition, in all open files together."""
_ROW_GROUP_BYTES = 8 << 20
_ROW_GROUP_RECORDS = 64 << 10
"""A row group ends with the group of records that reaches either limit: a reader takes a row group into memory."""
_REPEATING = ["timestampType"]


class SortRoom:
    """Memory for sorted records, shared by all open files."""

    def __init__(self) -> None:
        self._taken_bytes: dict[str, int] = {}

    def take(self, key: str, size_bytes: int) -> bool:
        """Take memory for a file, in place of what it had; returns whether the total fits."""
        self._taken_bytes[key] = size_bytes
        return sum(self._taken_bytes.values()) <= SORTED_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(IndexedReader):
    @property
    def archive(self) -> IndexedArchive:
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
        from offsite.archives.parquet.decoding import TooMuchToSort

        place = self._place(source)
        grown = Growth(most_bytes=max(MAX_EXPANDED_BYTES, source.plain_bytes, MAX_RATIO * place.size_bytes))
        reading = _Reading(key=source.key, place=place, of=of, grown=grown, on_damage=on_damage)
        try:
            for item in place.decode("decode_file", is_listed=source.intact is not None):
                if records := reading.take(item):
                    yield records
        except OtherColumns as error:
            reading.tell(str(error), position=0, unfit=parquet_archive(self.files).layout.advice)
        except TooMuchToSort as error:
            reading.tell(str(error), position=place.first_start, unfit=_SORT_IT)
        except ValueError as error:
            reading.tell(str(error), position=place.first_start)
        finally:
            self.room.take(source.key, 0)

    def first_offset(self, source: SourceFile) -> int | None:
        try:
            (first,) = self._place(source).decode("find_first_offset")
        except ValueError:
            return None
        return cast("int | None", first)

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - see the module
        return False

    def _place(self, source: SourceFile) -> _Place:
        size_bytes = source.size_bytes or self._size_bytes(source.key)
        room = partial(self.room.take, source.key)
        if size_bytes > _WHOLE_BYTES:
            return _Place(
                size_bytes, lambda start, length: self.files.get_range(source.key, start, length) or b"", room
            )
        data = source.window.read(size_bytes)
        return _Place(len(data), lambda start, length: data[start : start + length], room)

    def _size_bytes(self, key: str) -> int:
        folder = key.rpartition("/")[0] + "/"
        return next((info.size_bytes for info in self.files.list(folder) if info.key == key), 0)


class _Place:
    """A file, for the process that decodes it.

    `fetch` returns bytes from a start, at most a given number; `room` takes memory for sorting. `first_start`: start of
    the first read since `mark`.
    """

    def __init__(self, size_bytes: int, fetch: Callable[[int, int], bytes], room: Callable[[int], bool]) -> None:
        self.size_bytes, self._fetch, self._room = size_bytes, fetch, room
        self.first_start = 0
        self.mark()

    def mark(self) -> None:
        self._is_marked = True

    def decode(self, function: str, **options: bool) -> Iterator[Any]:
        """Decode the file by a function of `decoding`, in another process."""
        name, given = f"offsite.archives.parquet.decoding:{function}", 0
        try:
            for item in decode_apart(name, self._answer, self.size_bytes, **options):
                yield item
                given += 1
        except DecodingEnded as error:
            if not error.was_shared:
                raise
            yield from islice(decode_apart(name, self._answer, self.size_bytes, alone=True, **options), given, None)

    def _answer(self, request: tuple[int, int] | tuple[int]) -> bytes | bool:
        if len(request) == 1:
            return self._room(*request)
        if self._is_marked:
            self.first_start, self._is_marked = request[0], False
        return self._fetch(*request)


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The decoded items of a file. `group`: number of the row group. `is_readable`: the group has no damage so far."""

    key: str
    place: _Place
    of: TopicPartition
    grown: Growth
    on_damage: OnDamage
    group: int = 0
    is_readable: bool = True

    def take(self, item: object) -> Sequence[Record]:
        """Return the records of an item. Reports the rest of a damaged row group. Raises `OtherColumns`."""
        from offsite.archives.parquet.decoding import GroupProblem, GroupStart, Note

        if isinstance(item, Note):
            self.tell(item.text, position=0, is_note=True)
        elif isinstance(item, GroupStart):
            self.group, self.is_readable = item.number, True
            self.place.mark()
        elif isinstance(item, GroupProblem):
            self.tell(item.text, position=self.place.first_start)
        elif self.is_readable:
            try:
                return _decoded(cast("Buffer", item), self.of, self.grown)
            except OtherColumns:
                raise
            except ValueError as error:
                self.is_readable = False
                self.tell(f"row group {self.group} cannot be read: {error}", position=self.place.first_start)
        return ()

    def tell(self, problem: str, *, position: int, is_note: bool = False, unfit: str = "") -> None:
        self.on_damage(Damage(file=self.key, position=position, problem=problem, is_note=is_note, unfit=unfit))


def _decoded(stream: Buffer, of: TopicPartition, grown: Growth) -> Sequence[Record]:
    """Decode the records of an Arrow stream with one batch."""
    import pyarrow as pa

    batch = pa.ipc.open_stream(stream).read_next_batch()
    grown.add(batch.nbytes)
    records = decode_rows(batch, of)
    if any(pa.types.is_dictionary(column.type) for column in batch.columns):
        grown.add(sum(len(record.key or b"") + len(record.value or b"") for record in records))
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
