"""Whether a repartitioned topic holds the backup's records: every record in its partition, in the order of its key.

The copy depends only on the logs and the plan. The same reading therefore yields the next expected record of every
target partition. All target partitions of a task are read in step; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice

from offsite.kafka.net.routing import shared_router
from offsite.log.difference import RecordDifference, first_difference, index_of_difference
from offsite.log.range import LogRange
from offsite.log.records.record import Record
from offsite.restore.compare.partition import ProofEnds, finding_of, target_reader, with_holes
from offsite.restore.compare.records import PartitionProof
from offsite.restore.compare.target import TargetView
from offsite.restore.write.plan import Repartition
from offsite.restore.write.repartition import MAX_TARGETS, interleave_batches, partition_chooser

LOOK_AHEAD_RECORDS = 1000
"""Records read on from a difference, in each of up to `MAX_TARGETS` partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionProofTask:
    """Some target partitions of one repartitioned topic. Every task of a topic reads the whole of its backup."""

    repartition: Repartition
    targets: tuple[LogRange, ...]
    read_committed: bool


def repartition_proof_tasks(
    plan: Repartition, targets: Sequence[LogRange], *, read_committed: bool
) -> list[RepartitionProofTask]:
    """The tasks that compare all `targets`, given in the order of their numbers."""
    groups = (targets[first : first + MAX_TARGETS] for first in range(0, len(targets), MAX_TARGETS))
    return [
        RepartitionProofTask(repartition=plan, targets=tuple(group), read_committed=read_committed) for group in groups
    ]


def prove_repartition(task: RepartitionProofTask, *, ends: ProofEnds) -> tuple[PartitionProof, ...]:
    """One proof per target partition of the task, without a digest. Raises as `prove_partition`."""
    plan = task.repartition
    views = [ends.view(source, read_committed=task.read_committed) for source in plan.sources]
    read, place = target_reader(shared_router(ends.kafka)), partition_chooser(plan)
    with ExitStack() as stack:
        comparisons: dict[int, _PartitionComparison] = {}
        for target in task.targets:
            view = TargetView(read, target, read_committed=task.read_committed)
            records = stack.enter_context(closing(_records(view)))
            comparisons[target.partition] = _PartitionComparison(records, view, target)
        for batch in interleave_batches(views, plan.sources):
            for record in batch.records():
                if (comparison := comparisons.get(place(record))) is not None:
                    comparison.expect(record)
        proofs = [comparisons[target.partition].proof(exact=ends.exact) for target in task.targets]
    first = replace(proofs[0], difference=proofs[0].difference or finding_of(views))  # it is of a source partition
    return (first, *proofs[1:])


def _records(view: TargetView) -> Generator[Record, None, None]:
    with closing(view.batches()) as batches:
        for batch in batches:
            yield from batch.records()


class _PartitionComparison:
    """One target partition: its records are taken one by one, as expected by the source."""

    def __init__(self, records: Iterator[Record], view: TargetView, target: LogRange) -> None:
        self._found = records
        self._view = view
        self._next_target = target.start
        self._equal = self._expected = 0
        self._unmet: list[Record] = []
        self._instead: list[Record] = []

    def expect(self, record: Record) -> None:
        self._expected += 1
        if self._unmet:
            if len(self._unmet) < LOOK_AHEAD_RECORDS:
                self._unmet.append(record)
            return
        actual = next(self._found, None)
        if actual is not None and index_of_difference([record], [actual], offsets=False) is None:
            self._equal += 1
            self._next_target = actual.offset + 1
        else:
            self._unmet = [record]
            self._instead = [] if actual is None else [actual]

    def proof(self, *, exact: bool) -> PartitionProof:
        """The proof, after the last expected record."""
        difference = self._difference(exact=exact)
        following = next(self._found, None) if difference is None else None
        return PartitionProof(
            records=self._equal,
            decoded_records=self._equal,
            next_target=self._next_target,
            following=-1 if following is None else following.offset,
            difference=with_holes(difference, self._view.holes),
        )

    def _difference(self, *, exact: bool) -> RecordDifference | None:
        if not self._unmet and not exact:
            return None
        following = [*self._instead, *islice(self._found, LOOK_AHEAD_RECORDS)]
        if not self._unmet and not following:
            return None
        difference = first_difference(self._unmet, following, offsets=False)
        if not following:
            return replace(difference, records=self._expected - self._equal)
        return (
            difference if self._unmet else replace(difference, records=difference.records + sum(1 for _ in self._found))
        )
