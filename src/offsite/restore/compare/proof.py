"""The proof that a cluster holds the records of a backup: every partition compared in Spark, with both ends read in
full. Changes nothing, on either side.

A proof has three results, equal, different, or unknown, because "nothing was different" is only worth something if
something was compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.engine.bundles import run_bundles
from offsite.engine.runner import Done, Failed, OnProgress, Runner, job_named
from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import LogRange, TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.restore.compare.bounds import (
    Bounds,
    confirm_bounds,
    find_bounds,
    is_comparable,
    is_doubtful,
    partition_counts,
    second_checks,
)
from offsite.restore.compare.expected import ExpectedTopic, PartitionCheck, plan_checks
from offsite.restore.compare.partition import (
    ProofEnds,
    ProofOutcome,
    ProofTask,
    bundle_proofs,
    empty_proof,
    prove_bundle,
)
from offsite.restore.compare.records import PartitionProof
from offsite.restore.compare.repartition import RepartitionProofTask, prove_repartition, repartition_proof_tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofFinding:
    """The first difference in one partition; `partition` is -1 for a difference of the whole topic. `kind`: `changed`,
    `missing`, `extra`, `reordered`, `map` (see `RecordDifference`), `topic` (missing), `partitions` (another number),
    `truncated` (the log ends before the backup does), `bounds` (wrong start or end) or `damaged` (one of the ends will
    never be readable)."""

    source: str
    topic: str
    partition: int = -1
    kind: str
    fields: tuple[str, ...] = ()
    source_offset: int = -1
    target_offset: int = -1
    records: int = 0
    detail: str

    @property
    def where(self) -> str:
        """`topic/partition (from source), source offset N, target offset M`, with the known parts."""
        place = self.topic if self.partition < 0 else f"{self.topic}/{self.partition}"
        renamed = f" (from {self.source})" if self.source != self.topic else ""
        sides = {"source offset": self.source_offset, "target offset": self.target_offset}
        return ", ".join([f"{place}{renamed}", *(f"{side} {at}" for side, at in sides.items() if at >= 0)])

    @property
    def what(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedPartition:
    """A partition that could not be read now, with the reason: nothing is known of it. `error` is the error's id; empty
    when the partition was read, and the read did not decide whether compaction removed all lacking records."""

    source: str
    topic: str
    partition: int
    error: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenPartition:
    """Result for one partition. `verified`: True when records were compared and all are equal; False with a finding;
    None without anything to compare, for an unreadable partition, or when the read did not decide (`problem`).

    `records` are equal at both ends, and so are `markers` of transactions (compared only for the very topic of the
    backup). `digest` is over all of them, empty with a difference or when records of several partitions were compared.

    Since the backup, the cluster has written `later_offsets` after the backup's end, deleted `expired_offsets` at the
    beginning, and lost `compacted_records` to compaction, for certain or, when unknown, perhaps. These numbers do not
    count, unless the proof is exact. `hole_offsets` lie in holes of the backup.
    """

    partition: int
    verified: bool | None
    records: int = 0
    markers: int = 0
    decoded_records: int = 0
    compacted_records: int = 0
    digest: str = ""
    target_start: int = -1
    target_end: int = -1
    later_offsets: int = 0
    expired_offsets: int = 0
    hole_offsets: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenTopic:
    """Result for one topic, named as in the cluster. `verified` as of a partition: True when some partitions were
    compared, all are equal and all could be read."""

    source: str
    verified: bool | None
    records: int
    partitions: tuple[ProvenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Result of a whole comparison. `verified`: True when something was compared, no difference found and every
    partition read; False with `findings`, the first difference of every partition; None without anything to compare, or
    with partitions that could not be read (`uncompared`)."""

    verified: bool | None
    records: int
    topics: Mapping[str, ProvenTopic]
    findings: tuple[ProofFinding, ...]
    uncompared: tuple[UncomparedPartition, ...] = ()

    @property
    def compared_partitions(self) -> int:
        return sum(partition.verified is not None for topic in self.topics.values() for partition in topic.partitions)

    @property
    def empty_partitions(self) -> int:
        """Number of partitions without anything to compare."""
        every = [partition for topic in self.topics.values() for partition in topic.partitions]
        return sum(partition.verified is None and not partition.problem for partition in every)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckedPartition:
    """The outcome of one check."""

    check: PartitionCheck
    outcome: PartitionProof | OffsiteError


