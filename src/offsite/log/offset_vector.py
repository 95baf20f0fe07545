"""Offsets of many partitions as people and Kafka's tools write them: one end per partition, excluded.

Accepted formats: JSON as for `kafka-delete-records.sh` (`{"partitions": [{"topic", "partition", "offset"}, …]}`, or the
bare list), CSV as written by `kafka-consumer-groups.sh --export` (`topic,partition,offset`, with or without a header),
and the lines of `kafka-get-offsets.sh` (`topic:partition:offset`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS, whole_number
from offsite.model.errors import BadOption
from offsite.model.names import check_topic_name
from offsite.model.untrusted.bounded_json import BadJson, decode_json

_LINE = re.compile(r'"?(?P<topic>[A-Za-z0-9._-]+)"?\s*[,:]\s*(?P<partition>\d+)\s*[,:]\s*(?P<offset>\d+)')
_HEADER = re.compile(r"topic\s*[,:]\s*partition\s*[,:]\s*\w+", re.IGNORECASE)
_FIELDS = ("topic", "partition", "offset")
_FILE_HINT = 'write one line "topic,partition,offset" for each partition, or the JSON of kafka-delete-records.sh'
_BEFORE_HINT = "write --before topic=orders,partition=3,offset=1234"

OffsetVector = Mapping[TopicPartition, int]
_Row = tuple[str, int | None, int | None]
"""Topic, partition and offset; None for an impossible number."""


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """All offsets of a file. Raises `BadOption` and `BadName`."""
    rows = _json_rows(text) if text.lstrip()[:1] in ("{", "[") else _line_rows(text)
    vector = _vector(rows, _FILE_HINT)
    if not vector:
        raise BadOption("the file has no offsets", hint=_FILE_HINT)
    return vector


def parse_before(values: Iterable[str]) -> dict[TopicPartition, int]:
    """The offsets of partitions out of `topic=…,partition=…,offset=…`, one per partition. Raises `BadOption` and
    `BadName`."""
    return _vector(map(_before_row, values), _BEFORE_HINT)


def _vector(rows: Iterable[_Row], hint: str) -> dict[TopicPartition, int]:
    vector: dict[TopicPartition, int] = {}
    for topic, number, offset in rows:
        if number is None or offset is None:
            raise BadOption(
                f"a partition or an offset of {topic[:100]!r} is not a number that Kafka supports", hint=hint
            )
        partition = TopicPartition(topic=check_topic_name(topic), partition=number)
        if vector.setdefault(partition, offset) != offset:
            raise BadOption(f"{partition} has two offsets", hint=hint)
    return vector


def _line_rows(text: str) -> Iterator[_Row]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if number == 0 and _HEADER.fullmatch(line):
            continue
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise BadOption(f"{line[:100]!r} is not topic,partition,offset", hint=_FILE_HINT)
        yield matched["topic"], _partition(matched["partition"]), whole_number(matched["offset"])


def _json_rows(text: str) -> Iterator[_Row]:
    try:
        document = decode_json(text)
    except BadJson as error:
        raise BadOption(f"the file cannot be read: {error}", hint=_FILE_HINT) from error
    rows = document.get("partitions") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise BadOption("the file has no list of partitions", hint=_FILE_HINT)
    for row in rows:
        topic, partition, offset = (row.get(name) if isinstance(row, dict) else None for name in _FIELDS)
        if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int:
            raise BadOption(f"{_excerpt(row)} is not a topic, partition and offset", hint=_FILE_HINT)
        yield topic, _within(partition, MAX_PARTITIONS - 1), _within(offset, MAX_OFFSET)


def _before_row(value: str) -> _Row:
    pairs = [part.partition("=")[::2] for part in value.split(",")]
    fields = {name.strip(): text.strip() for name, text in pairs}
    if len(pairs) != len(_FIELDS) or set(fields) != set(_FIELDS):
        raise BadOption(f"{value!r} does not name topic, partition and offset", hint=_BEFORE_HINT)
    partition, offset = fields["partition"], fields["offset"]
    if not (partition.isdecimal() and offset.isdecimal()):
        raise BadOption(f"{value!r}: partition and offset must be numbers", hint=_BEFORE_HINT)
    return fields["topic"], _partition(partition), whole_number(offset)


def _partition(text: str) -> int | None:
    return whole_number(text, most=MAX_PARTITIONS - 1)


def _within(number: int, most: int) -> int | None:
    return number if 0 <= number <= most else None


def _excerpt(row: object) -> str:
    try:
        return json.dumps(row)[:100]
    except RecursionError:
        return "a row that nests too deep"
