"""Records into Arrow columns, named and typed as Spark's own Kafka source does: the hot path of a table scan.

aiokafka's records are taken apart field by field as they pass: a list of them costs more than all the rest (measured:
1.4 M records/s of 200 bytes a core against 0.9). What that codec cannot hold exactly goes through `record_body`.
pyarrow and aiokafka are imported where used.

As in Spark's source: no headers are a null list, a header name that is not UTF-8 has U+FFFD in the place of what is
not, and the time -1 (the producer gave none) is one millisecond before 1970.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from offsite.log.batch import HEADER_BYTES, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.codec import decompress
from offsite.log.record import Record
from offsite.log.records import decode, plain_batch
from offsite.model.errors import DamagedBatch
from offsite.model.size import MIB

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["ArrowColumns", "arrow_schema", "time_us"]

_FULL_RECORDS = 2_000
"""Rows of one Arrow batch: enough to pay for it, few enough that their bytes are still in the processor's cache."""

_FULL_BYTES = 8 * MIB
"""Bytes of one Arrow batch, where records are large. One batch of Kafka is never split."""

_MAX_TIME_US = (1 << 63) - 1
_US_PER_MS = 1000


@cache
def arrow_schema() -> pa.Schema:
    """The columns: those of Spark's Kafka source in its order, then `commit`, which listed the segment."""
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
    """Rows of one partition on their way into Arrow: fill, then `take` whenever it is full."""

    def __init__(self, *, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._clear()

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= _FULL_RECORDS or self._bytes >= _FULL_BYTES

    def add_batch(self, batch: Buffer, header: BatchHeader, *, commit: int | None) -> None:
        """All records of one batch that holds data. Raises `DamagedBatch`; no row of it is taken then."""
        from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]

        header.check_is_of(batch)
        rows = len(self._offsets)
        body = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
        try:
            self._extend(plain_batch(batch, header, body))
        except UnicodeDecodeError:
            self._cut(rows)
            self.add_records(decode(batch, header), commit=commit)
            return
        except CorruptRecordException as error:
            self._cut(rows)
            raise DamagedBatch(f"the batch at offset {header.base_offset} is damaged inside: {error}") from error
        self._complete(header.timestamp_type, commit, len(body))

    def add_records(self, records: Sequence[Record], *, commit: int | None) -> None:
        """Some records of one batch."""
        for offset, timestamp_ms, _, key, value, headers in records:
            if headers:
                self._header_starts.append((len(self._offsets), len(self._headers)))
                self._headers += headers
            self._keys.append(key)
            self._values.append(value)
            self._offsets.append(offset)
            self._times_ms.append(timestamp_ms)
        if records:
            size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
            self._complete(records[0].timestamp_type, commit, size)

    def take(self) -> pa.RecordBatch | None:
        """The rows so far as one Arrow batch of `arrow_schema`, None when there are none; then it is empty again."""
        import pyarrow as pa

        rows = len(self._offsets)
        if not rows:
            return None
        columns = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.repeat(pa.scalar(self._topic, pa.string()), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            _integers(self._offsets, pa.int64()),
            _times(self._times_ms),
            _runs(pa.int32(), [(run.timestamp_type, run.rows) for run in self._runs]),
            _headers(self._header_starts, self._headers, rows),
            _runs(pa.int64(), [(run.commit, run.rows) for run in self._runs]),
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())

    def _clear(self) -> None:
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets = array("q")
        self._times_ms = array("q")
        self._header_starts: list[tuple[int, int]] = []
        self._headers: list[tuple[str, bytes | None]] = []
        self._runs: list[_Run] = []
        self._bytes = 0

    def _extend(self, plain: Buffer) -> None:
        from aiokafka.record.default_records import DefaultRecordBatch  # type: ignore[import-untyped]

        add_key, add_value = self._keys.append, self._values.append  # locals: the hot loop
        add_offset, add_time = self._offsets.append, self._times_ms.append
        for row in DefaultRecordBatch(plain):
            if headers := row.headers:
                self._header_starts.append((len(self._offsets), len(self._headers)))
                self._headers += headers
            add_key(row.key)
            add_value(row.value)
            add_offset(row.offset)
            add_time(row.timestamp)

    def _complete(self, timestamp_type: int, commit: int | None, size_bytes: int) -> None:
        """Note the columns in which all rows of a batch are alike."""
        last = self._runs[-1] if self._runs else _Run(0, timestamp_type, commit)
        end = sum(run.rows for run in self._runs)
        new = len(self._offsets) - end
        if (last.timestamp_type, last.commit) == (timestamp_type, commit):
            self._runs[-1:] = [last._replace(rows=last.rows + new)]
        else:
            self._runs.append(_Run(new, timestamp_type, commit))
        self._bytes += size_bytes

    def _cut(self, rows: int) -> None:
        del self._keys[rows:], self._values[rows:], self._offsets[rows:], self._times_ms[rows:]
        while self._header_starts and self._header_starts[-1][0] >= rows:
            _, start = self._header_starts.pop()
            del self._headers[start:]


class _Run(NamedTuple):
    """Consecutive rows that are alike in these columns."""

    rows: int
    timestamp_type: int
    commit: int | None


def _integers(values: array[int], kind: pa.DataType) -> pa.Array:
    """The 64-bit numbers as they lie in memory: no copy, and no look at each."""
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _runs(kind: pa.DataType, runs: Sequence[tuple[int | None, int]]) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([pa.repeat(pa.scalar(value, kind), rows) for value, rows in runs])


def _times(times_ms: array[int]) -> pa.Array:
    import pyarrow as pa

    kind = pa.timestamp("us", tz="UTC")
    try:
        return _integers(times_ms, pa.timestamp("ms", tz="UTC")).cast(kind)
    except pa.ArrowInvalid:
        return _integers(array("q", map(time_us, times_ms)), kind)


def time_us(time_ms: int) -> int:
    """A time in Spark's microseconds: what 64 bits cannot hold becomes the first or the last one."""
    return min(max(time_ms * _US_PER_MS, -_MAX_TIME_US), _MAX_TIME_US)


def _headers(starts: Sequence[tuple[int, int]], headers: Sequence[tuple[str, bytes | None]], rows: int) -> pa.Array:
    """A list for each of `rows` rows, null where none starts; `starts`: (row, where its list starts in `headers`)."""
    import pyarrow as pa

    kind: Any = arrow_schema().field("headers").type
    if not headers:
        return pa.nulls(rows, kind)
    offsets: list[int | None] = [None] * rows
    for row, start in starts:
        offsets[row] = start
    offsets.append(len(headers))
    names, values = _texts([name for name, _ in headers]), [value for _, value in headers]
    items = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=kind)


def _texts(names: list[str]) -> list[str]:
    """Names as UTF-8 allows them. Nearly always they are: only then is there nothing to look for one by one."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in names]
    return names
