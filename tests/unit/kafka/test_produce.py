from __future__ import annotations

import struct

import pytest

from offsite.kafka.net.routing import Router
from offsite.kafka.producer import Producer
from offsite.kafka.protocol.produce import ProduceFormat
from offsite.kafka.protocol.wire import UNREADABLE, Encoder
from offsite.kafka.small_log import SmallLog
from offsite.log.range import TopicPartition
from offsite.model.errors import LeaderUnavailable
from tests.fake_cluster.server import serving


def format_() -> ProduceFormat:
    partition = TopicPartition(topic="orders", partition=3)
    return ProduceFormat(partition, transactional_id=None, timeout_ms=1000)


def answer(code: int, base_offset: int, *, errors: list[str] = [], message: str | None = None) -> memoryview:  # noqa: B006
    def put_partition(out: Encoder, _: int) -> None:
        out.i32(3).i16(code).i64(base_offset).i64(-1).i64(0)
        out.array(errors, lambda each, text: each.i32(0).string(text)).string(message)

    def put_topic(out: Encoder, _: int) -> None:
        out.string("orders").array([0], put_partition)

    return memoryview(Encoder().array([0], put_topic).i32(9).done())


def test_the_head_has_the_bytes_of_version_8() -> None:
    assert format_().head(77) == (
        b"\xff\xff" + struct.pack(">hi", -1, 1000) + b"\0\0\0\1\0\6orders\0\0\0\1" + struct.pack(">ii", 3, 77)
    )


def test_a_plain_acknowledgement_is_read() -> None:
    found = format_().decode(answer(0, 1234))
    assert (found.error_code, found.base_offset, found.throttle_ms, found.detail) == (0, 1234, 9, "")


def test_an_error_without_words_is_read() -> None:
    assert format_().decode(answer(6, -1)).error_code == 6


def test_what_the_broker_says_of_a_record_is_kept() -> None:
    found = format_().decode(answer(87, -1, errors=["too old"], message="refused"))
    assert (found.error_code, found.detail) == (87, "refused; record 0: too old")


def test_an_answer_about_another_partition_acknowledges_nothing() -> None:
    elsewhere = TopicPartition(topic="orders", partition=4)
    with pytest.raises(LeaderUnavailable, match="orders/4"):
        ProduceFormat(elsewhere, transactional_id=None, timeout_ms=1).decode(answer(0, 1234))
    for nothing in (Encoder().i32(0).i32(9), Encoder().i32(1).string("orders").i32(0).i32(9)):
        with pytest.raises(LeaderUnavailable, match="orders/3"):
            format_().decode(memoryview(nothing.done()))


def test_noise_of_the_right_length_is_no_acknowledgement() -> None:
    with pytest.raises(UNREADABLE):
        format_().decode(memoryview(bytes(4) + b"\xff" * (len(answer(0, 1234)) - 4)))


def test_sequence_numbers_wrap_at_two_to_the_31() -> None:
    producer = Producer(producer_id=1, epoch=0, next_sequence=2**31 - 3)
    assert [producer.claim(2), producer.claim(2), producer.claim(5)] == [2**31 - 3, 2**31 - 1, 1]


@pytest.mark.parametrize("unreadable", [b"\0", b"\0\0\0\1\0\1\xff\0\0\0\0"])
def test_what_a_broker_did_not_readably_acknowledge_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, unreadable: bytes
) -> None:
    """The name of a topic may be no text, too: that ended the writer in an error of Python."""
    decode, unreadables = ProduceFormat.decode, iter([memoryview(unreadable)])
    monkeypatch.setattr(ProduceFormat, "decode", lambda form, data: decode(form, next(unreadables, data)))
    with serving() as cluster:
        cluster.make_topic("orders")
        log = SmallLog(Router(cluster.config), TopicPartition(topic="orders", partition=0))
        assert log.append(b"once") == 0
        assert (log.end(), next(unreadables, None)) == (1, None)
