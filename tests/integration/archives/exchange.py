"""A repository and archives beside it: backups made of given batches, exported, imported, and read record by record."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsite.archives.export.plan import ExportRequest
from offsite.archives.export.run import ExportJob, ExportResult, export_of_backup, open_target
from offsite.archives.formats import ReadOptions, WriteOptions
from offsite.archives.import_run import EVERYTHING, ImportRequest, ImportResult, plan_import, run_import
from offsite.archives.inspection import open_source
from offsite.engine.runner import Runner
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange, PartitionId
from offsite.log.records.record import Record
from offsite.model.selection import TopicSelection
from offsite.points.point_in_time import PointInTime, select_chains
from offsite.points.source_view import SourceView
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.snapshots.group_snapshot import put_group_snapshot
from offsite.restore.options import RestoreWords, parse_restore
from tests.batches import chunk_of
from tests.inline_runner import InlineRunner

ALL_FORMATS = ("avro", "kafka-backup", "osodevops", "parquet", "jsonl")
ON_BUCKETS = tuple(name for name in ALL_FORMATS if name != "kafka-backup")
ORIGINAL = "original"
SHAPE = TopicShape(
    topic="orders", topic_id="id-orders", partitions=2, replication_factor=3, configs=(("retention.ms", "-1"),)
)

Content = Mapping[tuple[str, int], Sequence[Record]]
"""The records of each partition that holds any."""

_writers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSegment:
    """Batches of a partition of `SHAPE`, as the segment of offsets `[start, end)`."""

    partition: int
    start: int
    end: int
    batches: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """`places` is where archives go: a folder or a URL."""

    repository: Repository
    places: str
    runner: Runner = field(default_factory=InlineRunner)

    def place(self, name: str) -> str:
        base, mark, query = self.places.partition("?")
        return f"{base}/{name}{mark}{query}"

    def commit(self, *segments: NewSegment, groups: Mapping[str, GroupOffsets] | None = None) -> Backup:
        """Add one commit to the backup `original`."""
        backup = self.repository.create_backup(ORIGINAL, cluster_id="cluster", selection=TopicSelection(include=("*",)))
        base = backup.state()
        changes = CommitChanges(
            segments=tuple(stored for each in segments for stored in self._store(backup, each)),
            positions=tuple(Position(partition_id=_id(each.partition), log_start=0, end=each.end) for each in segments),
            topics=(SHAPE,),
            groups=put_group_snapshot(backup.store, backup.layout, base.seq + 1, groups) if groups else None,
        )
        backup.commit(changes, base=base, writer=f"writer-{next(_writers)}")
        return backup

    def job(self, format_name: str, place: str, *, options: WriteOptions | None = None, **words: object) -> ExportJob:
        target = open_target(format_name, self.place(place), options or WriteOptions())
        request = ExportRequest(point=parse_restore(RestoreWords(**words)))  # type: ignore[typeddict-item]
        return export_of_backup(self.repository.backup(ORIGINAL), target, request)

    def export(
        self, format_name: str, place: str, *, options: WriteOptions | None = None, **words: object
    ) -> ExportResult:
        job = self.job(format_name, place, options=options, **words)
        return job.run(job.plan(), self.runner)

    def bring_in(
        self, format_name: str, place: str, backup: str, *, skip_damaged: bool = False, **options: object
    ) -> ImportResult:
        source = open_source(format_name, self.place(place), ReadOptions(**options))  # type: ignore[arg-type]
        request = ImportRequest(backup=backup, format=format_name, place=source.place, skip_damaged=skip_damaged)
        plan = plan_import(self.repository, source.reader, request)
        return run_import(plan, repository=self.repository, reader=source.reader, runner=self.runner)

    def content(self, backup: str, *, commit: int | None = None) -> Content:
        """As a consumer with read_committed sees it."""
        opened = self.repository.backup(backup)
        state = opened.state() if commit is None else opened.state_at(commit)
        found = {}
        for chain in select_chains(PointInTime(commit=state, state=state), EVERYTHING).copyable().chains:
            view = SourceView(chain, self.repository.store, read_committed=True)
            found[chain.source.topic, chain.source.partition] = [r for b in view.batches() for r in b.records()]
        return {key: records for key, records in found.items() if records}

    def _store(self, backup: Backup, new: NewSegment) -> tuple[object, ...]:
        log_range = LogRange(topic=SHAPE.topic, partition=new.partition, start=new.start, end=new.end)
        with SegmentWriter(
            store=backup.store, layout=backup.layout, log_range=log_range, topic_id=SHAPE.topic_id
        ) as writer:
            writer.append(chunk_of(b"".join(new.batches)))
            return writer.close()


def group(name: str, *offsets: tuple[int, int]) -> dict[str, GroupOffsets]:
    """One group with (partition, offset) on the topic."""
    rows = [CommittedOffset(partition=partition, offset=offset) for partition, offset in offsets]
    return {name: GroupOffsets(group=name, topics=(TopicOffsets.of(SHAPE.topic, rows, topic_id=SHAPE.topic_id),))}


def committed(groups: Mapping[str, GroupOffsets]) -> dict[str, dict[int, int]]:
    return {name: found.topics[0].by_partition() for name, found in groups.items()}


def _id(partition: int) -> PartitionId:
    return PartitionId(topic=SHAPE.topic, topic_id=SHAPE.topic_id, partition=partition)
