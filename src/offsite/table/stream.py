"""`spark.readStream.format("offsite")`: a backup as a stream of rows, commit by commit. The stream's offset is a commit
number.

A micro-batch holds rows visible to a consumer after its last commit and not visible before its first: the rows of the
segments added by the commits, and, read committed, rows of earlier segments whose transactions the commits ended. A
micro-batch is the same at every read, so a query that restarts from its checkpoint neither loses nor repeats rows. Rows
are read from the segments that hold them now, not from the segments listed by the commits: the latter may have been
rolled up, and collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from offsite.engine.meter import count_items
from offsite.log.batch import BatchHeader
from offsite.log.markers import Marker
from offsite.log.range import Span
from offsite.log.records.record_arrow import ArrowColumns, null_out_of_range_times
from offsite.model.errors import BadOption, DamagedCommit
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.repository.backup import Backup
from offsite.repository.commit import damaged_commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.coverage import Origins, find_range_origins
from offsite.repository.fold import fold
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.table.options import BATCH_OPTIONS, LATEST, TableOptions, WithoutSecrets
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import scans_of, with_commits
from offsite.table.stream_plan import EndedTask, StreamSelection, StreamTask, plan_micro_batch

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_COMMIT = "commit"


def scan_ended(task: EndedTask, log: CommitLog, *, with_commit: bool) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of `log.record_arrow.arrow_schema`, in offset order. Raises `DamagedObject`, and the store's
    errors.

    A marker ends everything that the producer wrote since its previous marker. The indexes of earlier segments tell the
    previous marker, newest segment first; usually the first segment suffices. Only a producer that never ended a
    transaction before needs further segments, and only if its first batch in the new segments does not have the
    sequence number 0.
    """
    return null_out_of_range_times(_scan_ended(task, log, with_commit=with_commit))


def _scan_ended(task: EndedTask, log: CommitLog, *, with_commit: bool) -> Iterator[pa.RecordBatch]:
    floors = _floors(task, log)
    columns = ArrowColumns(topic=task.partition.topic, partition=task.partition.partition)
    lowest = min(floors.values(), default=task.start)
    scans = [scan for scan in scans_of(task.earlier, end=task.start) if scan.segment.last_offset >= lowest]
    if not floors or not scans:
        return
    origins = _origins(task, (max(lowest, scans[0].start), task.start), log) if with_commit else None
    for scan in scans:
        record_bounds = RecordBounds(scan.start, scan.end)
        start = min(lowest, scan.segment.lowest_offset) if scan.segment.start >= lowest else lowest
        for data, header in _batches(scan.segment, log, start=start, end=task.start):
            if header.is_transactional and header.last_offset >= floors.get(header.producer_id, header.next_offset):
                columns.add_records(
                    VisibleBatch(data, header, record_bounds).records(),
                    commit=None if origins is None else origins.at(header.base_offset),
                )
                if columns.is_full and (full := columns.take()) is not None:
                    yield full
    if (remaining := columns.take()) is not None:
        yield remaining


def _origins(task: EndedTask, span: Span, log: CommitLog) -> Origins | None:
    """Search backwards: a recent commit before the micro-batch most likely brought the records."""
    spans = [(segment.start, segment.end) for segment in task.earlier]
    return find_range_origins(log.read_back(upto=task.before), task.partition, span=span, held_spans=spans)


def _floors(task: EndedTask, log: CommitLog) -> dict[int, int]:
    """Return producer id → the lowest offset of the producer's records, below the micro-batch's start, that were
    committed in the micro-batch."""
    # 1. Find the first marker of every producer in the micro-batch.
    first: dict[int, tuple[Segment, Marker]] = {}
    for segment in task.new:
        for marker in chain.from_iterable(SegmentReader(store=log.store, segment=segment).markers()):
            if task.start <= marker.offset < task.end:
                first.setdefault(marker.producer_id, (segment, marker))
    # 2. Keep producers with a commit whose records may begin below the micro-batch.
    pending = {
        producer
        for producer, (segment, marker) in first.items()
        if marker.committed and not _begins(segment, marker, task, log)
    }
    # 3. Find the previous marker of every such producer, in the newest segment first.
    floors: dict[int, int] = {}
    for segment in reversed(task.earlier):
        if not pending - set(floors):
            break
        markers = chain.from_iterable(SegmentReader(store=log.store, segment=segment).markers())
        last = {
            marker.producer_id: marker.offset
            for marker in markers
            if marker.producer_id in pending and marker.offset < task.start
        }
        floors |= {producer: offset + 1 for producer, offset in last.items() if producer not in floors}
    return {producer: max(task.floor, floors.get(producer, 0)) for producer in pending}


