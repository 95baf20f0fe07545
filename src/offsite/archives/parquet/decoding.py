"""Decodes a Parquet file into Arrow batches, in another process: only the limits of `decode_apart` bound pyarrow.

A batch has few rows, and columns with a dictionary keep the dictionary: a value exists once, however many rows refer to
the value. Spark writes rows in the order of a shuffle: the small column of offsets alone shows the range of every row
group, and whether the rows rise; row groups with mixed offsets are sorted in memory, as far as the parent has room.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, cast

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import parquet

from offsite.archives.decoding_process import Ask
from offsite.archives.overlap import group_overlapping
from offsite.archives.parquet.table import BadTable, OtherColumns, check_columns, table_schema
from offsite.model.bounds import MAX_OFFSET
from offsite.model.units import MIB

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_OPTIONS = {
    "page_checksum_verification": True,
    "pre_buffer": False,  # starts threads
    "buffer_size": MIB,  # otherwise a column of a row group is read as a whole
    "coerce_int96_timestamp_unit": "us",  # Spark's old timestamps: as nanoseconds those after 2262 would turn over
}
_BATCH_RECORDS = (2_048, 32, 1)
"""Records decoded at once; fewer when they do not fit into memory. Each is a multiple of the next."""
_OFFSETS = 65_536
_PART_BYTES = 64 * MIB
_PART_HEADERS = 200_000
"""Bytes and headers returned at once; a single record may have more bytes."""
_PIECE_BYTES = 8 * MIB
"""Bytes of the file asked for at once: the parent holds them twice."""
_RECORD_BYTES = 300
"""Memory of a record besides its bytes, when records are sorted."""
ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""Raised by pyarrow for bytes other than Parquet; and `BadTable`."""


class Note(NamedTuple):
    """A sentence about the file, for `Damage.is_note`."""

    text: str


class GroupProblem(NamedTuple):
    """The rest of the row group cannot be read."""

    text: str


class GroupStart(NamedTuple):
    """What follows is of row group `number`, or of several with mixed offsets."""

    number: int


class Room(NamedTuple):
    """Asks for the memory that sorting needs by now; 0 gives all back. The answer says whether it is there."""

    size_bytes: int


class TooMuchToSort(Exception):
    """Unsorted records do not fit into memory."""


class OffsetSpan(NamedTuple):
    """Row group `number`: all offsets are in `[low, high]`. `rises`: the rows are in order."""

    number: int
    low: int
    high: int
    rises: bool


def decode_file(
    ask: Ask, size_bytes: int, *, is_listed: bool
) -> Iterator[Note | GroupStart | GroupProblem | pa.Buffer]:
    """Yield the rows of a file as Arrow streams (`bytes`), by rising offset unless `is_listed`: then the rows rise.

    `ask((start, length))` returns bytes of the file, `ask(Room)` whether there is room. Raises `OtherColumns`,
    `TooMuchToSort`, and `ValueError` for a file that cannot be read.
    """
    place = _Place(ask, size_bytes)
    with _opened(place) as file:
        if is_listed:
            for number in range(file.num_row_groups):
                yield GroupStart(number)
                yield from _rows(file, number)
            return
        yield from _notes(file)
        for spans in group_overlapping(find_offset_spans(file), attrgetter("low", "high")):
            yield GroupStart(spans[0].number)
            if len(spans) == 1 and spans[0].rises:
                yield from _rows(file, spans[0].number)
            else:
                yield from _Sorting(ask, place, file.metadata).rows(spans)


def find_first_offset(ask: Ask, size_bytes: int) -> Iterator[int | None]:
    """Yield the least offset of a file. Raises as `decode_file`."""
    with _opened(_Place(ask, size_bytes)) as file:
        spans = find_offset_spans(file)
    yield min((span.low for span in spans if 0 <= span.low <= span.high and span.low < MAX_OFFSET), default=None)


