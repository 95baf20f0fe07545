"""Compares a live cluster with a backup, partition by partition, in Spark, with both ends read in full.

Names the outcomes. Changes nothing, on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.copy.compare.bundle import ProofBundle, Proven, bundled, prove_bundle
from offsite.copy.compare.partitions import PartitionProof, ProofEnds, ProofTask, nothing_to_prove
from offsite.copy.compare.repartition import RepartitionProofTask, prove_repartition, repartition_proof_tasks
from offsite.log.range import LogRange, TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import warned
from offsite.model.named import amount
from offsite.services.cluster import LogEnds
from offsite.services.compare.bounds import (
    Bounds,
    find_bounds,
    is_comparable,
    is_doubtful,
    partition_counts,
    second_checks,
    told_again,
)
from offsite.services.compare.expected import Check, ExpectedTopic, checks
from offsite.services.compare.result import Finding, Proof, ProvenPartition, ProvenTopic, Uncompared
from offsite.spark.bundles import run_bundles
from offsite.spark.job_name import job_named
from offsite.spark.runner import Done, Failed, OnProgress, Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """The outcome of one check."""

    check: Check
    outcome: PartitionProof | OffsiteError


def prove(  # noqa: PLR0913  # all by keyword, most with a default
    expected: Sequence[ExpectedTopic],
    *,
    ends: ProofEnds,
    admin: LogEnds,
    runner: Runner,
    on_progress: OnProgress | None = None,
    clock: Clock | None = None,
) -> Proof:
    """The proof of every partition against its expected records, up to the cluster's present end. Missing records are
    looked for once more (see `services.compare.bounds`).

    A difference is a result, and so is a partition that cannot be read. Raises its error when no partition can be read;
    `Denied`, and `KafkaUnavailable` when the cluster stays away.
    """
    clock = clock or SystemClock()
    counts = partition_counts(expected, admin, clock)
    comparable = [topic for topic in expected if is_comparable(topic, counts.get(topic.target, 0))]
    found = find_bounds(comparable, admin)
    to_check = [check for topic in comparable for check in checks(topic, found.bounds, exact=ends.exact)]
    first = _compare(to_check, ends, runner, on_progress)
    second = _compare(_doubts(first, found.bounds, ends, admin, clock), ends, runner, on_progress)
    checked = _latest(first, second)
    unlike = [_unlike(t, counts.get(t.target, 0)) for t in expected if t not in comparable]
    findings = (*unlike, *(finding for each in checked for finding in _findings(each)))
    uncompared = (*_sick(comparable, found.sick), *_uncompared(checked))
    _raise_if_nothing_is_known(checked, findings, found.sick)
    topics = _topics(comparable, checked, uncompared)
    return Proof(
        verified=_verdict([each.verified for each in topics.values()], findings, uncompared),
        records=sum(topic.records for topic in topics.values()),
        topics=topics,
        findings=findings,
        uncompared=uncompared,
    )


def _doubts(first: Sequence[_Checked], bounds: Bounds, ends: ProofEnds, admin: LogEnds, clock: Clock) -> list[Check]:
    """The checks to repeat."""
    doubtful = [each for each in first if is_doubtful(each.check, each.outcome)]
    if not doubtful:
        return []
    topics = list({each.check.topic.target: each.check.topic for each in doubtful}.values())
    keys = {each.check.target.topic_partition for each in doubtful}
    moved = told_again(keys, topics, bounds, admin, clock)
    damaged = {each.check.target.topic_partition for each in doubtful if isinstance(each.outcome, Damaged)}
    again = moved.keys() | damaged
    return [check for topic in topics for check in second_checks(topic, {**bounds, **moved}, again, exact=ends.exact)]


def _latest(first: Sequence[_Checked], second: Sequence[_Checked]) -> list[_Checked]:
    again = {each.check.target.topic_partition: each for each in second}
    return [again.get(each.check.target.topic_partition, each) for each in first]


def _verdict(
    parts: Sequence[bool | None], findings: Sequence[Finding], uncompared: Sequence[Uncompared]
) -> bool | None:
    if findings or False in parts:
        return False
    return True if True in parts and not uncompared else None


def _raise_if_nothing_is_known(
    checked: Sequence[_Checked], findings: Sequence[Finding], sick: Mapping[TopicPartition, OffsiteError]
) -> None:
    """Raise the first error when the proof knows nothing else."""
    errors = [*sick.values(), *(each.outcome for each in checked if isinstance(each.outcome, OffsiteError))]
    if errors and not findings and not any(isinstance(each.outcome, PartitionProof) for each in checked):
        raise errors[0]


def _compare(
    to_check: Sequence[Check], ends: ProofEnds, runner: Runner, on_progress: OnProgress | None
) -> list[_Checked]:
    tasks = [check.task for check in to_check if check.task is not None]
    read = _read(tasks, ends, runner, on_progress) if tasks else []
    mixed = _repartition_tasks(to_check)
    mixed_read = runner.run_all(mixed, partial(prove_repartition, ends=ends), on_progress=on_progress) if mixed else []
    own = (each.error if isinstance(each, Failed) else each.value for each in read)
    by_key = (outcome for task, found in zip(mixed, mixed_read, strict=True) for outcome in _each_target(task, found))
    return [_Checked(check=check, outcome=_outcome_of(check, own, by_key)) for check in to_check]


def _read(
    tasks: Sequence[ProofTask], ends: ProofEnds, runner: Runner, on_progress: OnProgress | None
) -> Sequence[Proven]:
    """The outcomes of `tasks`, in their order."""
    topics = {task.target.topic for task in tasks}
    with job_named(f"compare: {amount(len(topics), 'topic')}, {amount(len(tasks), 'partition')}"):
        outcomes = run_bundles(
            bundled(tasks, slots=runner.slots),
            partial(prove_bundle, ends=ends),
            bundle_of=lambda numbers: ProofBundle(numbers=tuple(numbers), tasks=tuple(tasks[n] for n in numbers)),
            runner=runner,
            on_progress=on_progress,
        )
    return [outcomes[number] for number in range(len(tasks))]


def _each_target(
    task: RepartitionProofTask, found: Done[tuple[PartitionProof, ...]] | Failed
) -> Sequence[PartitionProof | OffsiteError]:
    return [found.error] * len(task.targets) if isinstance(found, Failed) else found.value


def _outcome_of(
    check: Check, own: Iterator[PartitionProof | OffsiteError], by_key: Iterator[PartitionProof | OffsiteError]
) -> PartitionProof | OffsiteError:
    if check.task is not None:
        return next(own)
    return nothing_to_prove(check.target) if check.topic.repartition is None else next(by_key)


def _repartition_tasks(to_check: Sequence[Check]) -> list[RepartitionProofTask]:
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


def _unlike(topic: ExpectedTopic, partitions: int) -> Finding:
    """A topic that cannot be compared."""
    if partitions:
        return _finding(topic, "partitions", f"{partitions} partitions instead of {topic.partitions}")
    return _finding(topic, "topic", "the cluster has no such topic")


def _findings(checked: _Checked) -> Iterator[Finding]:
    """At most one per partition."""
    check, outcome = checked.check, checked.outcome
    if isinstance(outcome, OffsiteError):
        if isinstance(outcome, Damaged):
            yield _finding(check.topic, "damaged", outcome.message, partition=check.target.partition)
    elif (difference := outcome.difference) is not None:
        yield Finding(
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


def _sick(topics: Sequence[ExpectedTopic], sick: Mapping[TopicPartition, OffsiteError]) -> Iterator[Uncompared]:
    by_name = {topic.target: topic for topic in topics}
    for where, error in sick.items():
        yield _left_open(by_name[where.topic], where.partition, error)


def _uncompared(checked: Sequence[_Checked]) -> Iterator[Uncompared]:
    for each in checked:
        topic, partition = each.check.topic, each.check.target.partition
        if isinstance(each.outcome, PartitionProof) and _is_open(each.check, each.outcome):
            yield _not_known(topic, partition, each.outcome.unknown)
        elif isinstance(each.outcome, OffsiteError) and not isinstance(each.outcome, Damaged):
            yield _left_open(topic, partition, each.outcome)


def _is_open(check: Check, proof: PartitionProof) -> bool:
    return bool(proof.unknown) and not _is_wrong(check, proof)


def _is_wrong(check: Check, proof: PartitionProof) -> bool:
    return bool(proof.difference or check.truncated or check.wrong_bounds)


def _not_known(topic: ExpectedTopic, partition: int, why: str) -> Uncompared:
    """Both ends were read, and do not decide."""
    warned("uncompared", why=why, topic=topic.target, partition=partition)
    return Uncompared(source=topic.source, topic=topic.target, partition=partition, error="", message=why, hint="")


def _left_open(topic: ExpectedTopic, partition: int, error: OffsiteError) -> Uncompared:
    warned("uncompared", why=error.message, topic=topic.target, partition=partition, error=error.id)
    return Uncompared(
        source=topic.source,
        topic=topic.target,
        partition=partition,
        error=error.id,
        message=error.message,
        hint=error.hint,
    )


def _finding(topic: ExpectedTopic, kind: str, detail: str, *, partition: int = -1) -> Finding:
    """A finding that does not concern a record."""
    return Finding(
        source=topic.source,
        topic=topic.target,
        partition=partition,
        kind=kind,
        fields=(),
        source_offset=-1,
        target_offset=-1,
        records=0,
        detail=detail,
    )


def _topics(
    topics: Sequence[ExpectedTopic], checked: Sequence[_Checked], uncompared: Sequence[Uncompared]
) -> dict[str, ProvenTopic]:
    partitions: dict[str, list[ProvenPartition]] = {topic.target: [] for topic in topics}
    for each in checked:
        if isinstance(each.outcome, PartitionProof):
            partitions[each.check.topic.target].append(_partition(each.check, each.outcome))
        elif isinstance(each.outcome, Damaged):
            partitions[each.check.topic.target].append(
                _unread(each.check.target.partition, each.outcome.message, verified=False)
            )
    known = {each.check.target.topic_partition for each in checked if isinstance(each.outcome, PartitionProof)}
    for left in uncompared:
        if TopicPartition(topic=left.topic, partition=left.partition) in known:
            continue
        partitions[left.topic].append(_unread(left.partition, left.message, verified=None))
    return {topic.target: _topic(topic, partitions[topic.target]) for topic in topics}


def _topic(topic: ExpectedTopic, partitions: Sequence[ProvenPartition]) -> ProvenTopic:
    verdicts = [each.verified for each in partitions]
    unknown = any(each.problem for each in partitions)
    return ProvenTopic(
        source=topic.source,
        verified=False if False in verdicts else True if True in verdicts and not unknown else None,
        records=sum(each.records for each in partitions),
        partitions=tuple(sorted(partitions, key=lambda each: each.partition)),
    )


def _partition(check: Check, proof: PartitionProof) -> ProvenPartition:
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


def _unread(partition: int, problem: str, *, verified: bool | None) -> ProvenPartition:
    return ProvenPartition(
        partition=partition,
        verified=verified,
        records=0,
        markers=0,
        decoded_records=0,
        compacted_records=0,
        digest="",
        target_start=-1,
        target_end=-1,
        later_offsets=0,
        expired_offsets=0,
        hole_offsets=0,
        problem=problem,
    )