def prove(  # noqa: PLR0913  # all by keyword, most with a default
    expected: Sequence[ExpectedTopic],
    *,
    ends: ProofEnds,
    admin: ClusterAdmin,
    runner: Runner,
    on_progress: OnProgress | None = None,
    clock: Clock | None = None,
) -> Proof:
    """The proof of every partition against its expected records, up to the cluster's present end. Missing records are
    looked for once more (see `bounds`).

    A difference is a result, and so is a partition that cannot be read. Raises its error when no partition can be read;
    `Denied`, and `KafkaUnavailable` when the cluster stays away.
    """
    clock = clock or SystemClock()
    counts = partition_counts(expected, admin, clock)
    comparable = [topic for topic in expected if is_comparable(topic, counts.get(topic.target, 0))]
    proof_bounds = find_bounds(comparable, admin)
    to_check = [check for topic in comparable for check in plan_checks(topic, proof_bounds.bounds, exact=ends.exact)]
    first = _compare(to_check, ends, runner, on_progress)
    second = _compare(_doubts(first, proof_bounds.bounds, ends, admin, clock), ends, runner, on_progress)
    checked = _latest(first, second)
    unlike = [_unlike(t, counts.get(t.target, 0)) for t in expected if t not in comparable]
    findings = (*unlike, *(finding for result in checked for finding in _findings(result)))
    uncompared = (*_sick(comparable, proof_bounds.sick), *_uncompared(checked))
    _raise_if_nothing_is_known(checked, findings, proof_bounds.sick)
    topics = _topics(comparable, checked, uncompared)
    return Proof(
        verified=_verdict([topic.verified for topic in topics.values()], findings, uncompared),
        records=sum(topic.records for topic in topics.values()),
        topics=topics,
        findings=findings,
        uncompared=uncompared,
    )


def _doubts(
    first: Sequence[_CheckedPartition], bounds: Bounds, ends: ProofEnds, admin: ClusterAdmin, clock: Clock
) -> list[PartitionCheck]:
    """The checks to repeat."""
    doubtful = [result for result in first if is_doubtful(result.check, result.outcome)]
    if not doubtful:
        return []
    topics = list({result.check.topic.target: result.check.topic for result in doubtful}.values())
    keys = {result.check.target.topic_partition for result in doubtful}
    moved = confirm_bounds(keys, topics, bounds, admin, clock)
    damaged = {result.check.target.topic_partition for result in doubtful if isinstance(result.outcome, Damaged)}
    again = moved.keys() | damaged
    return [check for topic in topics for check in second_checks(topic, {**bounds, **moved}, again, exact=ends.exact)]


def _latest(first: Sequence[_CheckedPartition], second: Sequence[_CheckedPartition]) -> list[_CheckedPartition]:
    again = {result.check.target.topic_partition: result for result in second}
    return [again.get(result.check.target.topic_partition, result) for result in first]


def _verdict(
    parts: Sequence[bool | None], findings: Sequence[ProofFinding], uncompared: Sequence[UncomparedPartition]
) -> bool | None:
    if findings or False in parts:
        return False
    return True if True in parts and not uncompared else None


def _raise_if_nothing_is_known(
    checked: Sequence[_CheckedPartition], findings: Sequence[ProofFinding], sick: Mapping[TopicPartition, OffsiteError]
) -> None:
    """Raise the first error when the proof knows nothing else."""
    errors = [*sick.values(), *(result.outcome for result in checked if isinstance(result.outcome, OffsiteError))]
    if errors and not findings and not any(isinstance(result.outcome, PartitionProof) for result in checked):
        raise errors[0]


