"""Whether live partitions hold the backup's records: both ends of each read in full and compared, in a worker. Changes
nothing on either side.

Reads the backup through the view of a restore: records left out by a restore are left out here as well.

A partition of a few records is read faster than Spark starts a task: small partitions share one. In such a bundle, a
partition that cannot be compared does not stop the rest. A missing broker costs a bundle a few waits, not one wait per
partition: its remaining partitions are reported as not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeAlias

from blake3 import blake3

from offsite.engine.bundles import Bundle, deal_out
from offsite.engine.runner import Done, Failed
from offsite.engine.task_attempt import wrap_foreign
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.backoff import SilentLeaders
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.difference import RecordDifference
from offsite.log.range import Hole, LogRange
from offsite.log.records.batch_records import is_filler
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided, safe_trace
from offsite.model.units import MIB
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import SourceView, VisibleBatch, committed_view, stored_log
from offsite.repository.segments.segment import NO_TIMESTAMP_MS
from offsite.restore.compare.records import Compaction, PartitionProof, RecordComparator
from offsite.restore.compare.target import MapProof, RangeReader, RestoredMaps, TargetView
from offsite.stores.store import Store

EXPIRIES_MAX = 20
"""Most restarts of a comparison because the cluster deleted records ahead of the read: every restart begins behind the
deleted records."""
_RETENTION = "retention"
SMALL_BYTES = 4 * MIB
"""A partition with fewer bytes in the backup is small."""
SMALL_MAX = 64
"""Partitions of a bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofEnds:
    """The two ends of a proof, as sent to the workers. `exact`: the target must begin and end where the backup does;
    otherwise later records, and records deleted since, do not count. `maps`: the maps of a restore, to be proven as
    well. `records`: the store of the restore's records, if another."""

    kafka: KafkaConfig
    store: Store
    exact: bool
    maps: RestoredMaps | None = None
    records: Store | None = None

    def view(self, chain: PartitionChain, *, read_committed: bool) -> SourceView:
        """The backup's side of a proof."""
        return SourceView(chain, self.store, read_committed=read_committed, records=self.records, proves=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTask:
    """One partition to compare: its chain in the backup, and `target`, the range of the cluster's log to read.

    - `read_committed`: compare the view of consumers of this isolation; `whole_log`: compare all of both logs, with
      markers and aborted records.
    - `bounded`: all records of `target` must be in the backup, except in `holes`.
    - `offsets`: records must have the offsets of their source. Without `offsets`, the records must have been written
      one after another.
    - `compacted`: the target may lack records whose key comes again; its log ends at `log_end`. At the end of `target`
      records may be lacking only if the log `goes_on` to the end of `target`.
    - `skip_below`, `skip_records`: offsets and number of records of the backup to skip, because the target has deleted
      them already.
    """

    partition: PartitionChain
    target: LogRange
    read_committed: bool
    offsets: bool
    compacted: bool
    whole_log: bool = False
    bounded: bool = False
    goes_on: bool = False
    log_end: int = 0
    holes: tuple[LogRange, ...] = ()
    skip_below: int = 0
    skip_records: int = 0

    @property
    def title(self) -> str:
        return str(self.target.topic_partition)


def prove_partition(task: ProofTask, *, ends: ProofEnds) -> PartitionProof:
    """Compare the partition with its backup. Raises `DamagedObject`, and the errors of store and broker."""
    return prove_by_reading(task, target_reader(shared_router(ends.kafka)), ends=ends)


def prove_by_reading(task: ProofTask, read: RangeReader, *, ends: ProofEnds) -> PartitionProof:
    """The proof of `prove_partition`, with `read` as reader of the target; its `next_target` is at least the first
    target offset read. Begins again behind records that the target
    deletes meanwhile."""
    now = task
    compared, holes = _compare(now, ends, read)
    for _ in range(EXPIRIES_MAX):
        expired_to = _expired_to(holes)
        if ends.exact or expired_to <= now.target.start:
            break
        now = _from(now, expired_to)
        compared, holes = _compare(now, ends, read)
    return replace(
        compared,
        next_target=max(compared.next_target, now.target.start),
        expired_offsets=now.target.start - task.target.start,
        difference=with_holes(compared.difference, holes),
    )


def target_reader(router: Router) -> RangeReader:
    """A function that reads the target, with a new reader (and buffer) per call. The batch at the start of the range
    belongs to the range: a log that was deleted up to the middle of the batch may have the whole batch again after a
    broker's crash."""
    return lambda log_range: PartitionReader(router).read(log_range, reach_back=True)


def empty_proof(target: LogRange) -> PartitionProof:
    """The proof of a partition without data in the backup and without anything to read."""
    return PartitionProof(digest=blake3().hexdigest(), next_target=target.start)


def with_holes(difference: RecordDifference | None, holes: Sequence[Hole]) -> RecordDifference | None:
    """The difference, explained by records that the cluster lost during the read. Lost records without a difference are
    a difference themselves."""
    if not holes:
        return difference
    gone = "; ".join(f"offsets {hole.start} to {hole.end - 1} were deleted ({hole.reason})" for hole in holes)
    if difference is not None:
        return replace(difference, detail=f"{difference.detail}; {gone} during the comparison")
    return RecordDifference(
        kind="missing",
        fields=(),
        source_offset=holes[0].start,
        target_offset=-1,
        records=0,
        detail=f"not seen in the cluster: {gone} before they were read",
    )


def _compare(task: ProofTask, ends: ProofEnds, read: RangeReader) -> tuple[PartitionProof, Sequence[Hole]]:
    """One comparison from the beginning, and the ranges that the target no longer had."""
    target = TargetView(
        read, task.target, read_committed=task.read_committed, whole_log=task.whole_log, ignored=task.holes
    )
    view = _source_view(task, ends)
    expected, map_proof = _expected(task, ends, view), _map_proof(task, ends)
    later = _Later(task, read)
    with closing(target.batches()) as target_batches:
        compared = RecordComparator(
            _seen(expected if map_proof is None else map_proof.check_batches(expected), task),
            _seen(target_batches, task),
            offsets=task.offsets,
            exact=ends.exact or task.bounded,
            compaction=_compaction(task, ends, later) if task.compacted else None,
        ).run()
    if later.holes:
        compared = _with_unknown(compared, later.holes)
    difference = compared.difference or (None if map_proof is None else map_proof.difference)
    return replace(compared, difference=difference or finding_of((view,))), tuple(target.holes)


def finding_of(views: Iterable[SourceView | None]) -> RecordDifference | None:
    """The first changed record that does not mean what it meant (see `RecordRewrite`)."""
    rewritings = (view.rewriting for view in views if view is not None)
    return next((rewriting.finding for rewriting in rewritings if rewriting and rewriting.finding), None)


class _Later:
    """The visible part of the target that is not compared: behind the range, or in holes of the backup."""

    def __init__(self, task: ProofTask, read: RangeReader) -> None:
        start = min([task.target.end, *(hole.start for hole in task.holes)])
        later_range = replace(task.target, start=start, end=max(start, task.log_end))
        self._view = TargetView(read, later_range, read_committed=True)
        self._is_empty = len(later_range) == 0

    @property
    def holes(self) -> Sequence[Hole]:
        return self._view.holes

    def batches(self) -> Iterator[VisibleBatch]:
        if not self._is_empty:
            with closing(self._view.batches()) as batches:
                yield from batches


def _compaction(task: ProofTask, ends: ProofEnds, later: _Later) -> Compaction:
    return Compaction(
        later=later.batches,
        committed=_committed(task, ends),
        first=None if task.offsets else task.target.start,
        tail_to=task.target.end if task.goes_on or not task.offsets else 0,
    )


def _committed(task: ProofTask, ends: ProofEnds) -> Callable[[BatchHeader], bool | None]:
    """The outcome of a batch by the backup's markers, when both logs are compared with aborted records: the markers of
    the target are equal."""
    if task.read_committed or not task.offsets:
        return lambda _: True
    view = committed_view(task.partition, ends.store)
    return lambda header: view.outcome(header) if header.is_transactional else True


def _with_unknown(compared: PartitionProof, holes: Sequence[Hole]) -> PartitionProof:
    """The cluster deleted records behind the compared range: whether a later record of a key existed is unknown."""
    if compared.difference is None or compared.difference.target_offset >= 0:
        return compared
    gone = "; ".join(f"offsets {hole.start} to {hole.end - 1} were deleted ({hole.reason})" for hole in holes)
    return replace(
        compared,
        difference=None,
        unknown=f"it is unknown whether compaction removed the missing records: {gone} during the comparison",
    )


def _map_proof(task: ProofTask, ends: ProofEnds) -> MapProof | None:
    if ends.maps is None or not task.partition.segments:
        return None
    start = dict(ends.maps.starts).get(task.target.topic_partition, task.target.start)
    offset_map = ends.maps.of(task.partition, task.target.topic)
    return MapProof(offset_map, target_start=start, keeps_offsets=task.offsets)


def _expired_to(holes: Sequence[Hole]) -> int:
    return max((hole.end for hole in holes if hole.reason == _RETENTION), default=-1)


def _from(task: ProofTask, start: int) -> ProofTask:
    """The same task for a log that begins at `start` by now."""
    target = task.target
    decided(
        "expired",
        why="the cluster deleted records before the comparison: the comparison begins after them",
        topic=target.topic,
        partition=target.partition,
        start=target.start,
        end=start,
    )
    return replace(
        task,
        target=replace(target, start=start),
        skip_below=start if task.offsets else 0,
        skip_records=0 if task.offsets else task.skip_records + start - target.start,
    )


def _source_view(task: ProofTask, ends: ProofEnds) -> SourceView | None:
    """The view of the backup that a restore took; None where the whole log is compared, or nothing is expected."""
    if task.whole_log or not task.partition.segments:
        return None
    return ends.view(task.partition, read_committed=task.read_committed)


def _expected(task: ProofTask, ends: ProofEnds, view: SourceView | None) -> Iterator[VisibleBatch]:
    if not task.partition.segments:
        return iter(())
    batches = stored_log(task.partition, ends.store) if view is None else view.batches()
    if task.skip_below:
        batches = _from_offset(batches, task.skip_below)
    return _after_records(batches, task.skip_records) if task.skip_records else batches


def _seen(batches: Iterator[VisibleBatch], task: ProofTask) -> Iterator[VisibleBatch]:
    """In the very same log, filler records of an earlier restore belong to the log."""
    counts_all = task.whole_log or (task.compacted and not task.offsets)
    return batches if counts_all else _without_filler(batches)


def _without_filler(batches: Iterator[VisibleBatch]) -> Iterator[VisibleBatch]:
    """Removes filler records that a restore wrote to keep offsets: this restore or, in the backup, an earlier one. A
    compacted topic loses filler some time. Filler stands in batches of its own."""
    for batch in batches:
        is_timeless = batch.header.max_timestamp_ms == NO_TIMESTAMP_MS
        if not (is_timeless and all(map(is_filler, batch.records()))):
            yield batch


def _from_offset(batches: Iterator[VisibleBatch], offset: int) -> Iterator[VisibleBatch]:
    for batch in batches:
        if batch.header.base_offset >= offset:
            yield batch
        elif batch.header.last_offset >= offset:
            yield batch._replace(
                record_bounds=batch.record_bounds._replace(start=max(batch.record_bounds.start, offset))
            )


def _after_records(batches: Iterator[VisibleBatch], count: int) -> Iterator[VisibleBatch]:
    """The batches after the first `count` records."""
    for batch in batches:
        if count == 0:
            yield batch
            continue
        records = batch.records()
        if len(records) > count:
            yield batch._replace(record_bounds=batch.record_bounds._replace(start=records[count].offset))
        count -= min(count, len(records))


ProofOutcome: TypeAlias = Done[PartitionProof] | Failed


def bundle_proofs(tasks: Sequence[ProofTask], *, slots: int) -> list[Bundle[ProofTask]]:
    """All `tasks`: large tasks alone, small tasks dealt out. `slots`: number of bundles that run at once."""
    small = [number for number, task in enumerate(tasks) if _size_bytes(task) < SMALL_BYTES]
    is_small = set(small)
    count = max(min(slots, len(small)), -(-len(small) // SMALL_MAX))
    large = ([number] for number in range(len(tasks)) if number not in is_small)
    return [Bundle.of(tasks, hand) for hand in (*large, *deal_out(small, count))]


def prove_bundle(bundle: Bundle[ProofTask], *, ends: ProofEnds) -> tuple[ProofOutcome, ...]:
    """Compare the partitions, and return the outcomes in order. For a bundle of one partition, raises the errors of the
    partition."""
    if len(bundle.tasks) == 1:
        return (Done(value=prove_partition(bundle.tasks[0], ends=ends)),)
    return tuple(_all_proven(bundle, ends))


def _all_proven(bundle: Bundle[ProofTask], ends: ProofEnds) -> Iterator[ProofOutcome]:
    silent = SilentLeaders(shared_router(ends.kafka))
    for task in bundle.tasks:
        target = task.target.topic_partition
        if (refusal := silent.refusal(target)) is not None:
            yield Failed(error=refusal, trace="", tried=False)
            continue
        outcome = _proven(task, ends)
        silent.note_result(target, outcome.error if isinstance(outcome, Failed) else None)
        yield outcome


def _proven(task: ProofTask, ends: ProofEnds) -> ProofOutcome:
    try:
        return Done(value=prove_partition(task, ends=ends))
    except OffsiteError as error:
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:  # noqa: BLE001  # reported as the outcome, and stops no other partition
        return Failed(error=wrap_foreign(error), trace=safe_trace(error))


def _size_bytes(task: ProofTask) -> int:
    return task.partition.raw_bytes
