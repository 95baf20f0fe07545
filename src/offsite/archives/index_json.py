"""Indexes and manifests as JSON, written in one byte form and read strictly: one wrong field and nothing counts."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

from offsite.archives.archive import ArchiveTopic, FileReceipt
from offsite.archives.index import ArchiveManifest, TopicIndex
from offsite.log.group_offsets import GroupOffsets, TopicOffsets
from offsite.log.range import LogRange
from offsite.model.errors import BadName
from offsite.model.names import check_topic_name

__all__ = ["BadIndex", "encode_index", "encode_manifest", "parse_index", "parse_manifest"]

FORMAT = 1
"""The version of both files. Added fields do not change it: readers ignore them."""

Fields = Mapping[str, object]


class BadIndex(ValueError):
    """The bytes are no index; `position` is where they stop making sense (0 when the whole does not)."""

    def __init__(self, problem: str, *, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


def encode_manifest(manifest: ArchiveManifest) -> bytes:
    groups = [_group_fields(manifest.groups[name]) for name in sorted(manifest.groups)]
    return _encoded({"format": FORMAT, "archive": manifest.kind, "topics": sorted(manifest.topics), "groups": groups})


def parse_manifest(data: bytes) -> ArchiveManifest:
    """Raises `BadIndex`."""
    fields = _parsed(data)
    groups = [_group(each) for each in _objects(fields, "groups")]
    topics = tuple(_checked(topic) for topic in _texts(fields, "topics"))
    return ArchiveManifest(kind=_text(fields, "archive"), topics=topics, groups={each.group: each for each in groups})


def encode_index(index: TopicIndex) -> bytes:
    topic = index.topic
    return _encoded(
        {
            "format": FORMAT,
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": dict(topic.configs),
            "covered": [[each.partition, each.start, each.end] for each in index.covered],
            "losses": dict(index.losses),
            "files": [_file_fields(receipt) for receipt in index.files],
        }
    )


def parse_index(data: bytes, *, topic: str) -> TopicIndex:
    """Raises `BadIndex`, also when it is another topic's."""
    fields = _parsed(data)
    if _text(fields, "topic") != topic:
        raise BadIndex(f"it is of topic {_text(fields, 'topic')!r}")
    covered = [_range(topic, row) for row in _rows(fields, "covered")]
    if any(after < before for before, after in pairwise(covered)):
        raise BadIndex("field 'covered' is not in order")
    files = sorted((_file(topic, each) for each in _objects(fields, "files")), key=lambda each: each.range)
    for file in files:
        _check_place(file, covered)
    configs, losses = _object(fields, "configs"), _object(fields, "losses")
    return TopicIndex(
        topic=ArchiveTopic(
            topic=topic,
            partitions=_integer(fields, "partitions"),
            replication_factor=_integer(fields, "replication_factor"),
            configs=tuple((name, _text(configs, name)) for name in sorted(configs)),
            topic_id=_text(fields, "topic_id") if "topic_id" in fields else "",
        ),
        covered=tuple(covered),
        files=tuple(files),
        losses=tuple((what, _integer(losses, what)) for what in sorted(losses)),
    )


def _encoded(fields: Fields) -> bytes:
    return (json.dumps(fields, sort_keys=True, indent=1) + "\n").encode("ascii")


