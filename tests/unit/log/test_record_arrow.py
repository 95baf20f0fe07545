from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import scan
from offsite.log.codec import GZIP, LZ4, NONE, SNAPPY, ZSTD
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.log.records.record_arrow import MAX_TIME_MS, ArrowColumns, arrow_schema, null_out_of_range_times
from offsite.model.errors import DamagedBatch

_BLOBS = st.none() | st.binary(max_size=20)
_NAMES = st.text(max_size=5).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
_STRANGE = st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
_HEADERS = st.lists(st.tuples(_NAMES, _BLOBS), max_size=3)
_TIMES = st.integers(-1, 1 << 45)


@st.composite
def _batches(draw: st.DrawFn, headers: st.SearchStrategy = _HEADERS) -> bytes:
    offsets = sorted(draw(st.sets(st.integers(0, 300), min_size=1, max_size=12)))
    records = [Record(offset, draw(_TIMES), 0, draw(_BLOBS), draw(_BLOBS), tuple(draw(headers))) for offset in offsets]
    codec = draw(st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD]))
    return bytes(encode(records, codec=codec, is_append_time=draw(st.booleans())))


def _rows(*batches: bytes, commit: int | None = 7) -> list[dict]:
    columns = ArrowColumns(topic="t", partition=3)
    for batch in batches:
        (header,) = scan(batch)
        columns.add_batch(batch, header, commit=commit)
    taken = columns.take()
    assert taken is not None
    taken.validate(full=True)
    assert taken.schema == arrow_schema()
    return _plain(taken)


def _plain(taken: pa.RecordBatch) -> list[dict]:
    times = taken.column("timestamp").cast(pa.int64()).to_pylist()
    rows = taken.drop_columns(["timestamp"]).to_pylist()
    return [row | {"timestamp": time} for row, time in zip(rows, times, strict=True)]


def _expected(*batches: bytes) -> list[dict]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp_ms * 1000,
            "timestampType": record.timestamp_type,
            "headers": [{"key": _text(name), "value": value} for name, value in record.headers] or None,
            "commit": 7,
        }
        for batch in batches
        for record in decode(batch, *scan(batch))
    ]


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@given(st.lists(_batches(), min_size=1, max_size=3))
def test_columns_hold_what_decoded_records_hold(batches: list[bytes]) -> None:
    assert _rows(*batches) == _expected(*batches)


@given(st.lists(_batches(st.lists(st.tuples(_STRANGE, _BLOBS), max_size=3)), min_size=1, max_size=3))
def test_header_names_that_are_not_utf_8_show_what_is_wrong_and_keep_the_rest(batches: list[bytes]) -> None:
    assert _rows(*batches) == _expected(*batches)


def test_single_records_and_whole_batches_give_the_same_rows() -> None:
    batch = bytes(encode([Record(5, 9, 0, b"k", None, (("a", b""), ("a", None))), Record(8, -1, 0, None, b"")]))
    columns = ArrowColumns(topic="t", partition=3)
    columns.add_records(decode(batch, *scan(batch)), commit=7)
    taken = columns.take()
    assert taken is not None
    assert _plain(taken) == _rows(batch)


def test_a_record_without_a_time_stands_one_millisecond_before_1970_as_in_sparks_own_source() -> None:
    batch = bytes(encode([Record(0, -1, 0, None, None)]))
    assert _rows(batch)[0]["timestamp"] == -1000


def _taken(times_ms: list[int]) -> pa.RecordBatch:
    columns = ArrowColumns(topic="t", partition=0)
    columns.add_records([Record(at, time, 0, None, None) for at, time in enumerate(times_ms)], commit=1)
    taken = columns.take()
    assert taken is not None
    return taken


@pytest.mark.parametrize("time_ms", [(1 << 63) - 1, -(1 << 62), -(1 << 63), MAX_TIME_MS + 1, -MAX_TIME_MS - 1])
def test_a_time_beyond_sparks_compares_as_the_last_or_first_that_it_has_and_becomes_null(
    time_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    taken = _taken([1_000, time_ms, time_ms])
    last = ((1 << 63) - 1) * (1 if time_ms > 0 else -1)
    assert [row["timestamp"] for row in _plain(taken)] == [1_000_000, last, last]
    known, untouched = null_out_of_range_times(iter([taken, _taken([7])]))
    assert known.column("timestamp").cast(pa.int64()).to_pylist() == [1_000_000, None, None]
    assert known.schema == taken.schema
    assert known.drop_columns(["timestamp"]) == taken.drop_columns(["timestamp"])
    assert untouched == _taken([7])
    assert [line.getMessage() for line in caplog.records] == [
        'times_beyond_microseconds first_partition=t/0 records=2 why="null in the table"'
    ]


@pytest.mark.parametrize("time_ms", [MAX_TIME_MS, -MAX_TIME_MS])
def test_the_last_and_the_first_time_that_spark_has_stay(time_ms: int) -> None:
    (known,) = null_out_of_range_times(iter([_taken([time_ms, -1, 0])]))
    assert known.column("timestamp").cast(pa.int64()).to_pylist() == [time_ms * 1000, -1000, 0]


def test_the_broker_s_time_is_that_of_every_record_of_its_batch() -> None:
    batch = bytes(encode([Record(0, 5, 0, None, b"a"), Record(1, 9, 0, None, b"b")], is_append_time=True))
    assert [(row["timestamp"], row["timestampType"]) for row in _rows(batch)] == [(9000, LOG_APPEND_TIME)] * 2


def test_a_commit_that_was_not_asked_for_is_null() -> None:
    assert _rows(bytes(encode([Record(0, 5, 0, None, b"a")])), commit=None)[0]["commit"] is None


def test_headers_stay_with_their_rows_when_only_some_batches_have_any() -> None:
    bare = [bytes(encode([Record(offset, 0, 0, None, b"")])) for offset in (0, 3, 4)]
    first = bytes(encode([Record(1, 0, 0, None, b"", (("a", b"1"), ("b", None))), Record(2, 0, 0, None, b"")]))
    last = bytes(encode([Record(5, 0, 0, None, b"", (("c", b""),))]))
    batches = [bare[0], first, *bare[1:], last, bytes(encode([Record(6, 0, 0, None, b"")]))]
    assert _rows(*batches) == _expected(*batches)


def test_a_batch_damaged_inside_leaves_no_row_behind() -> None:
    batch = bytearray(encode([Record(n, n, 0, b"key", b"value", (("h", b"1"),)) for n in range(3)]))
    batch[-1] = 0x7E  # the last header reaches past the batch
    batch[-2] = 0x7E
    columns = ArrowColumns(topic="t", partition=0)
    with pytest.raises(DamagedBatch):
        columns.add_batch(batch, *scan(bytes(batch)), commit=1)
    assert columns.take() is None


def test_it_is_full_after_many_records_or_large_ones() -> None:
    columns = ArrowColumns(topic="t", partition=0)
    columns.add_records([Record(n, 0, 0, None, b"x") for n in range(4999)], commit=1)
    assert not columns.is_full
    columns.add_records([Record(4999, 0, 0, None, b"x")], commit=1)
    assert columns.is_full
    columns.take()
    assert not columns.is_full
    columns.add_records([Record(0, 0, 0, None, bytes(8 << 20))], commit=1)
    assert columns.is_full


def test_times_are_read_as_utc() -> None:
    columns = ArrowColumns(topic="t", partition=0)
    columns.add_records([Record(0, 1_700_000_000_123, 0, None, None)], commit=1)
    taken = columns.take()
    assert taken is not None
    assert taken.column("timestamp")[0].as_py() == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
