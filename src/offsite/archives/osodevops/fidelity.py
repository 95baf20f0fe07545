"""What an archive of the tool cannot tell about its source: a sentence each, by what the manifest gives away. Pure.

The manifest does not name the version that wrote it; `sha256` of segments is there from 0.21 on.
"""

from __future__ import annotations

from collections.abc import Iterable

from offsite.archives.osodevops.manifest import Manifest, ManifestPartition, ManifestTopic
from offsite.log.range import Span, TopicPartition, uncovered
from offsite.log.records.record import Record
from offsite.model.cleanup_policy import is_compacted

__all__ = ["fidelity_of", "is_control_like"]

ALWAYS = (
    "timestamp types are unknown: CreateTime is assumed, and the times of LogAppendTime topics are their producers'",
    "leader epochs, producer ids, batch boundaries, transactions and topic ids are not kept",
    "header names were passed through UTF-8",
    "committed offsets of groups are kept without metadata and leader epochs, and not at one moment with the records",
    "the tool keeps no checksum of its manifest, group snapshot and JSON segments: nothing vouches for what they say",
    "up to version 0.23 of the tool, headers of one name were reduced to the last, and their order may have changed",
    "up to version 0.24 of the tool, records of aborted transactions and transaction markers may be among the records",
    "up to version 0.24 of the tool, its checkpoint could pass records that it had not stored",
)
NULL_HEADERS = "up to version 0.17 of the tool, a null header value was stored as an empty one"
NO_CONFIGS = "configurations of topics are not kept"
NO_CLUSTER = "the source cluster is not named"
_CONTROL_TYPES = (b"\0\0", b"\0\1")


def fidelity_of(manifest: Manifest) -> list[str]:
    is_recent = any(segment.sha256 for segment in manifest.segments())
    sentences = [*ALWAYS, *(() if is_recent else (NULL_HEADERS,))]
    if not any(topic.configs for topic in manifest.topics):
        sentences.append(NO_CONFIGS)
    if not manifest.cluster_id:
        sentences.append(NO_CLUSTER)
    return sentences + [sentence for topic in manifest.topics for sentence in _breaks(topic)]


def is_control_like(record: Record) -> bool:
    """Whether a record looks like a transaction marker: the tool up to 0.24 stored those among the records."""
    key, value = record.key, record.value
    return (
        key is not None
        and value is not None
        and len(key) == 4
        and len(value) == 6
        and key[:2] == value[:2] == b"\0\0"
        and key[2:] in _CONTROL_TYPES
        and not record.headers
    )


def _breaks(topic: ManifestTopic) -> Iterable[str]:
    """A sentence for each partition whose segments do not follow each other; a compacted topic has the right to."""
    if is_compacted(dict(topic.configs)):
        return
    for partition in topic.partitions:
        missing = list(_missing(partition))
        if missing:
            where = TopicPartition(topic=topic.topic, partition=partition.partition)
            count = sum(end - start for start, end in missing)
            yield (
                f"{where}: {count} offsets between segments are in no file, first {missing[0][0]} to "
                f"{missing[0][1] - 1}: transaction markers, compaction, or records that the tool lost"
            )


def _missing(partition: ManifestPartition) -> Iterable[Span]:
    known = partition.spans()
    return uncovered(known[0][0], max(end for _, end in known), known) if known else ()