def _parsed(data: bytes) -> Fields:
    try:
        fields = json.loads(data)
    except json.JSONDecodeError as error:
        raise BadIndex(f"not JSON: {error.msg}", position=error.pos) from error
    except (ValueError, RecursionError) as error:
        raise BadIndex(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadIndex("not a JSON object")
    if (version := _integer(fields, "format")) != FORMAT:
        raise BadIndex(f"format {version}; this offsite reads {FORMAT}")
    return fields


def _file_fields(receipt: FileReceipt) -> Fields:
    return {
        "name": receipt.name,
        "partition": receipt.range.partition,
        "start": receipt.range.start,
        "end": receipt.range.end,
        "first_offset": receipt.first_offset,
        "last_offset": receipt.last_offset,
        "records": receipt.records,
        "size_bytes": receipt.size_bytes,
        "plain_bytes": receipt.plain_bytes,
        "timestamp_min_ms": receipt.timestamp_min_ms,
        "timestamp_max_ms": receipt.timestamp_max_ms,
        "hash": receipt.content_hash,
    }


def _file(topic: str, fields: Fields) -> FileReceipt:
    return FileReceipt(
        name=_text(fields, "name"),
        range=_range(topic, [_integer(fields, name) for name in ("partition", "start", "end")]),
        first_offset=_integer(fields, "first_offset"),
        last_offset=_integer(fields, "last_offset"),
        records=_integer(fields, "records"),
        size_bytes=_integer(fields, "size_bytes"),
        plain_bytes=_integer(fields, "plain_bytes"),
        timestamp_min_ms=_integer(fields, "timestamp_min_ms"),
        timestamp_max_ms=_integer(fields, "timestamp_max_ms"),
        content_hash=_text(fields, "hash"),
    )


def _check_place(file: FileReceipt, covered: Sequence[LogRange]) -> None:
    """A file outside of what is covered would be passed over without a word."""
    within = file.range
    if not within.start <= file.first_offset <= file.last_offset < within.end:
        raise BadIndex(f"{file.name} is for {within} and holds {file.first_offset} to {file.last_offset}")
    of = within.topic_partition
    if not any(each.topic_partition == of and each.start <= within.start <= within.end <= each.end for each in covered):
        raise BadIndex(f"{file.name} is for {within}, which field 'covered' does not hold")


def _group_fields(group: GroupOffsets) -> Fields:
    topics = [
        {
            "topic": each.topic,
            "topic_id": each.topic_id,
            "partitions": list(each.partitions),
            "offsets": list(each.offsets),
            "leader_epochs": list(each.leader_epochs),
            "metadata": list(each.metadata),
        }
        for each in group.topics
    ]
    return {"group": group.group, "kind": group.kind, "state": group.state, "topics": topics}


def _group(fields: Fields) -> GroupOffsets:
    return GroupOffsets(
        group=_text(fields, "group"),
        kind=_text(fields, "kind"),
        state=_text(fields, "state"),
        topics=tuple(_topic_offsets(each) for each in _objects(fields, "topics")),
    )


def _topic_offsets(fields: Fields) -> TopicOffsets:
    partitions, offsets, epochs = (_integers(fields, name) for name in ("partitions", "offsets", "leader_epochs"))
    metadata = _texts(fields, "metadata")
    if not len(partitions) == len(offsets) == len(epochs) == len(metadata):
        raise BadIndex("columns of group offsets differ in length")
    try:
        return TopicOffsets(
            topic=_text(fields, "topic"),
            topic_id=_text(fields, "topic_id"),
            partitions=array("i", partitions),
            offsets=array("q", offsets),
            leader_epochs=array("i", epochs),
            metadata=tuple(metadata),
        )
    except OverflowError as error:
        raise BadIndex(f"group offsets: {error}") from error


def _range(topic: str, row: Sequence[int]) -> LogRange:
    if len(row) != 3 or not (row[0] >= 0 and 0 <= row[1] <= row[2]):
        raise BadIndex(f"{list(row)} is no range")
    return LogRange(topic=topic, partition=row[0], start=row[1], end=row[2])


def _checked(topic: str) -> str:
    try:
        return check_topic_name(topic)
    except BadName as error:
        raise BadIndex(error.message) from error


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else _wrong(name, "text")


def _integer(fields: Fields, name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int else _wrong(name, "an integer")


def _object(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, dict) else _wrong(name, "an object")


def _list(fields: Fields, name: str) -> Sequence[object]:
    value = fields.get(name)
    return value if isinstance(value, list) else _wrong(name, "a list")


def _objects(fields: Fields, name: str) -> Sequence[Fields]:
    return [each if isinstance(each, dict) else _wrong(name, "a list of objects") for each in _list(fields, name)]


def _texts(fields: Fields, name: str) -> Sequence[str]:
    return [each if isinstance(each, str) else _wrong(name, "a list of texts") for each in _list(fields, name)]


def _integers(fields: Fields, name: str) -> Sequence[int]:
    return _row(name, _list(fields, name))


def _rows(fields: Fields, name: str) -> Sequence[Sequence[int]]:
    return [
        _row(name, each if isinstance(each, list) else _wrong(name, "a list of rows")) for each in _list(fields, name)
    ]


def _row(name: str, values: Sequence[object]) -> Sequence[int]:
    return [each if type(each) is int else _wrong(name, "of integers") for each in values]


def _wrong(name: str, wanted: str) -> NoReturn:
    raise BadIndex(f"field {name!r} is not {wanted}")
