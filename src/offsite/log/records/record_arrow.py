"""Records into Arrow columns, with the names and types of Spark's own Kafka source: the hot path of a table scan.

The records of a batch are split into columns at once: one comprehension per field costs less than one loop over the
records. Content outside of the abilities of aiokafka's codec goes through `record_body`. pyarrow and aiokafka are
imported where used.

As in Spark's source: no headers are a null list, a header name outside of UTF-8 has U+FFFD in place of the bad bytes,
and the time -1 (the producer gave none) is one millisecond before 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import decode, decode_rows
from offsite.log.records.record import Record
from offsite.model.journal import warned
from offsite.model.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_FULL_RECORDS = 5_000
"""Rows of one Arrow batch: enough to amortize its cost, few enough to bound the memory (measured: 1,000 to 20,000
differ by a quarter)."""

_FULL_BYTES = 8 * MIB
"""Bytes of one Arrow batch with large records. One batch of Kafka is never split."""

_KEY, _VALUE, _TIMESTAMP, _HEADERS = map(attrgetter, ("key", "value", "timestamp", "headers"))
"""Mapped over rows: a tenth faster than a comprehension."""

_MAX_TIME_US = (1 << 63) - 1
_US_PER_MS = 1000
MAX_TIME_MS = _MAX_TIME_US // _US_PER_MS
"""Kafka accepts any 64-bit number as a time in ms; Spark and Parquet have microseconds."""


@cache
def arrow_schema() -> pa.Schema:
    """The columns: those of Spark's Kafka source in the same order, and `commit`, the commit that listed the
    segment."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", header))),
            ("commit", pa.int64()),
        ]
    )