def _begins(segment: Segment, marker: Marker, task: EndedTask, log: CommitLog) -> bool:
    """Whether the producer's first batch in the micro-batch is the first batch ever: no records lie before."""
    if marker.first_offset < task.start:
        return False  # the producer has data below, or none in the segment's index
    batches = _batches(segment, log, start=marker.first_offset, end=marker.first_offset + 1)
    return any(header.base_sequence == 0 and header.producer_id == marker.producer_id for _, header in batches)


def _batches(
    segment: Segment, log: CommitLog, *, start: int, end: int | None = None
) -> Iterator[tuple[memoryview, BatchHeader]]:
    for chunk in count_items(SegmentReader(store=log.store, segment=segment).chunks(start=start, end=end)):
        for header in chunk.batches:
            yield chunk.data, header


StreamOffset = dict[str, int]
"""`{"commit": N}`: everything made visible by commits up to N has been read."""


class StreamPartition(InputPartition):
    """One task of a micro-batch with the log, as sent to a worker."""

    def __init__(self, task: StreamTask, log: CommitLog, *, with_commit: bool) -> None:
        super().__init__(task)
        self.task, self.log, self.with_commit = task, WithoutSecrets(log), with_commit


class TableStream(DataSourceStreamReader):
    """A stream that follows one backup. Spark keeps the offset; the object's own memory only saves repeated reads of
    commits."""

    def __init__(self, options: TableOptions, backup: Backup) -> None:
        if unusable := sorted(options.option_names & set(BATCH_OPTIONS)):
            raise BadOption(f"option {unusable[0]} is not for streams", hint="set the start with startingCommit")
        self._options, self._here = options, WithoutSecrets(backup)
        self._newest: int | None = None
        self._head: BackupState | None = None
        self._state = BackupState(backup=backup.descriptor.name)

    @property
    def _backup(self) -> Backup:
        return self._here.value

    def initialOffset(self) -> StreamOffset:  # noqa: N802  # Spark's name
        match self._options.starting_commit:
            case int(number):
                return {_COMMIT: number - 1}
            case str(word) if word == LATEST:
                return {_COMMIT: self._newest_commit()}
            case _:
                return {_COMMIT: 0}

    def latestOffset(self) -> StreamOffset:  # type: ignore[override]  # noqa: N802  # without limits, as in Spark 4.0
        return {_COMMIT: max(self._newest_commit(), self.initialOffset()[_COMMIT])}

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        if self._state.seq != start[_COMMIT]:
            self._state = self._backup.catalog.state(upto=start[_COMMIT])
        commits = list(self._backup.log.read(after=start[_COMMIT], upto=end[_COMMIT]))
        if len(commits) != end[_COMMIT] - start[_COMMIT]:  # fewer commits would lose rows for good
            missing = start[_COMMIT] + len(commits) + 1
            raise damaged_commit(f"{self._backup.layout.commit_key(missing)} was seen before and is missing now")
        selection = self._selection(is_first=start[_COMMIT] == 0)
        tasks = plan_micro_batch(self._state, commits, selection, head=self._newest_state())
        self._state = fold(self._state, commits)
        return [StreamPartition(task, self._backup.log, with_commit=self._options.with_commit) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            return iter(())
        if isinstance(partition.task, EndedTask):
            return scan_ended(partition.task, partition.log.value, with_commit=partition.with_commit)
        tasks = (partition.task,) if partition.with_commit else with_commits([partition.task], {})
        return scan_arrow(tasks[0], partition.log.value.store)

    def _selection(self, *, is_first: bool) -> StreamSelection:
        """Return the selection. `is_first`: the micro-batch begins with the earliest commit, and so loses nothing that
        the stream ever had."""
        options = self._options
        return StreamSelection(
            topics=options.selection,
            partitions=options.partitions,
            read_committed=options.read_committed,
            skips_lost=is_first or not options.fail_on_data_loss,
        )

    def _newest_state(self) -> BackupState:
        """Return the newest state, which names the segments that hold the data of all commits now. Opened once; later
        calls read only new commits. Damage in a commit behind the wanted commits is reported when the stream reaches
        the commit."""
        try:
            head = self._head or self._backup.sound_state()
            self._head = fold(head, self._backup.log.read(after=head.seq))
        except DamagedCommit:
            self._head = self._backup.sound_state()
        return self._head

    def _newest_commit(self) -> int:
        """Return the number of the newest commit. Called repeatedly: every call reads only new commits."""
        if self._newest is None:
            self._newest = self._backup.state().seq
        for stored in self._backup.log.read(after=self._newest):
            self._newest = stored.commit.seq
        return self._newest
