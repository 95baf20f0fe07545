from __future__ import annotations

import json

import pytest

from offsite.log.offset_vector import parse_before, parse_offsets
from offsite.log.range import TopicPartition
from offsite.model.errors import BadName, BadOption

EXPECTED = {
    TopicPartition(topic="orders", partition=0): 12,
    TopicPartition(topic="orders", partition=1): 0,
    TopicPartition(topic="a.b-c_d", partition=7): 5_000_000_000,
}
ROWS = [{"topic": p.topic, "partition": p.partition, "offset": offset} for p, offset in EXPECTED.items()]

MANY = "9" * 5000
"""More digits than Python reads."""


@pytest.mark.parametrize(
    "text",
    [
        "orders:0:12\norders:1:0\na.b-c_d:7:5000000000\n",
        "topic,partition,offset\r\norders,0,12\r\norders, 1, 0\r\n\r\na.b-c_d,7,5000000000",
        "TOPIC,PARTITION,NEW-OFFSET\n".replace("NEW-", "") + '"orders",0,12\n"orders",1,0\n"a.b-c_d",7,5000000000\n',
        json.dumps({"partitions": ROWS, "version": 1}),
        json.dumps(ROWS),
    ],
)
def test_offsets_are_read_as_kafka_s_tools_write_them(text: str) -> None:
    assert parse_offsets(text) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "topic,partition,offset",
        "orders,0",
        "orders,0,-1",
        "orders,0,x",
        "orders,0,1\norders,0,2",
        "{",
        "{}",
        '{"partitions": {}}',
        "[1]",
        '[{"topic": "orders", "partition": true, "offset": 1}]',
        '[{"topic": "or/ders", "partition": 0, "offset": 1}]',
        '[{"topic": "orders", "partition": 0}]',
        "[" * 100_000,
    ],
)
def test_a_file_that_names_no_offsets_is_refused(text: str) -> None:
    with pytest.raises((BadOption, BadName)):
        parse_offsets(text)


def test_before_names_one_partition_at_a_time() -> None:
    values = ["topic=orders,partition=0,offset=12", "offset=9, partition=1 ,topic=orders"]
    assert parse_before(values) == {
        TopicPartition(topic="orders", partition=0): 12,
        TopicPartition(topic="orders", partition=1): 9,
    }


@pytest.mark.parametrize(
    "value",
    [
        "",
        "orders,0,12",
        "topic=orders,partition=0",
        "topic=orders,partition=0,offset=-1",
        "topic=orders,partition=0,offset=1,offset=2",
        "topic=or/ders,partition=0,offset=1",
    ],
)
def test_before_without_all_three_is_refused(value: str) -> None:
    with pytest.raises((BadOption, BadName)):
        parse_before([value])


@pytest.mark.parametrize(
    "text",
    [
        f"orders,0,{MANY}",
        f"orders,{MANY},0",
        f"orders,0,{1 << 63}",
        "orders,1000000,0",
        f'[{{"topic":"orders","partition":0,"offset":{MANY}}}]',
        f'[{{"topic":"orders","partition":0,"offset":{1 << 63}}}]',
        '[{"topic":"orders","partition":1000000,"offset":0}]',
        '[{"topic":"orders","partition":0,"offset":' + "[" * 900 + "]" * 900 + "}]",
    ],
)
def test_numbers_that_kafka_cannot_have_are_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_offsets(text)


@pytest.mark.parametrize(
    "fields", [f"partition=0,offset={MANY}", f"partition={MANY},offset=0", "partition=0,offset=\u00b2"]
)
def test_such_numbers_are_refused_for_one_partition_too(fields: str) -> None:
    with pytest.raises(BadOption):
        parse_before([f"topic=orders,{fields}"])


def test_the_largest_offset_is_read() -> None:
    assert parse_offsets(f"orders,0,{(1 << 63) - 1}") == {TopicPartition(topic="orders", partition=0): (1 << 63) - 1}