def _compare(
    to_check: Sequence[PartitionCheck], ends: ProofEnds, runner: Runner, on_progress: OnProgress | None
) -> list[_CheckedPartition]:
    tasks = [check.task for check in to_check if check.task is not None]
    read = _read(tasks, ends, runner, on_progress) if tasks else []
    mixed = _repartition_tasks(to_check)
    mixed_read = runner.run_all(mixed, partial(prove_repartition, ends=ends), on_progress=on_progress) if mixed else []
    by_partition = (
        proof_outcome.error if isinstance(proof_outcome, Failed) else proof_outcome.value for proof_outcome in read
    )
    by_key = (
        outcome
        for task, task_outcome in zip(mixed, mixed_read, strict=True)
        for outcome in _each_target(task, task_outcome)
    )
    return [_CheckedPartition(check=check, outcome=_outcome_of(check, by_partition, by_key)) for check in to_check]


def _read(
    tasks: Sequence[ProofTask], ends: ProofEnds, runner: Runner, on_progress: OnProgress | None
) -> Sequence[ProofOutcome]:
    """The outcomes of `tasks`, in their order."""
    topics = {task.target.topic for task in tasks}
    with job_named(f"compare: {amount(len(topics), 'topic')}, {amount(len(tasks), 'partition')}"):
        outcomes = run_bundles(
            bundle_proofs(tasks, slots=runner.slots),
            partial(prove_bundle, ends=ends),
            tasks=tasks,
            runner=runner,
            on_progress=on_progress,
        )
    return [outcomes[number] for number in range(len(tasks))]


def _each_target(
    task: RepartitionProofTask, outcome: Done[tuple[PartitionProof, ...]] | Failed
) -> Sequence[PartitionProof | OffsiteError]:
    return [outcome.error] * len(task.targets) if isinstance(outcome, Failed) else outcome.value


def _outcome_of(
    check: PartitionCheck,
    by_partition: Iterator[PartitionProof | OffsiteError],
    by_key: Iterator[PartitionProof | OffsiteError],
) -> PartitionProof | OffsiteError:
    if check.task is not None:
        return next(by_partition)
    return empty_proof(check.target) if check.topic.repartition is None else next(by_key)


def _repartition_tasks(to_check: Sequence[PartitionCheck]) -> list[RepartitionProofTask]:
    """In the order of `to_check`, in which a topic's partitions are together."""
    targets: dict[str, list[LogRange]] = {}
    for check in to_check:
        targets.setdefault(check.topic.target, []).append(check.target)
    mixed = {check.topic.target: check.topic for check in to_check if check.topic.repartition is not None}
    return [
        task
        for name, topic in mixed.items()
        if topic.repartition is not None
        for task in repartition_proof_tasks(topic.repartition, targets[name], read_committed=topic.read_committed)
    ]


def _unlike(topic: ExpectedTopic, partitions: int) -> ProofFinding:
    """A topic that cannot be compared."""
    if partitions:
        return _finding(topic, "partitions", f"{amount(partitions, 'partition')} instead of {topic.partitions}")
    return _finding(topic, "topic", "the cluster has no such topic")


def _findings(checked: _CheckedPartition) -> Iterator[ProofFinding]:
    """At most one per partition."""
    check, outcome = checked.check, checked.outcome
    if isinstance(outcome, OffsiteError):
        if isinstance(outcome, Damaged):
            yield _finding(check.topic, "damaged", outcome.message, partition=check.target.partition)
    elif (difference := outcome.difference) is not None:
        yield ProofFinding(
            source=check.topic.source,
            topic=check.topic.target,
            partition=check.target.partition,
            kind=difference.kind,
            fields=difference.fields,
            source_offset=difference.source_offset,
            target_offset=difference.target_offset,
            records=difference.records,
            detail="; ".join(filter(None, (difference.detail, check.truncated))),
        )
    elif check.truncated:
        yield _finding(check.topic, "truncated", check.truncated, partition=check.target.partition)
    elif check.wrong_bounds:
        yield _finding(check.topic, "bounds", check.wrong_bounds, partition=check.target.partition)


def _sick(
    topics: Sequence[ExpectedTopic], sick: Mapping[TopicPartition, OffsiteError]
) -> Iterator[UncomparedPartition]:
    by_name = {topic.target: topic for topic in topics}
    for where, error in sick.items():
        yield _left_open(by_name[where.topic], where.partition, error)