class ArrowColumns:
    """Collects rows of one partition for Arrow: fill, and `take` whenever `is_full`."""

    def __init__(self, *, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._clear()

    @property
    def is_full(self) -> bool:
        return self._rows >= _FULL_RECORDS or self._bytes >= _FULL_BYTES

    def add_batch(self, batch: Buffer, header: BatchHeader, *, commit: int | None) -> None:
        """Add all records of one data batch. Raises `DamagedBatch`, and adds no row of the batch."""
        listed = decode_rows(batch, header)
        if listed is None:
            self.add_records(decode(batch, header), commit=commit)
            return
        rows = listed.rows
        if any(map(_HEADERS, rows)):
            self._add_headers([row.headers for row in rows])
        self._keys.extend(map(_KEY, rows))
        self._values.extend(map(_VALUE, rows))
        self._times_ms.extend(map(_TIMESTAMP, rows))
        offsets = range(header.base_offset, header.next_offset)
        has_gaps = len(offsets) != len(rows)
        self._add_offsets([row.offset for row in rows] if has_gaps else offsets)
        self._complete(header.timestamp_type, commit, len(rows), listed.plain_bytes)

    def add_records(self, records: Sequence[Record], *, commit: int | None) -> None:
        """Add some records of one batch."""
        if not records:
            return
        self._add_headers([record.headers for record in records])
        self._keys += [record.key for record in records]
        self._values += [record.value for record in records]
        self._add_offsets([record.offset for record in records])
        self._times_ms += [record.timestamp_ms for record in records]
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self._complete(records[0].timestamp_type, commit, len(records), size)

    def take(self) -> pa.RecordBatch | None:
        """The rows so far as one Arrow batch of `arrow_schema`, None without rows. Empties the columns."""
        import pyarrow as pa

        rows = self._rows
        if not rows:
            return None
        columns = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.repeat(pa.scalar(self._topic, pa.string()), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            _offsets(self._offsets),
            _times(self._times_ms),
            _runs(pa.int32(), [(run.timestamp_type, run.rows) for run in self._runs]),
            _header_lists(rows, self._header_counts, self._header_names, self._header_values),
            _runs(pa.int64(), [(run.commit, run.rows) for run in self._runs]),
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())

    def _clear(self) -> None:
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[Sequence[int]] = []
        self._times_ms: list[int] = []
        self._header_counts: list[int] = []
        self._header_names: list[str] = []
        self._header_values: list[bytes | None] = []
        self._runs: list[_Run] = []
        self._bytes = self._rows = 0

    def _add_offsets(self, offsets: Sequence[int]) -> None:
        """Add the offsets of the next rows. Adjoining ranges become one range."""
        last = self._offsets[-1] if self._offsets else None
        if isinstance(offsets, range) and isinstance(last, range) and last.stop == offsets.start:
            self._offsets[-1] = range(last.start, offsets.stop)
        else:
            self._offsets.append(offsets)

    def _add_headers(self, lists: Sequence[Sequence[tuple[str, bytes | None]]]) -> None:
        """Add the headers of the next rows. Keeps no list or pair: the garbage collector would visit them again and
        again, at a higher cost than the rest of the work."""
        if any(lists):
            self._header_counts += [0] * (self._rows - len(self._header_counts))
            self._header_counts.extend(map(len, lists))
            names, values = zip(*chain.from_iterable(lists), strict=True)
            self._header_names += names
            self._header_values += values

    def _complete(self, timestamp_type: int, commit: int | None, rows: int, size_bytes: int) -> None:
        """Record the columns with equal values in all rows of a batch. The last step for a batch."""
        self._rows += rows
        if self._runs and self._runs[-1][1:] == (timestamp_type, commit):
            rows += self._runs.pop().rows
        self._runs.append(_Run(rows, timestamp_type, commit))
        self._bytes += size_bytes


class _Run(NamedTuple):
    """Consecutive rows with equal values in these columns."""

    rows: int
    timestamp_type: int
    commit: int | None


def _runs(kind: pa.DataType, runs: Sequence[tuple[int | None, int]]) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([pa.repeat(pa.scalar(value, kind), rows) for value, rows in runs])


def _offsets(runs: Sequence[Sequence[int]]) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays(
        [pa.arange(run.start, run.stop) if isinstance(run, range) else pa.array(run, pa.int64()) for run in runs]
    )


def _times(times_ms: Sequence[int]) -> pa.Array:
    import pyarrow as pa

    kind = pa.timestamp("us", tz="UTC")
    try:
        return pa.array(times_ms, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(kind)
    except pa.ArrowInvalid:
        return pa.array([time_us(time_ms) for time_ms in times_ms], kind)


def time_us(time_ms: int) -> int:
    """A time in Spark's microseconds. A time beyond 64 bits becomes the lowest or highest number, and no whole
    millisecond is either number. Comparisons stay correct; `null_out_of_range_times` removes such times."""
    return min(max(time_ms * _US_PER_MS, -_MAX_TIME_US), _MAX_TIME_US)


def null_out_of_range_times(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches with null for every time outside of 64 bits of microseconds, as in an export: a query would take the
    placeholder for a real time. The log reports the number of such times at the end."""
    beyond, where = 0, ""
    for batch in batches:
        nulled, nulls = _null_out_of_range(batch)
        if nulls and not beyond:
            where = f"{batch.column('topic')[0].as_py()}/{batch.column('partition')[0].as_py()}"
        beyond += nulls
        yield nulled
    if beyond:
        warned("times_beyond_microseconds", why="null in the table", first_partition=where, records=beyond)


def _null_out_of_range(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    times = batch.column("timestamp").cast(pa.int64())
    ends = pc.min_max(times).as_py()
    if ends["min"] != -_MAX_TIME_US and ends["max"] != _MAX_TIME_US:
        return batch, 0
    is_beyond = pc.equal(pc.abs(times), _MAX_TIME_US)
    nulled = pc.if_else(is_beyond, pa.scalar(None, pa.int64()), times).cast(batch.schema.field("timestamp").type)
    columns = [nulled if field.name == "timestamp" else batch.column(field.name) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema), nulled.null_count


def _header_lists(rows: int, counts: Sequence[int], names: Sequence[str], values: Sequence[bytes | None]) -> pa.Array:
    """A list per row with the number of headers in `counts`; null for a row without headers, and for rows behind
    `counts`."""
    import pyarrow as pa

    kind: Any = arrow_schema().field("headers").type
    if not names:
        return pa.nulls(rows, kind)
    counts = [*counts, *repeat(0, rows - len(counts))]
    starts: list[int | None] = list(accumulate(counts, initial=0))
    if 0 in counts:
        starts[:-1] = [start if count else None for start, count in zip(starts, counts, strict=False)]
    items = pa.StructArray.from_arrays(
        [pa.array(_texts(names), pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items, type=kind)


def _texts(names: Sequence[str]) -> Sequence[str]:
    """Names as valid UTF-8. Names are nearly always valid: the fast check avoids a look at every name."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in names]
    return names
