"""Retention of the archives indexed by offsite (Avro, Parquet, JSON lines).

The index of a topic is written without the files, and records the removed files with the time; the objects are deleted
later, and only the recorded objects. An export may write the same index at that moment: in a folder the lock keeps
either out, and an object store compares the replaced bytes with the bytes read, for both. Retention is refused for a
store without comparison. The manifest stays unchanged, since an index may be newer than the manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.archives.archive import FileReceipt
from offsite.archives.indexed.archive import IndexedArchive
from offsite.archives.indexed.index import TopicIndex
from offsite.archives.retention import (
    ArchiveFile,
    ExpiredObject,
    ExpiringFile,
    LastMessage,
    are_first,
    group_by_partition,
)
from offsite.archives.retention_source import TopicSettings
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveBusy


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRetention:
    """The `RetentionArchive` of an indexed format."""

    archive: IndexedArchive

    def partitions(self) -> Sequence[Sequence[ArchiveFile]]:
        indexes = self.archive.stored_indexes().values()
        return tuple(files for index in indexes for files in group_by_partition(tuple(_files(index))))

    def settings(self) -> Mapping[str, TopicSettings]:
        indexes = self.archive.stored_indexes()
        return {
            name: TopicSettings(topic_id=index.topic.topic_id, configs=dict(index.topic.configs), earlier=index.earlier)
            for name, index in indexes.items()
            if index.is_sealed
        }

    def last_message(self, file: ArchiveFile) -> LastMessage:
        """Called for an index without digest only: the object's own metadata counts."""
        if (at_ms := self.archive.files.last_message_ms(file.name)) is not None:
            return LastMessage(at_ms=at_ms, end=file.end)
        return LastMessage(at_ms=None, unknown="its time cannot be verified: the index has no digest")

    def forget(self, going: Sequence[ExpiringFile], *, now_ms: int) -> Sequence[ExpiredObject]:
        for topic in sorted({expiring.file.partition.topic for expiring in going}):
            of_topic = [expiring for expiring in going if expiring.file.partition.topic == topic]

            def shortened(index: TopicIndex, of_topic: Sequence[ExpiringFile] = of_topic) -> TopicIndex:
                if not are_first(of_topic, tuple(group_by_partition(tuple(_files(index))))):
                    raise ArchiveBusy(f"the index of {index.topic.topic} has changed since the plan", hint="plan again")
                return index.without({expiring.file.name for expiring in of_topic}, at_ms=now_ms)

            self.archive.rewrite(topic, shortened)
        return ()

    def expired(self) -> Sequence[ExpiredObject]:
        return tuple(
            expired_object
            for index in self.archive.stored_indexes().values()
            for expired_object in self._expired(index)
        )

    def settle(self, gone: Collection[str], *, before_ms: int) -> None:  # noqa: ARG002  # the names suffice
        def settled(index: TopicIndex) -> TopicIndex:
            return replace(
                index, expired=tuple(expired_file for expired_file in index.expired if expired_file.name not in gone)
            )

        for topic, index in self.archive.stored_indexes().items():
            if any(expired_file.name in gone for expired_file in index.expired):
                self.archive.rewrite(topic, settled)

    def _expired(self, index: TopicIndex) -> Iterator[ExpiredObject]:
        for expired_file in index.expired:
            name = self.archive.layout.parse_own_file(expired_file.name)
            partition = TopicPartition(topic=index.topic.topic, partition=name.partition if name else 0)
            yield ExpiredObject(
                key=expired_file.name,
                partition=partition,
                size_bytes=expired_file.size_bytes,
                since_ms=expired_file.at_ms,
            )


def _files(index: TopicIndex) -> Iterator[ArchiveFile]:
    for file in index.files:
        yield ArchiveFile(
            name=file.name,
            partition=file.range.topic_partition,
            start=file.range.start,
            end=file.range.end,
            size_bytes=file.size_bytes,
            keys=(file.name,),
            last_message=_last_message(file) if index.is_sealed else None,
        )


def _last_message(file: FileReceipt) -> LastMessage:
    if file.timestamp_min_ms < 0:
        return LastMessage(at_ms=None, unknown="it has records without a time")
    return LastMessage(at_ms=file.timestamp_max_ms, end=file.range.end)
