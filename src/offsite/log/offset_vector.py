"""Offsets of many partitions as people and Kafka's tools write them: one end for each partition, itself excluded.

Read are: JSON as `kafka-delete-records.sh` takes it (`{"partitions": [{"topic", "partition", "offset"}, …]}`, or the
bare list), CSV as `kafka-consumer-groups.sh --export` writes it (`topic,partition,offset`, with or without a header),
and the lines of `kafka-get-offsets.sh` (`topic:partition:offset`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard

from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption
from offsite.model.names import check_topic_name

_LINE = re.compile(r'"?(?P<topic>[A-Za-z0-9._-]+)"?\s*[,:]\s*(?P<partition>\d{1,9})\s*[,:]\s*(?P<offset>\d{1,18})')
_HEADER = re.compile(r"topic\s*[,:]\s*partition\s*[,:]\s*\w+", re.IGNORECASE)
_FIELDS = ("topic", "partition", "offset")
_FILE_HINT = 'write one "topic,partition,offset" a line, or the JSON of kafka-delete-records.sh'
_BEFORE_HINT = "write --before topic=orders,partition=3,offset=1234"

OffsetVector = Mapping[TopicPartition, int]


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """All offsets of a file. Raises `BadOption` and `BadName`."""
    rows = _json_rows(text) if text.lstrip()[:1] in ("{", "[") else _line_rows(text)
    vector = _vector(rows, _FILE_HINT)
    if not vector:
        raise BadOption("the file holds no offsets", hint=_FILE_HINT)
    return vector


def parse_before(values: Iterable[str]) -> dict[TopicPartition, int]:
    """`topic=…,partition=…,offset=…`, once for each partition. Raises `BadOption` and `BadName`."""
    return _vector(map(_before_row, values), _BEFORE_HINT)


def _vector(rows: Iterable[tuple[str, int, int]], hint: str) -> dict[TopicPartition, int]:
    vector: dict[TopicPartition, int] = {}
    for topic, number, offset in rows:
        partition = TopicPartition(topic=check_topic_name(topic), partition=number)
        if vector.setdefault(partition, offset) != offset:
            raise BadOption(f"{partition} has two offsets", hint=hint)
    return vector


def _line_rows(text: str) -> Iterator[tuple[str, int, int]]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if number == 0 and _HEADER.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise BadOption(f"{line[:100]!r} is not topic,partition,offset", hint=_FILE_HINT)
        yield found["topic"], int(found["partition"]), int(found["offset"])


def _json_rows(text: str) -> Iterator[tuple[str, int, int]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOption(f"the file is not JSON: {error}", hint=_FILE_HINT) from error
    rows = document.get("partitions") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise BadOption("the file has no list of partitions", hint=_FILE_HINT)
    for row in rows:
        topic, partition, offset = (row.get(name) if isinstance(row, dict) else None for name in _FIELDS)
        if not isinstance(topic, str) or not _is_number(partition) or not _is_number(offset):
            raise BadOption(f"{json.dumps(row)[:100]} is no topic, partition and offset", hint=_FILE_HINT)
        yield topic, partition, offset


def _before_row(value: str) -> tuple[str, int, int]:
    pairs = [part.partition("=")[::2] for part in value.split(",")]
    fields = {name.strip(): text.strip() for name, text in pairs}
    if len(pairs) != len(_FIELDS) or set(fields) != set(_FIELDS):
        raise BadOption(f"{value!r} does not name topic, partition and offset", hint=_BEFORE_HINT)
    partition, offset = fields["partition"], fields["offset"]
    if not (partition.isdecimal() and offset.isdecimal()):
        raise BadOption(f"{value!r}: partition and offset are numbers", hint=_BEFORE_HINT)
    return fields["topic"], int(partition), int(offset)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
