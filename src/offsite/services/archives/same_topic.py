"""Whether an archive that keeps no topic ids ends with a record of the topic that is to be exported into it.

A topic that was deleted and made anew has the old one's name and offsets of its own. Where an archive keeps ids, they
tell the two apart (`check_same_topics`). Where it keeps none, its last record is compared with what the source has at
that offset: one that differs is of another topic, and nothing is added behind it. Where the source has no record there,
as its retention took it, nothing is known; of a topic that the backup saw being made anew that is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from offsite.archives.archive import ArchiveWriter
from offsite.copy.chain import PartitionChain
from offsite.copy.export import ClusterRecordSource, ExportTask
from offsite.copy.plan import PARTITION_ERRORS
from offsite.copy.source_view import SourceView
from offsite.log.chunk import Hole
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.model.errors import DamagedArchive
from offsite.repository.commit import PartitionId
from offsite.stores.store import Store

RecordAt = Callable[[int], Record | None]
"""The record of a partition at an offset, whatever became of its transaction; None where there is none (any more)."""

_COMPARED_AT_ONCE = 8
_BEFORE = 10_000
"""Offsets in front of the wanted one from which is read: longer batches are rare, and cost a whole segment."""


def find_other_topics(
    going_on: Mapping[PartitionId, RecordAt], writer: ArchiveWriter, *, remade: Collection[str], same: set[PartitionId]
) -> Iterator[tuple[PartitionId, str]]:
    """Partitions that the archive must not go on with, each with the reason, out of `going_on`, of which it holds
    something already. `remade`: the topics that the backup knows to have been made anew. `same`: partitions that were
    compared before, to which those that are alike now are added."""
    to_compare = {partition: record_at for partition, record_at in going_on.items() if partition not in same}

    def compared(partition: PartitionId) -> str:
        return _difference(partition, to_compare[partition], writer, is_remade=partition.topic in remade)

    with ThreadPoolExecutor(max_workers=_COMPARED_AT_ONCE, thread_name_prefix="same-topic") as pool:
        for partition, why in zip(to_compare, pool.map(compared, to_compare), strict=True):
            if why:
                yield partition, f"{partition}: {why}; export it into another place"
            else:
                same.add(partition)


def backup_record_reader(chain: PartitionChain, store: Store) -> RecordAt:
    """The records of a partition of a backup. Raises what reading raises."""
    return partial(_record_of_backup, chain, store)


def cluster_record_reader(source: ClusterRecordSource, task: ExportTask) -> RecordAt:
    """The records of the partition of `task` in a cluster. Raises what reading raises."""
    return partial(_record_of_cluster, replace(source, read_committed=False), task)


def _difference(of: PartitionId, record_at: RecordAt, writer: ArchiveWriter, *, is_remade: bool) -> str:
    """Why the last record of the archive is not known to be of the partition; empty where it may be."""
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
        return f"the archive's last record, at offset {last.offset}, is of another topic of that name"
    if source_record is None and is_remade:
        return (
            f"the topic was deleted and made anew, and the backup has no record at offset {last.offset} to compare "
            "with the archive's last one"
        )
    return ""


def _is_same(archived: Record, record: Record) -> bool:
    """Archives of some tools do not tell null from empty, nor the times that brokers gave."""
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
