"""Encodes and parses indexes and manifests as JSON. A value has a single byte form; a single wrong field invalidates
the file.

Both files end with a digest of their own bytes, so every flipped bit is found: the contents decide about valid files
and about deletions. Fields are read strictly: sealed bytes, known members, numbers within Kafka's limits.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Self

from offsite.archives.archive import ArchiveTopic, FileReceipt
from offsite.archives.indexed.index import ArchiveManifest, EarlierSettings, ExpiredFile, TopicIndex
from offsite.archives.indexed.layout import ArchiveLayout
from offsite.log.group_offsets import NO_EPOCH, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange
from offsite.model.bounds import MAX_EPOCH, MAX_OFFSET, MAX_PARTITIONS
from offsite.model.errors import BadName
from offsite.model.names import check_topic_name
from offsite.model.untrusted.bounded_json import (
    DIGEST_KEY,
    UNAMBIGUOUS,
    BadJson,
    DigestState,
    check_digest,
    decode_object,
    with_digest,
)
from offsite.model.untrusted.json_object import JsonObject, JsonValue

FORMAT = 1
"""The version of both files. New fields do not change the version: readers ignore new fields vouched for by the
digest."""
_UNSEALED_MANIFEST = frozenset({"archive", "topics", "groups"})
_UNSEALED_INDEX = frozenset(
    {"topic", "topic_id", "partitions", "replication_factor", "configs", "covered", "losses", "files"}
)
_MAX_REPLICATION_FACTOR = (1 << 15) - 1


class BadIndex(ValueError):
    """The bytes are no index. `position`: where parsing failed, 0 when the whole file is wrong."""

    def __init__(self, problem: str, *, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


class IndexObject(JsonObject):
    """An object of an index. Lists are mandatory; errors name the bounds of a number."""

    __slots__ = ()
    ANY_TEXT = True

    def integers(self, name: str, *, least: int = 0, most: int = MAX_OFFSET) -> tuple[int, ...]:
        return tuple(self._bounded(name, value, least, most) for value in self._list(name))

    def rows(self, name: str) -> list[list[int]]:
        """Return a list of lists of integers; no integer is below 0."""
        values = self._list(name)
        rows = [row for row in values if isinstance(row, list)]
        if len(rows) != len(values):
            raise self.wrong(name, "a list of rows")
        return [[self._bounded(name, value, 0, MAX_OFFSET) for value in row] for row in rows]

    def _bounded(self, name: str, value: JsonValue, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            raise self._no_integer(name, value, least, most)
        return value

    def _item(self, name: str, value: JsonValue) -> Self:
        if not isinstance(value, dict):
            raise self.wrong(name, "a list of objects")
        return self._object(name, value)

    def _list(self, name: str) -> Sequence[JsonValue]:
        if name not in self.fields:
            raise self.wrong(name, "a list")
        return super()._list(name)

    def _no_integer(self, name: str, value: JsonValue, least: int, most: int) -> Exception:
        return self.wrong(name, "an integer" if type(value) is not int else f"from {least} to {most}")


def encode_sealed(fields: Mapping[str, object]) -> bytes:
    return with_digest((json.dumps({"format": FORMAT, **fields}, sort_keys=True, indent=1) + "\n").encode("ascii"))


def parse_sealed(data: bytes, *, unsealed: frozenset[str]) -> IndexObject:
    """Parse sealed bytes. `unsealed`: the members of files written before digests existed. Any further member shows
    that a digest existed, and that the digest or its name was changed. Raises `BadIndex`."""
    try:
        document = IndexObject(fields=decode_object(data, decoder=UNAMBIGUOUS), damaged=BadIndex)
    except BadJson as error:
        raise BadIndex(str(error), position=error.position) from error
    match check_digest(data):
        case DigestState.WRONG:
            raise BadIndex("its bytes do not match its digest")
        case DigestState.ABSENT if other := sorted(document.fields.keys() - unsealed - {"format"}):
            raise BadIndex(f"has {other[0]!r}, but no matching {DIGEST_KEY} at its end")
        case _:
            pass
    if (version := document.count("format")) != FORMAT:
        raise BadIndex(f"format {version}; this offsite reads {FORMAT}")
    return document


def parse_topic_name(topic: str) -> str:
    """Parse the field `topic`, a name accepted by Kafka."""
    try:
        return check_topic_name(topic)
    except BadName as error:
        raise BadIndex(error.message) from error


def encode_manifest(manifest: ArchiveManifest) -> bytes:
    groups = [_group_fields(manifest.groups[name]) for name in sorted(manifest.groups)]
    return encode_sealed(
        {
            "archive": manifest.kind,
            "topics": sorted(manifest.topics),
            "groups": groups,
            "generations": dict(manifest.generations),
        }
    )


def parse_manifest(data: bytes) -> ArchiveManifest:
    """Parse the manifest in `data`. Raises `BadIndex`."""
    document = parse_sealed(data, unsealed=_UNSEALED_MANIFEST)
    groups = [_group(group_document) for group_document in document.children("groups")]
    topics = tuple(parse_topic_name(topic) for topic in document.texts("topics"))
    by_name = {group.group: group for group in groups}
    if len(set(topics)) != len(topics) or len(by_name) != len(groups):
        raise BadIndex("a topic or group is listed twice")
    return ArchiveManifest(
        kind=document.text("archive"),
        topics=topics,
        groups=by_name,
        generations=dict(_counts(document, "generations")) if "generations" in document.fields else {},
        is_sealed=DIGEST_KEY in document.fields,
    )


def _group_fields(group: GroupOffsets) -> Mapping[str, object]:
    """Return columns per topic, as in `GroupOffsets`."""
    topics = [
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "partitions": list(topic.partitions),
            "offsets": list(topic.offsets),
            "leader_epochs": list(topic.leader_epochs),
            "metadata": list(topic.metadata),
        }
        for topic in group.topics
    ]
    return {"group": group.group, "kind": group.kind, "state": group.state, "topics": topics}


def _group(document: IndexObject) -> GroupOffsets:
    return GroupOffsets(
        group=document.text("group"),
        kind=document.text("kind"),
        state=document.text("state"),
        topics=tuple(_topic_offsets(topic_document) for topic_document in document.children("topics")),
    )


def _topic_offsets(document: IndexObject) -> TopicOffsets:
    partitions = document.integers("partitions", most=MAX_PARTITIONS - 1)
    offsets = document.integers("offsets", least=-1)
    epochs = document.integers("leader_epochs", least=NO_EPOCH, most=MAX_EPOCH)
    metadata = document.texts("metadata")
    if not len(partitions) == len(offsets) == len(epochs) == len(metadata):
        raise BadIndex("columns of group offsets differ in length")
    return TopicOffsets(
        topic=parse_topic_name(document.text("topic")),
        topic_id=document.text("topic_id"),
        partitions=array("i", partitions),
        offsets=array("q", offsets),
        leader_epochs=array("i", epochs),
        metadata=metadata,
    )


def encode_index(index: TopicIndex) -> bytes:
    topic = index.topic
    return encode_sealed(
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": dict(topic.configs),
            "covered": [[log_range.partition, log_range.start, log_range.end] for log_range in index.covered],
            "losses": dict(index.losses),
            "files": [_file_fields(receipt) for receipt in index.files],
            "generation": index.generation,
            **({"expired": [_expired_fields(expired_file) for expired_file in index.expired]} if index.expired else {}),
            **({"earlier": [_earlier_fields(settings) for settings in index.earlier]} if index.earlier else {}),
        }
    )


def parse_index(data: bytes, *, topic: str, layout: ArchiveLayout) -> TopicIndex:
    """Parse the index of a topic. Raises `BadIndex`, also for the index of another topic, and for file names not given
    by offsite."""
    document = parse_sealed(data, unsealed=_UNSEALED_INDEX)
    if (named := document.text("topic")) != topic:
        raise BadIndex(f"it is of topic {named!r}")
    covered = [_range(topic, row) for row in document.rows("covered")]
    files = sorted(
        (_file(topic, file_document) for file_document in document.children("files")), key=lambda file: file.range
    )
    _check_disjoint(covered, "field 'covered' is not in order")
    _check_disjoint([file.range for file in files], "files overlap")
    _check_places(files, covered)
    _check_names(files, layout)
    return TopicIndex(
        topic=_topic(topic, document),
        covered=tuple(covered),
        files=tuple(files),
        losses=_counts(document, "losses"),
        expired=tuple(_expired(topic, document, {file.name for file in files}, layout)),
        generation=document.count("generation") if "generation" in document.fields else 0,
        earlier=tuple(_earlier(topic, settings_document) for settings_document in document.children("earlier"))
        if "earlier" in document.fields
        else (),
        is_sealed=DIGEST_KEY in document.fields,
    )


def _earlier_fields(earlier: EarlierSettings) -> Mapping[str, object]:
    return {"configs": dict(earlier.configs), "ends": [list(end) for end in earlier.ends]}


def _earlier(topic: str, document: IndexObject) -> EarlierSettings:
    ends = (_range(topic, [*row[:1], 0, *row[1:]]) for row in document.rows("ends"))
    return EarlierSettings(
        configs=document.text_map("configs"), ends=tuple((span.partition, span.end) for span in ends)
    )


def _expired_fields(file: ExpiredFile) -> Mapping[str, object]:
    return {"name": file.name, "size_bytes": file.size_bytes, "at_ms": file.at_ms}


def _expired(
    topic: str, document: IndexObject, listed: Collection[str], layout: ArchiveLayout
) -> Iterator[ExpiredFile]:
    """Parse expired files. Retention deletes by these names, so only files of the topic outside the index are
    accepted."""
    for file_document in document.children("expired") if "expired" in document.fields else ():
        name = file_document.text("name")
        file_name = layout.parse_own_file(name)
        if file_name is None or file_name.topic != topic or name in listed:
            raise BadIndex(f"{name!r} cannot have been taken out by retention")
        yield ExpiredFile(name=name, size_bytes=file_document.count("size_bytes"), at_ms=file_document.count("at_ms"))


def _topic(topic: str, document: IndexObject) -> ArchiveTopic:
    return ArchiveTopic(
        topic=topic,
        partitions=document.integer("partitions", least=0, most=MAX_PARTITIONS),
        replication_factor=document.integer("replication_factor", least=-1, most=_MAX_REPLICATION_FACTOR),
        configs=document.text_map("configs"),
        topic_id=document.text("topic_id") if "topic_id" in document.fields else "",
    )


def _counts(document: IndexObject, name: str) -> tuple[tuple[str, int], ...]:
    """Parse an object of numbers as sorted pairs."""
    child = document.child(name)
    return tuple((key, child.count(key)) for key in child.names(name))


def _file_fields(receipt: FileReceipt) -> Mapping[str, object]:
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


def _file(topic: str, document: IndexObject) -> FileReceipt:
    return FileReceipt(
        name=document.text("name"),
        range=_range(topic, [document.count(name) for name in ("partition", "start", "end")]),
        first_offset=document.count("first_offset"),
        last_offset=document.count("last_offset"),
        records=document.count("records"),
        size_bytes=document.count("size_bytes"),
        plain_bytes=document.count("plain_bytes"),
        timestamp_min_ms=document.integer("timestamp_min_ms"),
        timestamp_max_ms=document.integer("timestamp_max_ms"),
        content_hash=document.text("hash"),
    )


def _check_disjoint(ranges: Sequence[LogRange], problem: str) -> None:
    """Check order, and that no offset is in two ranges."""
    for before, after in pairwise(ranges):
        if after < before or (after.partition == before.partition and after.start < before.end):
            raise BadIndex(f"{problem}: {after} after {before}")


def _check_places(files: Sequence[FileReceipt], covered: Sequence[LogRange]) -> None:
    """Check that every file is covered: readers would silently ignore an uncovered file. Both sequences are in
    order."""
    remaining = iter(covered)
    place = next(remaining, None)
    for file in files:
        within = file.range
        if not within.start <= file.first_offset <= file.last_offset < within.end:
            raise BadIndex(f"{file.name} is for {within} but has {file.first_offset} to {file.last_offset}")
        if not 0 < file.records <= file.last_offset - file.first_offset + 1:
            raise BadIndex(f"{file.name} has {file.records} records at {file.first_offset} to {file.last_offset}")
        while place is not None and (place.partition, place.end) < (within.partition, within.end):
            place = next(remaining, None)
        if place is None or (place.partition, place.start) > (within.partition, within.start):
            raise BadIndex(f"{file.name} is for {within}, which is missing in field 'covered'")


def _check_names(files: Sequence[FileReceipt], layout: ArchiveLayout) -> None:
    """Check names: a wrong name may lead to a file of another partition, or out of the archive."""
    for file in files:
        if layout.parse_own_file(file.name) != (file.range.topic, file.range.partition, file.range.start):
            raise BadIndex(f"{file.name!r} is not a file name for {file.range}")


def _range(topic: str, row: Sequence[int]) -> LogRange:
    if len(row) != 3 or not (row[0] < MAX_PARTITIONS and row[1] <= row[2]):
        raise BadIndex(f"{list(row)[:3]} is not a range")
    return LogRange(topic=topic, partition=row[0], start=row[1], end=row[2])