def _uncompared(checked: Sequence[_CheckedPartition]) -> Iterator[UncomparedPartition]:
    for result in checked:
        topic, partition = result.check.topic, result.check.target.partition
        if isinstance(result.outcome, PartitionProof) and _is_open(result.check, result.outcome):
            yield _not_known(topic, partition, result.outcome.unknown)
        elif isinstance(result.outcome, OffsiteError) and not isinstance(result.outcome, Damaged):
            yield _left_open(topic, partition, result.outcome)


def _is_open(check: PartitionCheck, proof: PartitionProof) -> bool:
    return bool(proof.unknown) and not _is_wrong(check, proof)


def _is_wrong(check: PartitionCheck, proof: PartitionProof) -> bool:
    return bool(proof.difference or check.truncated or check.wrong_bounds)


def _not_known(topic: ExpectedTopic, partition: int, why: str) -> UncomparedPartition:
    """Both ends were read, and do not decide."""
    warned("uncompared", why=why, topic=topic.target, partition=partition)
    return UncomparedPartition(
        source=topic.source, topic=topic.target, partition=partition, error="", message=why, hint=""
    )


def _left_open(topic: ExpectedTopic, partition: int, error: OffsiteError) -> UncomparedPartition:
    warned("uncompared", why=error.message, topic=topic.target, partition=partition, error=error.id)
    return UncomparedPartition(
        source=topic.source,
        topic=topic.target,
        partition=partition,
        error=error.id,
        message=error.message,
        hint=error.hint,
    )


def _finding(topic: ExpectedTopic, kind: str, detail: str, *, partition: int = -1) -> ProofFinding:
    """A finding that does not concern a record."""
    return ProofFinding(source=topic.source, topic=topic.target, partition=partition, kind=kind, detail=detail)


def _topics(
    topics: Sequence[ExpectedTopic], checked: Sequence[_CheckedPartition], uncompared: Sequence[UncomparedPartition]
) -> dict[str, ProvenTopic]:
    partitions: dict[str, list[ProvenPartition]] = {topic.target: [] for topic in topics}
    for result in checked:
        if isinstance(result.outcome, PartitionProof):
            partitions[result.check.topic.target].append(_partition(result.check, result.outcome))
        elif isinstance(result.outcome, Damaged):
            partitions[result.check.topic.target].append(
                ProvenPartition(partition=result.check.target.partition, verified=False, problem=result.outcome.message)
            )
    compared = {result.check.target.topic_partition for result in checked if isinstance(result.outcome, PartitionProof)}
    for skipped in uncompared:
        if TopicPartition(topic=skipped.topic, partition=skipped.partition) in compared:
            continue
        partitions[skipped.topic].append(
            ProvenPartition(partition=skipped.partition, verified=None, problem=skipped.message)
        )
    return {topic.target: _topic(topic, partitions[topic.target]) for topic in topics}


def _topic(topic: ExpectedTopic, partitions: Sequence[ProvenPartition]) -> ProvenTopic:
    verdicts = [partition.verified for partition in partitions]
    unknown = any(partition.problem for partition in partitions)
    return ProvenTopic(
        source=topic.source,
        verified=False if False in verdicts else True if True in verdicts and not unknown else None,
        records=sum(partition.records for partition in partitions),
        partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
    )


def _partition(check: PartitionCheck, proof: PartitionProof) -> ProvenPartition:
    target, is_wrong, is_open = check.target, _is_wrong(check, proof), _is_open(check, proof)
    return ProvenPartition(
        partition=target.partition,
        verified=False if is_wrong else True if proof.records + proof.markers and not is_open else None,
        records=proof.records,
        markers=proof.markers,
        decoded_records=proof.decoded_records,
        compacted_records=proof.compacted_records,
        digest=f"blake3:{proof.digest}" if proof.digest and not proof.difference else "",
        target_start=target.start,
        target_end=proof.next_target,
        later_offsets=0 if proof.difference else check.later_offsets(proof.following),
        expired_offsets=check.expired_offsets + proof.expired_offsets,
        hole_offsets=check.hole_offsets,
        problem=proof.unknown if is_open else "",
    )
