from __future__ import annotations

import struct
from uuid import UUID

from offsite.kafka.protocol.fetch import FetchFormat, FetchQuery
from offsite.kafka.protocol.wire import Encoder
from offsite.log.range import TopicPartition

TOPIC_ID = UUID("03c33196-dcfd-4176-8220-3770ec535f26")
PARTITION = TopicPartition(topic="orders", partition=3)
QUERY = FetchQuery(offset=42, max_bytes=1024, max_wait_ms=500, min_bytes=1)


def plain() -> FetchFormat:
    return FetchFormat(PARTITION, topic_id=None, rack_id="r")


def by_id() -> FetchFormat:
    return FetchFormat(PARTITION, topic_id=TOPIC_ID, rack_id="r")


def test_a_request_by_name_has_the_bytes_of_version_11() -> None:
    assert plain().version == 11
    assert plain().encode(QUERY) == (
        struct.pack(">iiiibii", -1, 500, 1, 1024, 0, 0, -1)
        + b"\0\0\0\1\0\6orders\0\0\0\1"
        + struct.pack(">iiqqi", 3, -1, 42, -1, 1024)
        + b"\0\0\0\0\0\1r"
    )


def test_a_request_by_id_has_the_bytes_of_version_13() -> None:
    assert by_id().version == 13
    assert by_id().encode(QUERY) == (
        struct.pack(">iiiibii", -1, 500, 1, 1024, 0, 0, -1)
        + b"\2"
        + TOPIC_ID.bytes
        + b"\2"
        + struct.pack(">iiqiqi", 3, -1, 42, -1, -1, 1024)
        + b"\0\0\1\2r\0"
    )


def answer(*, flexible: bool, error_code: int = 0, records: bytes = b"batches", topics: int = 1) -> memoryview:
    def put_partition(out: Encoder, _: int) -> None:
        out.i32(3).i16(error_code).i64(100).i64(90).i64(5).array(None, Encoder.i8).i32(-1).blob(records).end()

    def put_topic(out: Encoder, _: int) -> None:
        (out.uuid(TOPIC_ID) if flexible else out.string("orders")).array([0], put_partition).end()

    out = Encoder(flexible=flexible).end().i32(7).i16(0).i32(0)
    return memoryview(out.array(range(topics), put_topic).end().done())


def test_answers_of_both_versions_are_walked_in_place() -> None:
    for format_ in (plain(), by_id()):
        data = answer(flexible=format_.flexible)
        found = format_.decode(data)
        assert (found.throttle_ms, found.error_code, found.preferred_replica) == (7, 0, -1)
        assert (found.high_watermark, found.log_start) == (100, 5)
        assert bytes(found.records) == b"batches"
        assert found.records.obj is data.obj, "the records are a view, not a copy"


def test_an_error_of_the_partition_is_reported() -> None:
    assert plain().decode(answer(flexible=False, error_code=1)).error_code == 1


def test_an_answer_about_nothing_has_no_records() -> None:
    found = plain().decode(answer(flexible=False, topics=0))
    assert (len(found.records), found.high_watermark) == (0, -1)
