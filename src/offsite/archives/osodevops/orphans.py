"""Segments that no manifest lists: a crash of the tool leaves them behind. Their headers say what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from offsite.archives.archive import Damage, LostAt, OnDamage
from offsite.archives.files import Files
from offsite.archives.osodevops.manifest import ListedSegment, Manifest, ManifestPartition, ManifestTopic
from offsite.archives.osodevops.place import segment_partition
from offsite.archives.osodevops.segment_file import segment_at
from offsite.log.range import TopicPartition
from offsite.model.untrusted.whole_number import whole_number

__all__ = ["adopted", "find_orphans"]


def find_orphans(keys: Iterable[str], manifest: Manifest) -> list[str]:
    listed = {segment.key for segment in manifest.segments()}
    return sorted(key for key in keys if key not in listed and segment_partition(key, manifest.prefix))


def adopted(files: Files, manifest: Manifest, orphans: Mapping[str, int], on_damage: OnDamage) -> Manifest:
    """The manifest as if it listed these files (key → size) too."""
    found: dict[TopicPartition, list[ListedSegment]] = {}
    for key, size_bytes in orphans.items():
        segment, of = segment_at(files, key, size_bytes), segment_partition(key, manifest.prefix)
        if segment is None or of is None:
            problem = "is not listed, and no segment by its first bytes"
            on_damage(Damage(file=key, position=0, problem=problem, lost_at=_lost_at(key, of)))
        else:
            found.setdefault(of, []).append(segment)
    topics = {topic.topic: topic for topic in manifest.topics}
    for of, segments in sorted(found.items()):
        known = topics.get(of.topic) or ManifestTopic(topic=of.topic, partition_count=0, partitions=())
        topics[of.topic] = _joined(known, of.partition, segments)
    return replace(manifest, topics=tuple(topics.values()))


def _lost_at(key: str, of: TopicPartition | None) -> LostAt | None:
    """The offset that the name of a segment says it begins at."""
    start = re.search(r"/segment-(\d+)", key)
    offset = whole_number(start[1]) if start else None
    return LostAt(topic=of.topic, partition=of.partition, offset=offset) if of and offset is not None else None


def _joined(topic: ManifestTopic, number: int, segments: Sequence[ListedSegment]) -> ManifestTopic:
    partitions = {partition.partition: partition for partition in topic.partitions}
    known = partitions.get(number) or ManifestPartition(partition=number, segments=())
    partitions[number] = replace(known, segments=tuple(sorted((*known.segments, *segments))))
    return replace(
        topic,
        partition_count=max(topic.partition_count, number + 1),
        partitions=tuple(partitions[each] for each in sorted(partitions)),
    )
