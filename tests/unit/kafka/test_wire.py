from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.kafka.protocol.wire import (
    ARRAY_MAX,
    MAX_THROTTLE_MS,
    UNREADABLE,
    Decoder,
    Encoder,
    bounded_throttle_ms,
    partition_code,
)
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption

TEXTS = st.text(max_size=300)


def decoder(out: Encoder) -> Decoder:
    return Decoder(memoryview(out.done()), flexible=out.flexible)


@given(st.booleans(), st.none() | TEXTS, st.binary(max_size=300), st.lists(TEXTS), st.integers(-(2**63), 2**63 - 1))
def test_what_is_encoded_is_decoded(
    flexible: bool, text: str | None, data: bytes, texts: list[str], number: int
) -> None:
    out = Encoder(flexible=flexible).string(text).blob(data).array(texts, Encoder.string).i64(number).end()
    answer = decoder(out)
    assert answer.nullable_string() == text
    assert answer.blob() == data
    assert answer.array(Decoder.string) == texts
    assert answer.i64() == number
    answer.end()
    assert answer.position == len(answer.data)


def test_plain_and_compact_bytes_are_as_the_protocol_guide_says() -> None:
    assert Encoder().string("ab").i16(1).array([7], Encoder.i8).end().done() == b"\0\2ab\0\1\0\0\0\1\7"
    assert Encoder(flexible=True).string("ab").array([7], Encoder.i8).end().done() == b"\3ab\2\7\0"
    assert Encoder(flexible=True).string("x" * 200).done()[:2] == b"\xc9\x01"
    assert Encoder(flexible=True).string(None).array(None, Encoder.i8).done() == b"\0\0"


@given(st.booleans(), st.sets(st.builds(TopicPartition, TEXTS, st.integers(0, 99))))
def test_partitions_are_encoded_by_topic_and_decoded(flexible: bool, partitions: set[TopicPartition]) -> None:
    def put(out: Encoder, partition: TopicPartition) -> None:
        out.i32(partition.partition).i16(7).end()

    answer = decoder(Encoder(flexible=flexible).topics(partitions, put))
    assert answer.topics(partition_code) == dict.fromkeys(partitions, 7)
    answer.done()


def test_partitions_of_one_topic_are_written_together() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 1)]
    answer = decoder(Encoder().topics(partitions))
    assert answer.array(lambda topic: (topic.string(), topic.array(Decoder.i32))) == [("a", [1, 2]), ("b", [1])]


def test_no_array_is_longer_than_brokers_read() -> None:
    """Since Kafka 4.2 brokers drop the connection of a longer one."""
    longest = Encoder(flexible=True).array(range(ARRAY_MAX), lambda _out, _item: None)
    assert decoder(longest).data[:3] == b"\xc1\x84\x3d"  # a million, and one
    with pytest.raises(BadOption, match="would list 1,000,001 items") as refused:
        Encoder().array(range(ARRAY_MAX + 1), lambda _out, _item: None)
    assert "select fewer" in refused.value.hint


def test_unknown_tagged_fields_are_skipped() -> None:
    answer = Decoder(memoryview(b"\2\0\3abc\5\1x\0\7"), flexible=True)
    answer.end()
    assert answer.i16() == 7


def test_null_arrays_and_bytes_count_as_empty() -> None:
    answer = Decoder(memoryview(b"\xff\xff\xff\xff" * 3))
    assert answer.array(Decoder.i8) == []
    assert answer.blob() == b""
    assert answer.count() == 0


def test_uuids_keep_their_bytes() -> None:
    value = UUID("03c33196-dcfd-4176-8220-3770ec535f26")
    assert decoder(Encoder().uuid(value)).uuid() == value


@pytest.mark.parametrize("size", range(12))
def test_a_cut_answer_is_noticed(size: int) -> None:
    whole = Encoder().i32(1).string("abcdef").done()
    answer = Decoder(memoryview(whole)[:size])
    with pytest.raises((IndexError, struct.error)):
        answer.i32() and answer.string()


@pytest.mark.parametrize("length", [-(2**31), -2, 5, 2**31 - 1])
@pytest.mark.parametrize(
    "read", [Decoder.blob, Decoder.count, Decoder.blob_length, lambda each: each.array(Decoder.i8)]
)
def test_a_length_that_does_not_fit_into_what_came_is_refused(read: Callable[[Decoder], object], length: int) -> None:
    with pytest.raises(UNREADABLE):
        read(Decoder(memoryview(struct.pack(">i", length) + bytes(4))))


def test_a_compact_length_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UNREADABLE):
        Decoder(memoryview(b"\x06" + bytes(4)), flexible=True).blob_length()


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(UNREADABLE):
        Decoder(memoryview(b"\xff" * 1000), flexible=True).count()


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(UNREADABLE):
        Decoder(memoryview(b"\0\2\xc3\x28")).string()


def test_bytes_behind_the_end_are_refused() -> None:
    answer = Decoder(memoryview(b"\0\7\0"))
    assert answer.i16() == 7
    with pytest.raises(UNREADABLE):
        answer.done()


def test_a_throttle_time_is_neither_negative_nor_without_end() -> None:
    assert [bounded_throttle_ms(told) for told in (-(2**31), -1, 0, 20, 2**31 - 1)] == [0, 0, 0, 20, MAX_THROTTLE_MS]
    assert Decoder(memoryview(struct.pack(">i", 2**31 - 1))).throttle_ms() == MAX_THROTTLE_MS
