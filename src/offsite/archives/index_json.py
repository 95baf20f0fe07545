"""Indexes and manifests as JSON, written in one byte form and read strictly: one wrong field and nothing counts.

Both end with a digest of their own bytes, so that no bit of them turns unseen: of what they say depends which files
count, and which are removed.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from offsite.archives.archive import ArchiveTopic, FileReceipt
from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.index import ArchiveManifest, EarlierSettings, ExpiredFile, TopicIndex
from offsite.archives.index_fields import BadIndex, IndexObject, encoded, parsed, topic_name
from offsite.log.groups.offsets import NO_EPOCH, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange
from offsite.model.untrusted.bounds import MAX_PARTITIONS
from offsite.model.untrusted.digest import DIGEST_KEY

__all__ = ["BadIndex", "encode_index", "encode_manifest", "parse_index", "parse_manifest"]

_UNSEALED_MANIFEST = frozenset({"archive", "topics", "groups"})
_UNSEALED_INDEX = frozenset(
    {"topic", "topic_id", "partitions", "replication_factor", "configs", "covered", "losses", "files"}
)
_MAX_REPLICATION_FACTOR = (1 << 15) - 1
_MAX_EPOCH = (1 << 31) - 1


def encode_manifest(manifest: ArchiveManifest) -> bytes:
    groups = [_group_fields(manifest.groups[name]) for name in sorted(manifest.groups)]
    return encoded(
        {
            "archive": manifest.kind,
            "topics": sorted(manifest.topics),
            "groups": groups,
            "generations": dict(manifest.generations),
        }
    )


def parse_manifest(data: bytes) -> ArchiveManifest:
    """The manifest in `data`. Raises `BadIndex`."""
    item = parsed(data, unsealed=_UNSEALED_MANIFEST)
    groups = [_group(each) for each in item.children("groups")]
    topics = tuple(topic_name(topic) for topic in item.texts("topics"))
    by_name = {each.group: each for each in groups}
    if len(set(topics)) != len(topics) or len(by_name) != len(groups):
        raise BadIndex("a topic or a group is named twice")
    return ArchiveManifest(
        kind=item.text("archive"),
        topics=topics,
        groups=by_name,
        generations=dict(_counts(item, "generations")) if "generations" in item.fields else {},
        is_sealed=DIGEST_KEY in item.fields,
    )


def _group_fields(group: GroupOffsets) -> Mapping[str, object]:
    """Columns for each topic, as `GroupOffsets` holds them."""
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


def _group(item: IndexObject) -> GroupOffsets:
    return GroupOffsets(
        group=item.text("group"),
        kind=item.text("kind"),
        state=item.text("state"),
        topics=tuple(_topic_offsets(each) for each in item.children("topics")),
    )


def _topic_offsets(item: IndexObject) -> TopicOffsets:
    partitions = item.integers("partitions", most=MAX_PARTITIONS - 1)
    offsets = item.integers("offsets", least=-1)
    epochs = item.integers("leader_epochs", least=NO_EPOCH, most=_MAX_EPOCH)
    metadata = item.texts("metadata")
    if not len(partitions) == len(offsets) == len(epochs) == len(metadata):
        raise BadIndex("columns of group offsets differ in length")
    return TopicOffsets(
        topic=topic_name(item.text("topic")),
        topic_id=item.text("topic_id"),
        partitions=array("i", partitions),
        offsets=array("q", offsets),
        leader_epochs=array("i", epochs),
        metadata=metadata,
    )


def encode_index(index: TopicIndex) -> bytes:
    topic = index.topic
    return encoded(
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": dict(topic.configs),
            "covered": [[each.partition, each.start, each.end] for each in index.covered],
            "losses": dict(index.losses),
            "files": [_file_fields(receipt) for receipt in index.files],
            "generation": index.generation,
            **({"expired": [_expired_fields(each) for each in index.expired]} if index.expired else {}),
            **({"earlier": [_earlier_fields(then) for then in index.earlier]} if index.earlier else {}),
        }
    )


def parse_index(data: bytes, *, topic: str, layout: ArchiveLayout) -> TopicIndex:
    """The index of a topic in `data`. Raises `BadIndex`, also when it is another topic's, or lists files of names that
    offsite does not give."""
    item = parsed(data, unsealed=_UNSEALED_INDEX)
    if (named := item.text("topic")) != topic:
        raise BadIndex(f"it is of topic {named!r}")
    covered = [_range(topic, row) for row in item.rows("covered")]
    files = sorted((_file(topic, each) for each in item.children("files")), key=lambda each: each.range)
    _check_disjoint(covered, "field 'covered' is not in order")
    _check_disjoint([each.range for each in files], "files overlap")
    _check_places(files, covered)
    _check_names(files, layout)
    return TopicIndex(
        topic=_topic(topic, item),
        covered=tuple(covered),
        files=tuple(files),
        losses=_counts(item, "losses"),
        expired=tuple(_expired(topic, item, {each.name for each in files}, layout)),
        generation=item.count("generation") if "generation" in item.fields else 0,
        earlier=tuple(_earlier(topic, then) for then in item.children("earlier")) if "earlier" in item.fields else (),
        is_sealed=DIGEST_KEY in item.fields,
    )


def _earlier_fields(earlier: EarlierSettings) -> Mapping[str, object]:
    return {"configs": dict(earlier.configs), "ends": [list(end) for end in earlier.ends]}


def _earlier(topic: str, item: IndexObject) -> EarlierSettings:
    ends = (_range(topic, [*row[:1], 0, *row[1:]]) for row in item.rows("ends"))
    return EarlierSettings(configs=item.text_map("configs"), ends=tuple((span.partition, span.end) for span in ends))


def _expired_fields(file: ExpiredFile) -> Mapping[str, object]:
    return {"name": file.name, "size_bytes": file.size_bytes, "at_ms": file.at_ms}


def _expired(topic: str, item: IndexObject, listed: Collection[str], layout: ArchiveLayout) -> Iterator[ExpiredFile]:
    """They are deleted by their names: no other may be in this place than a file of the topic that does not count."""
    for each in item.children("expired") if "expired" in item.fields else ():
        name = each.text("name")
        own = layout.parse_own_file(name)
        if own is None or own.topic != topic or name in listed:
            raise BadIndex(f"{name!r} cannot have been taken out by retention")
        yield ExpiredFile(name=name, size_bytes=each.count("size_bytes"), at_ms=each.count("at_ms"))


def _topic(topic: str, item: IndexObject) -> ArchiveTopic:
    return ArchiveTopic(
        topic=topic,
        partitions=item.integer("partitions", least=0, most=MAX_PARTITIONS),
        replication_factor=item.integer("replication_factor", least=-1, most=_MAX_REPLICATION_FACTOR),
        configs=item.text_map("configs"),
        topic_id=item.text("topic_id") if "topic_id" in item.fields else "",
    )


def _counts(item: IndexObject, name: str) -> tuple[tuple[str, int], ...]:
    """An object of numbers as sorted pairs."""
    child = item.child(name)
    return tuple((key, child.count(key)) for key in sorted(child.fields))


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


def _file(topic: str, item: IndexObject) -> FileReceipt:
    return FileReceipt(
        name=item.text("name"),
        range=_range(topic, [item.count(name) for name in ("partition", "start", "end")]),
        first_offset=item.count("first_offset"),
        last_offset=item.count("last_offset"),
        records=item.count("records"),
        size_bytes=item.count("size_bytes"),
        plain_bytes=item.count("plain_bytes"),
        timestamp_min_ms=item.integer("timestamp_min_ms"),
        timestamp_max_ms=item.integer("timestamp_max_ms"),
        content_hash=item.text("hash"),
    )


def _check_disjoint(ranges: Sequence[LogRange], problem: str) -> None:
    """In order, and no offset in two of them."""
    for before, after in pairwise(ranges):
        if after < before or (after.partition == before.partition and after.start < before.end):
            raise BadIndex(f"{problem}: {after} after {before}")


def _check_places(files: Sequence[FileReceipt], covered: Sequence[LogRange]) -> None:
    """A file outside of what is covered would be passed over without a word. Both are in order."""
    rest = iter(covered)
    place = next(rest, None)
    for file in files:
        within = file.range
        if not within.start <= file.first_offset <= file.last_offset < within.end:
            raise BadIndex(f"{file.name} is for {within} and holds {file.first_offset} to {file.last_offset}")
        if not 0 < file.records <= file.last_offset - file.first_offset + 1:
            raise BadIndex(f"{file.name} has {file.records} records at {file.first_offset} to {file.last_offset}")
        while place is not None and (place.partition, place.end) < (within.partition, within.end):
            place = next(rest, None)
        if place is None or (place.partition, place.start) > (within.partition, within.start):
            raise BadIndex(f"{file.name} is for {within}, which field 'covered' does not hold")


def _check_names(files: Sequence[FileReceipt], layout: ArchiveLayout) -> None:
    """Another name may lead to a file of another partition, or out of the archive."""
    for file in files:
        if layout.parse_own_file(file.name) != (file.range.topic, file.range.partition, file.range.start):
            raise BadIndex(f"{file.name!r} is no name of a file for {file.range}")


def _range(topic: str, row: Sequence[int]) -> LogRange:
    if len(row) != 3 or not (row[0] < MAX_PARTITIONS and row[1] <= row[2]):
        raise BadIndex(f"{list(row)[:3]} is no range")
    return LogRange(topic=topic, partition=row[0], start=row[1], end=row[2])
