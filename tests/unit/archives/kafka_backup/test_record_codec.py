from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offsite.archives.kafka_backup.segments.record import Malformed, RecordRun, decode_run, encode_record
from offsite.log.records.record import Record
from offsite.model.errors import NotRepresentable
from tests.unit.archives.kafka_backup.careful_decoder import Short, decode_record

KEY_AND_VALUE = "000000000000007bffffffff00000008746573742d6b65790000000a746573742d76616c756500000000"
NULLS = "000000000000007bffffffffffffffffffffffff00000000"
EMPTIES = "000000000000007bffffffff000000000000000000000000"
HEADERS = "0000000300000000000000000000000 46e756c6cffffffff0000000576616c75650000000a746573742d76616c7565".replace(
    " ", ""
)
GOLDEN = {
    KEY_AND_VALUE: Record(123, -1, -1, b"test-key", b"test-value"),
    NULLS: Record(123, -1, -1, None, None),
    EMPTIES: Record(123, -1, -1, b"", b""),
    NULLS[:-8] + HEADERS: Record(123, -1, -1, None, None, (("", b""), ("null", None), ("value", b"test-value"))),
}
"""Records that the tool's own tests hold."""

names = st.text() | st.binary().map(lambda name: name.decode("utf-8", "surrogateescape"))
payloads = st.none() | st.binary()
times = st.tuples(st.integers(-1, 1 << 62), st.sampled_from([0, 1])) | st.just((-1, -1))
some_records = st.builds(
    lambda offset, time, key, value, headers: Record(offset, *time, key, value, tuple(headers)),
    st.integers(0, 1 << 62),
    times,
    payloads,
    payloads,
    st.lists(st.tuples(names, payloads), max_size=4),
)


@pytest.mark.parametrize(("golden", "record"), GOLDEN.items())
def test_the_golden_records_of_the_tool_are_read_and_written_byte_for_byte(golden: str, record: Record) -> None:
    data = bytes.fromhex(golden)
    assert decode_record(data) == (record, len(data))
    assert encode_record(record) == data


@given(st.lists(some_records, max_size=5))
@example([Record(0, -1, 0, None, None), Record(1, -1, 1, b"", b""), Record(2, 0, 0, None, b"", (("a", None),) * 2)])
def test_records_come_back_as_they_were(records: list[Record]) -> None:
    parts = [encode_record(record) for record in records]
    run = decode_run(b"".join(parts))
    assert run.records == records
    assert run.ends == [sum(map(len, parts[: n + 1])) for n in range(len(parts))]


@given(some_records)
def test_a_record_is_short_until_its_last_byte_is_there(record: Record) -> None:
    data = encode_record(record)
    for size in range(len(data)):
        with pytest.raises(Short) as short:
            decode_record(data[:size])
        assert size < short.value.needed_bytes <= len(data)
        assert decode_run(data[:size]) == RecordRun([], [])


@given(some_records, st.data())
def test_the_quick_and_the_careful_decoder_agree_on_damaged_bytes(record: Record, data: st.DataObject) -> None:
    damaged = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    run = decode_run(bytes(damaged))
    try:
        careful, end = decode_record(bytes(damaged))
    except (Malformed, Short):
        assert not run.records
    else:
        assert (run.records[0], run.ends[0]) == (careful, end)


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        ("8000000000000000" + NULLS[16:], "offset -"),
        ("000000000000007b0000004d" + NULLS[24:], "timestamp type 77"),
        ("000000000000007bfffffffffffffffe" + NULLS[32:], "a key of -2 bytes"),
        ("000000000000007bfffffffffffffffffffffffb00000000", "a value of -5 bytes"),
        ("000000000000007bffffffffffffffffffffffffffffffff", "-1 headers"),
        (NULLS[:-8] + "00000001ffffffffffffffff", "a header name of -1 bytes"),
        (NULLS[:-8] + "0000000100000000fffffffe", "a header value of -2 bytes"),
    ],
)
def test_bytes_that_are_no_record_are_refused_by_what_is_wrong(damaged: str, problem: str) -> None:
    data = bytes.fromhex(damaged)
    with pytest.raises(Malformed, match=problem):
        decode_record(data)
    assert not decode_run(data).records


def test_the_time_that_no_producer_gave_keeps_its_type() -> None:
    data = encode_record(Record(5, -1, 0, None, None))
    assert data[8:12].hex() == "fffffffe"
    assert decode_record(data)[0] == Record(5, -1, 0, None, None)


def test_a_time_without_a_type_has_no_place() -> None:
    with pytest.raises(NotRepresentable, match="offset 7"):
        encode_record(Record(7, 1000, -1, None, None))