class _Place(io.RawIOBase):
    """The file, for readers with random access."""

    def __init__(self, ask: Ask, size_bytes: int) -> None:
        super().__init__()
        self._ask, self._size_bytes, self._position = ask, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytearray:  # any buffer will do for pyarrow
        """Read in pieces, into memory that is limited here: a page may claim to be as large as the file, and the parent
        has no limit."""
        left_bytes = max(0, self._size_bytes - self._position)
        data = bytearray(left_bytes if size < 0 else min(size, left_bytes))
        room = memoryview(data)
        while room:
            piece = cast("bytes", self._ask((self._position, min(len(room), _PIECE_BYTES))))
            if not piece:  # the file is shorter than it was
                break
            room[: len(piece)] = piece
            room = room[len(piece) :]
            self._position += len(piece)
        missing_bytes = len(room)
        room.release()
        return data[: len(data) - missing_bytes] if missing_bytes else data


def _opened(place: _Place) -> parquet.ParquetFile:
    try:
        metadata = parquet.read_metadata(place)
        file = parquet.ParquetFile(place, metadata=metadata, read_dictionary=_dictionary_columns(metadata), **_OPTIONS)
        check_columns(file.schema_arrow)
    except OtherColumns:
        raise
    except ERRORS as error:
        raise ValueError(f"not a Parquet file: {error}") from None
    return file


def _dictionary_columns(metadata: parquet.FileMetaData) -> list[str]:
    """Return the columns declared to have a dictionary of bytes."""
    columns = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for chunk in (group.column(leaf) for leaf in range(group.num_columns)):
            has_one = chunk.dictionary_page_offset is not None or any("DICT" in name for name in chunk.encodings)
            if has_one and chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema in COLUMNS:
                columns.add(chunk.path_in_schema)
    return sorted(columns)


def _notes(file: parquet.ParquetFile) -> Iterator[Note]:
    schema = file.schema_arrow
    if unread := sorted({*schema.names} - {*COLUMNS, *table_schema().names}):
        yield Note(f"columns that are not read: {', '.join(name[:40] for name in unread[:5])}")
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    is_spark_old = any(column.path == "timestamp" and column.physical_type == "INT96" for column in columns)
    if schema.field("timestamp").type.tz is None and not is_spark_old:
        yield Note("timestamps without a time zone, which are read as UTC")


def _rows(file: parquet.ParquetFile, number: int) -> Iterator[pa.Buffer | GroupProblem]:
    try:
        for batch in _batches(file, number):
            for part in _parts(batch):
                yield _stream(part)
    except ERRORS as error:
        yield _problem(number, error)


def _problem(number: int, error: Exception) -> GroupProblem:
    return GroupProblem(f"row group {number} cannot be read: {str(error) or 'it takes too much memory'}")


