"""Checks that an archive without topic ids ends with a record of the topic to be exported.

A recreated topic has the old name and new offsets. In an archive with ids, the ids distinguish the topics
(`check_same_topics`). Without ids, the last archived record is compared with the source's record at the same offset: a
different record proves another topic, and nothing is added. If the source has no record there, because retention
deleted the record, nothing is known; for a topic recreated during the backup, unknown means refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from offsite.archives.archive import ArchiveWriter
from offsite.archives.export.task import ClusterRecordSource, ExportTask
from offsite.backup.copy_plan import PARTITION_ERRORS
from offsite.log.range import Hole, PartitionId
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.model.errors import DamagedArchive
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import SourceView
from offsite.stores.store import Store

RecordAt = Callable[[int], Record | None]
"""Returns the record of a partition at an offset, whatever the outcome of the transaction; None without a record."""

_COMPARED_AT_ONCE = 8
_BEFORE = 10_000
"""Reading starts this many offsets before the searched offset: longer batches are rare, and cost a whole segment."""


def find_other_topics(
    going_on: Mapping[PartitionId, RecordAt], writer: ArchiveWriter, *, remade: Collection[str], same: set[PartitionId]
) -> Iterator[tuple[PartitionId, str]]:
    """Yield partitions that the archive must not continue, with the reason. `going_on`: partitions with archived
    records. `remade`: topics recreated according to the backup. `same`: partitions compared before; equal partitions
    are added."""
    to_compare = {partition: record_at for partition, record_at in going_on.items() if partition not in same}

    def compared(partition: PartitionId) -> str:
        return _difference(partition, to_compare[partition], writer, is_remade=partition.topic in remade)

    with ThreadPoolExecutor(max_workers=_COMPARED_AT_ONCE, thread_name_prefix="same-topic") as pool:
        for partition, why in zip(to_compare, pool.map(compared, to_compare), strict=True):
            if why:
                yield partition, f"{partition}: {why}; export the topic into another place"
            else:
                same.add(partition)


def backup_record_reader(chain: PartitionChain, store: Store) -> RecordAt:
    """Return a reader for records of a backup's partition. Raises the errors of reading."""
    return partial(_record_of_backup, chain, store)


def cluster_record_reader(source: ClusterRecordSource, task: ExportTask) -> RecordAt:
    """Return a reader for records of the task's partition in a cluster. Raises the errors of reading."""
    return partial(_record_of_cluster, replace(source, read_committed=False), task)


def _difference(of: PartitionId, record_at: RecordAt, writer: ArchiveWriter, *, is_remade: bool) -> str:
    """Return why the last archived record may belong to another partition; empty if the record matches."""
    try:
        last = writer.last_record(of.topic_partition)
    except DamagedArchive as error:
        return f"the archive's last record cannot be read: {error.message}"
    if last is None:
        return ""
    try:
        source_record = record_at(last.offset)
    except PARTITION_ERRORS as error:
        return f"its record at offset {last.offset} cannot be compared with the archive's last one: {error.message}"
    if source_record is not None and not _is_same(last, source_record):
        return f"the archive's last record, at offset {last.offset}, belongs to another topic of the same name"
    if source_record is None and is_remade:
        return (
            f"the topic was deleted and created again, and the backup has no record at offset {last.offset} to "
            "compare with the archive's last one"
        )
    return ""


def _is_same(archived: Record, record: Record) -> bool:
    """Compare records. Archives of some tools mix null with empty, and drop the times given by brokers."""
    same_time = record.timestamp_type == LOG_APPEND_TIME or archived.timestamp_ms == record.timestamp_ms
    return same_time and (archived.key or b"", archived.value or b"") == (record.key or b"", record.value or b"")


def _record_of_backup(chain: PartitionChain, store: Store, offset: int) -> Record | None:
    near = tuple(
        segment for segment in chain.segments if segment.start <= offset <= max(segment.last_offset, segment.end - 1)
    )
    whole = replace(chain, segments=near, end=max(chain.end, offset + 1), until_ms=None)
    record = _read(whole, offset, offset - _BEFORE, store)
    return record or _read(whole, offset, 0, store)


def _read(chain: PartitionChain, offset: int, start: int, store: Store) -> Record | None:
    for batch in SourceView(chain, store, read_committed=False).batches(start=max(0, start), end=offset + 1):
        if batch.header.next_offset > offset:
            return next((record for record in batch.iterate() if record.offset == offset), None)
    return None


def _record_of_cluster(source: ClusterRecordSource, task: ExportTask, offset: int) -> Record | None:
    for batch_or_hole in source.records(task, replace(task.range, start=offset, end=offset + 1)):
        if not isinstance(batch_or_hole, Hole):
            return next((record for record in batch_or_hole.records() if record.offset == offset), None)
    return None
