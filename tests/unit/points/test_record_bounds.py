from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import LOG_APPEND_TIME_BIT, BatchHeader, scan
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.restore.write.translate import dense_batch

TIMES_MS = st.lists(st.integers(-1, 20), min_size=1, max_size=12)
GAPS = st.lists(st.integers(1, 3), min_size=12, max_size=12)
BOUNDS = st.builds(RecordBounds, st.integers(0, 30), st.integers(0, 45), st.none() | st.integers(-2, 21))


def batch(times_ms: list[int], gaps: list[int], *, timestamp_type: int = CREATE_TIME) -> tuple[memoryview, BatchHeader]:
    """A batch whose times rise and fall, and whose offsets have gaps."""
    offsets = [sum(gaps[: n + 1]) for n in range(len(times_ms))]
    records = [Record(o, t, CREATE_TIME, b"k", b"%d" % o) for o, t in zip(offsets, times_ms, strict=True)]
    data = encode(records)
    if timestamp_type == LOG_APPEND_TIME:
        data[22] |= LOG_APPEND_TIME_BIT  # the last byte of the attributes; decoding does not look at the CRC
    (header,) = scan(data)
    return memoryview(data), header


def expected(data: memoryview, header: BatchHeader, record_bounds: RecordBounds) -> list[Record]:
    """The reference: decode everything, ask for each record."""
    return [
        record
        for record in decode(data, header)
        if record_bounds.start <= record.offset < record_bounds.end
        and (record_bounds.until_ms is None or record.timestamp_ms <= record_bounds.until_ms)
    ]


@given(TIMES_MS, GAPS, BOUNDS, st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]))
def test_exactly_the_records_inside_are_taken(
    times: list[int], gaps: list[int], record_bounds: RecordBounds, kind: int
) -> None:
    data, header = batch(times, gaps, timestamp_type=kind)
    assert VisibleBatch(data, header, record_bounds).records() == expected(data, header, record_bounds)


@given(TIMES_MS, GAPS, BOUNDS, st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]))
def test_the_header_never_tells_what_the_records_deny(
    times: list[int], gaps: list[int], record_bounds: RecordBounds, kind: int
) -> None:
    data, header = batch(times, gaps, timestamp_type=kind)
    inside = expected(data, header, record_bounds)
    if record_bounds.takes_all(header):
        assert inside == decode(data, header)
    if record_bounds.takes_none(header):
        assert inside == []


@given(TIMES_MS, GAPS, BOUNDS, st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]))
def test_what_is_written_is_what_is_taken(
    times: list[int], gaps: list[int], record_bounds: RecordBounds, kind: int
) -> None:
    data, header = batch(times, gaps, timestamp_type=kind)
    inside = expected(data, header, record_bounds)
    dense = dense_batch(data, header, record_bounds)
    offsets = [first + n for first, count in dense.runs for n in range(count)] if dense else []
    assert offsets == [record.offset for record in inside]
    assert (dense.records if dense else 0) == len(inside)
    if dense:
        (written,) = scan(dense.batch)
        assert [(r.timestamp_ms, r.value) for r in decode(dense.batch, written)] == [
            (r.timestamp_ms, r.value) for r in inside
        ]


def test_a_batch_that_its_broker_dated_later_is_left_out_unread() -> None:
    _, header = batch([3, 7], [1, 1], timestamp_type=LOG_APPEND_TIME)
    assert RecordBounds(0, 100, 6).takes_none(header)
    assert RecordBounds(0, 100, 7).takes_all(header)
