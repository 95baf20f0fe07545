from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import scan, verify_crc
from offsite.log.codec import NONE, ZSTD
from offsite.log.records.batch_records import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, decode, encode_batches
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record


def decoded(batches: list[bytearray]) -> list[Record]:
    records: list[Record] = []
    for batch in batches:
        (header,) = scan(batch)
        verify_crc(batch, [header])
        records += decode(batch, header)
    return records


def record(offset: int, time_ms: int = 5, kind: int = CREATE_TIME, value: bytes | None = b"v") -> Record:
    return Record(offset, time_ms, kind, b"k", value, (("h", None), ("h", b"2")))


blobs = st.none() | st.binary(max_size=20)
shapes = st.tuples(
    st.integers(1, 50),
    st.sampled_from([-1, 0, 7, 8]),
    st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]),
    blobs,
    blobs,
    st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3),
)


@given(st.lists(st.lists(shapes, max_size=8), max_size=8), st.sampled_from([NONE, ZSTD]))
def test_whatever_records_come_they_are_in_the_batches_in_order(
    runs: list[list[tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]], codec: int
) -> None:
    offset, made = 0, []
    for run in runs:
        records = []
        for step, time_ms, kind, key, value, headers in run:
            offset += step
            records.append(Record(offset, time_ms, kind, key, value, tuple(headers)))
        made.append(records)
    assert decoded(list(encode_batches(made, codec=codec))) == [each for records in made for each in records]


def test_records_of_one_append_time_share_a_batch_and_others_do_not() -> None:
    records = [
        record(0, 5, LOG_APPEND_TIME),
        record(1, 5, LOG_APPEND_TIME),
        record(2, 6, LOG_APPEND_TIME),
        record(3, 6, CREATE_TIME),
        record(4, 9, CREATE_TIME),
    ]
    batches = list(encode_batches([records], codec=NONE))
    assert [scan(batch)[0].record_count for batch in batches] == [2, 1, 2]
    assert decoded(batches) == records


def test_a_batch_ends_where_it_is_large_enough() -> None:
    large = [record(number, value=b"x" * (BATCH_BYTES_MAX // 2)) for number in range(3)]
    assert len(list(encode_batches([large], codec=NONE))) == 3
    small = [record(number) for number in range(BATCH_RECORDS_MAX + 1)]
    assert [scan(batch)[0].record_count for batch in encode_batches([small], codec=NONE)] == [BATCH_RECORDS_MAX, 1]


def test_offsets_too_far_apart_for_one_batch_get_their_own() -> None:
    records = [record(0), record(1 << 40)]
    assert decoded(list(encode_batches([records], codec=NONE))) == records


def test_records_without_a_timestamp_type_become_create_time() -> None:
    assert decoded(list(encode_batches([[record(3, -1, -1)]], codec=NONE))) == [record(3, -1, CREATE_TIME)]
