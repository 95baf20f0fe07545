"""Whether one live partition holds what a backup says it should: both ends read in full and compared, in a worker.

Reads the backup through the very view that a restore copies by, so what a restore leaves out is left out here as well.
Changes nothing on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from blake3 import blake3

from offsite.kafka.config import KafkaConfig
from offsite.kafka.routing import shared_router
from offsite.log.chunk import Hole
from offsite.log.difference import Difference
from offsite.log.filler import is_filler
from offsite.log.range import LogRange
from offsite.pipeline.lockstep import Lockstep
from offsite.pipeline.restore_plan import PartitionRestore
from offsite.pipeline.source_view import SourceView, VisibleBatch
from offsite.pipeline.target_view import TargetView
from offsite.repository.segment import NO_TIMESTAMP_MS
from offsite.repository.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofEnds:
    """The two ends of a proof, as they travel to the workers. `exact`: the target must end where the backup ends; else
    what it has after that is left alone."""

    kafka: KafkaConfig
    store: Store
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTask:
    """`target` is what is there to be read. `read_committed`: compare what consumers of that isolation see. `offsets`:
    records must have their source's offsets; `compacted`: then the target may lack some. Of the backup are passed over,
    because the target has deleted them already: offsets below `skip_below`, the first `skip_records`."""

    partition: PartitionRestore
    target: LogRange
    read_committed: bool
    offsets: bool
    compacted: bool
    skip_below: int = 0
    skip_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """What `Comparison` says of one partition; `next_target` is at least where the target was read from."""

    records: int
    decoded_records: int
    compacted_records: int
    digest: str
    next_target: int
    difference: Difference | None


def prove_partition(task: ProofTask, *, ends: ProofEnds) -> PartitionProof:
    """Compare the partition with its backup. Raises `DamagedObject`, and what store and broker raise."""
    target = TargetView(shared_router(ends.kafka), task.target, read_committed=task.read_committed)
    with closing(target.batches()) as found:
        compared = Lockstep(
            _without_filler(_expected(task, ends)),
            _without_filler(found),
            offsets=task.offsets,
            exact=ends.exact,
            compacted=task.compacted,
        ).run()
    return PartitionProof(
        records=compared.records,
        decoded_records=compared.decoded_records,
        compacted_records=compared.compacted_records,
        digest=compared.digest,
        next_target=max(compared.next_target, task.target.start),
        difference=compared.difference and _explained(compared.difference, target.holes),
    )


def nothing_to_prove(target: LogRange) -> PartitionProof:
    """The proof of a partition of which the backup has nothing, and nothing has to be read."""
    return PartitionProof(
        records=0,
        decoded_records=0,
        compacted_records=0,
        digest=blake3().hexdigest(),
        next_target=target.start,
        difference=None,
    )


def _explained(difference: Difference, holes: Sequence[Hole]) -> Difference:
    """What the cluster deleted while it was read is the likely reason."""
    gone = "".join(f"; offsets {hole.start} to {hole.end} went by {hole.reason} meanwhile" for hole in holes)
    return replace(difference, detail=difference.detail + gone)


def _expected(task: ProofTask, ends: ProofEnds) -> Iterator[VisibleBatch]:
    if not task.partition.segments:
        return iter(())
    batches = SourceView(task.partition, ends.store, read_committed=task.read_committed).batches()
    if task.skip_below:
        batches = _from_offset(batches, task.skip_below)
    return _after_records(batches, task.skip_records) if task.skip_records else batches


def _without_filler(batches: Iterator[VisibleBatch]) -> Iterator[VisibleBatch]:
    """Without what a restore wrote to keep offsets, this one or, in the backup, an earlier one: a compacted topic
    loses it some time. It has batches of its own."""
    for batch in batches:
        is_timeless = batch.header.max_timestamp_ms == NO_TIMESTAMP_MS
        if not (is_timeless and all(map(is_filler, batch.records()))):
            yield batch


def _from_offset(batches: Iterator[VisibleBatch], offset: int) -> Iterator[VisibleBatch]:
    for batch in batches:
        if batch.header.base_offset >= offset:
            yield batch
        elif batch.header.last_offset >= offset:
            yield batch._replace(cutoff=batch.cutoff._replace(start=max(batch.cutoff.start, offset)))


def _after_records(batches: Iterator[VisibleBatch], count: int) -> Iterator[VisibleBatch]:
    """What comes after the first `count` records."""
    for batch in batches:
        if count == 0:
            yield batch
            continue
        records = batch.records()
        if len(records) > count:
            yield batch._replace(cutoff=batch.cutoff._replace(start=records[count].offset))
        count -= min(count, len(records))