def _batches(file: parquet.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group. A batch that does not fit into memory is read again in smaller ones."""
    columns = [name for name in file.schema_arrow.names if name in COLUMNS]
    given = 0
    for records in _BATCH_RECORDS:
        passed = 0
        try:
            for batch in file.iter_batches(records, row_groups=[number], columns=columns, use_threads=False):
                passed += len(batch)
                if passed > given:
                    given = passed
                    yield batch
        except MemoryError:
            if records == 1:
                raise
        else:
            return


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into parts that fit into the parent's memory. Raises `BadTable`."""
    part = pa.RecordBatch.from_arrays([_compact(column) for column in batch.columns], schema=batch.schema)
    headers = _header_count(part["headers"]) if "headers" in part.schema.names else 0
    if headers > _PART_HEADERS and len(part) == 1:
        raise BadTable(f"a record of {headers} headers")
    if len(part) <= 1 or (part.nbytes <= _PART_BYTES and headers <= _PART_HEADERS):
        part.validate(full=True)
        yield part
    else:
        middle = len(batch) // 2
        yield from _parts(batch[:middle])
        yield from _parts(batch[middle:])


def _header_count(headers: pa.Array) -> int:
    return 0 if headers.null_count == len(headers) else len(headers.flatten())


def _compact(column: pa.Array) -> pa.Array:
    """Return the column with those entries of its dictionary only that it refers to."""
    if not pa.types.is_dictionary(column.type):
        return column
    indices = column.indices.dictionary_encode()
    dictionary = column.dictionary.take(indices.dictionary)
    return pa.DictionaryArray.from_arrays(indices.indices.cast(column.type.index_type), dictionary)


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the batch as a stream, in a buffer of exactly that size: one that grows takes three times as much."""
    size = pa.MockOutputStream()
    _write(batch, size)
    buffer = pa.allocate_buffer(size.size())
    _write(batch, pa.FixedSizeBufferWriter(buffer))
    return buffer


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


class _Sorting:
    """Sorts row groups with mixed offsets. Reads them without dictionaries: the rows are copied anyway."""

    def __init__(self, ask: Ask, place: _Place, metadata: parquet.FileMetaData) -> None:
        self._ask, self._taken_bytes = ask, 0
        self._file = parquet.ParquetFile(place, metadata=metadata, **_OPTIONS)

    def rows(self, spans: Sequence[OffsetSpan]) -> Iterator[pa.Buffer | GroupProblem]:
        """Yield the rows by rising offset. With a damaged row group the missing offsets are unknown, so no row is
        taken."""
        try:
            yield from self._sorted(spans)
        finally:
            self._ask(Room(0))

    def _sorted(self, spans: Sequence[OffsetSpan]) -> Iterator[pa.Buffer | GroupProblem]:
        batches, problems = list[pa.RecordBatch](), list[GroupProblem]()
        for number in (span.number for span in spans):
            try:
                for batch in _batches(self._file, number):
                    self._take(batch, spans)
                    batches.append(_without_dictionaries(batch))
            except ERRORS as error:
                problems.append(_problem(number, error))
        yield from problems
        if problems:
            return
        try:
            table = pa.Table.from_batches(batches)
            batches.clear()
            table = table.take(pc.sort_indices(table, [("offset", "ascending")]))
            for batch in table.to_batches(_BATCH_RECORDS[0]):
                for part in _parts(batch):
                    yield _stream(part)
        except ERRORS as error:
            yield _problem(spans[0].number, error)

    def _take(self, batch: pa.RecordBatch, spans: Sequence[OffsetSpan]) -> None:
        self._taken_bytes += batch.nbytes + _RECORD_BYTES * len(batch)
        if not self._ask(Room(self._taken_bytes)):
            low, high = spans[0].low, max(span.high for span in spans)
            raise TooMuchToSort(f"unsorted: offsets {low} to {high} without an order, and too many to sort here")


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with values in place of dictionaries: each batch has dictionaries of its own."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def find_offset_spans(file: parquet.ParquetFile) -> list[OffsetSpan]:
    """Return the spans of the row groups. A row group without readable offsets gets an empty span behind the previous
    row group and never mixes: reading reports the problem."""
    spans: list[OffsetSpan] = []
    for number in range(file.num_row_groups):
        after = spans[-1].high if spans else -1
        spans.append(_span(file, number) or OffsetSpan(number, after + 1, after, rises=True))
    return spans


def _span(file: parquet.ParquetFile, number: int) -> OffsetSpan | None:
    """Return None for a row group without rows or without readable offsets."""
    low = high = None
    rises = True
    try:
        for batch in file.iter_batches(_OFFSETS, row_groups=[number], columns=["offset"], use_threads=False):
            first, least, most, in_order = _examined(batch.column(0))
            if least is None or most is None:
                return None
            rises = rises and in_order and (high is None or first >= high)
            low, high = min(least, least if low is None else low), max(most, most if high is None else high)
    except ERRORS:
        return None
    return None if low is None or high is None else OffsetSpan(number, low, high, rises)


def _examined(offsets: pa.Array) -> tuple[int, int | None, int | None, bool]:
    """Return the first, least and greatest offset, and whether no offset decreases."""
    if offsets.null_count or not len(offsets) or not pa.types.is_integer(offsets.type):
        return -1, None, None, False
    ends = pc.min_max(offsets).as_py()
    in_order = pc.all(pc.greater_equal(offsets[1:], offsets[:-1])).as_py() is not False
    return offsets[0].as_py(), ends["min"], ends["max"], in_order
