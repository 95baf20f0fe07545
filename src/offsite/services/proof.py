"""Does a live cluster hold what a backup says? Compared partition by partition, in Spark, both ends read in full.

Owns what a finding is called. Changes nothing, on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.list_offsets import READ_COMMITTED
from offsite.log.range import LogRange, TopicPartition
from offsite.pipeline.proof import PartitionProof, ProofEnds, nothing_to_prove, prove_partition
from offsite.pipeline.proof_repartition import RepartitionProofTask, prove_repartition, repartition_proof_tasks
from offsite.pipeline.runner import OnProgress, Runner
from offsite.services.expected import Check, ExpectedTopic, PartitionBounds, checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The first difference in one partition; `partition` is -1 when it concerns the whole topic. `kind`: `changed`,
    `missing`, `extra`, `reordered` (see `Difference`), `topic` (there is none), `partitions` (another number) or
    `bounds` (the log does not start and end where it should)."""

    source: str
    topic: str
    partition: int
    kind: str
    fields: tuple[str, ...]
    source_offset: int
    target_offset: int
    records: int
    detail: str

    @property
    def where(self) -> str:
        """`topic/partition (from source), source offset N, target offset M`, as far as there are any."""
        place = self.topic if self.partition < 0 else f"{self.topic}/{self.partition}"
        renamed = f" (from {self.source})" if self.source != self.topic else ""
        sides = {"source offset": self.source_offset, "target offset": self.target_offset}
        return ", ".join([f"{place}{renamed}", *(f"{side} {at}" for side, at in sides.items() if at >= 0)])

    @property
    def what(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenPartition:
    """`records` are the same at both ends; `digest` is over them all, empty when there is a difference
    or when records from several partitions were compared.

    `later_offsets`: how far the cluster went on after the backup's end; `expired_offsets`: what it has deleted at the
    beginning since; `compacted_records`: what compaction took out since. None of it counts, unless the proof is exact.
    """

    partition: int
    records: int
    decoded_records: int
    compacted_records: int
    digest: str
    target_start: int
    target_end: int
    later_offsets: int
    expired_offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenTopic:
    """One topic, named as in the cluster."""

    source: str
    records: int
    partitions: tuple[ProvenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """`verified`: every topic was compared and no difference found. `findings` has the first difference of each
    partition."""

    verified: bool
    records: int
    topics: Mapping[str, ProvenTopic]
    findings: tuple[Finding, ...]


def prove(
    expected: Sequence[ExpectedTopic],
    *,
    ends: ProofEnds,
    admin: ClusterAdmin,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> Proof:
    """Compare every partition with what is expected of it, up to where the cluster ends now.

    A difference is a result. Raises `DamagedObject`, `Denied`, and `KafkaUnavailable` or `StoreUnavailable` when an end
    stays away.
    """
    counts = {name: len(topic.partitions) for name, topic in admin.topics().items()}
    comparable = [topic for topic in expected if counts.get(topic.target) == topic.partitions]
    bounds = _bounds(comparable, admin)
    to_check = [check for topic in comparable for check in checks(topic, bounds, exact=ends.exact)]
    results = _compare(to_check, ends, runner, on_progress)
    unlike = [_unlike(t, counts.get(t.target, 0)) for t in expected if t not in comparable]
    findings = (*unlike, *(found for check, proof in results for found in _findings(check, proof)))
    topics = _topics(comparable, results)
    return Proof(
        verified=not findings,
        records=sum(topic.records for topic in topics.values()),
        topics=topics,
        findings=findings,
    )


def _bounds(topics: Sequence[ExpectedTopic], admin: ClusterAdmin) -> dict[TopicPartition, PartitionBounds]:
    committed = _partitions_of(t for t in topics if t.read_committed)
    others = _partitions_of(t for t in topics if not t.read_committed)
    starts = admin.start_offsets([*committed, *others])
    last = {**admin.end_offsets(committed, isolation=READ_COMMITTED), **admin.end_offsets(others)}
    return {each: PartitionBounds(start=starts[each], end=last[each]) for each in starts}


def _partitions_of(topics: Iterable[ExpectedTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic=t.target, partition=number) for t in topics for number in range(t.partitions)]


def _compare(
    to_check: Sequence[Check], ends: ProofEnds, runner: Runner, on_progress: OnProgress | None
) -> list[tuple[Check, PartitionProof]]:
    tasks = [check.task for check in to_check if check.task is not None]
    read = runner.run(tasks, partial(prove_partition, ends=ends), on_progress=on_progress) if tasks else []
    mixed = _repartition_tasks(to_check)
    mixed_read = runner.run(mixed, partial(prove_repartition, ends=ends), on_progress=on_progress) if mixed else []
    own, by_key = iter(read), (proof for proofs in mixed_read for proof in proofs)
    return [(check, _proof_of(check, own, by_key)) for check in to_check]


def _proof_of(check: Check, own: Iterator[PartitionProof], by_key: Iterator[PartitionProof]) -> PartitionProof:
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


def _findings(check: Check, proof: PartitionProof) -> Iterator[Finding]:
    """At most one for each partition."""
    partition, difference = check.target.partition, proof.difference
    if difference is not None:
        yield Finding(
            source=check.topic.source,
            topic=check.topic.target,
            partition=partition,
            kind=difference.kind,
            fields=difference.fields,
            source_offset=difference.source_offset,
            target_offset=difference.target_offset,
            records=difference.records,
            detail=difference.detail,
        )
    elif check.wrong_bounds:
        yield _finding(check.topic, "bounds", check.wrong_bounds, partition=partition)


def _finding(topic: ExpectedTopic, kind: str, detail: str, *, partition: int = -1) -> Finding:
    """One that is not about a record."""
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


def _topics(topics: Sequence[ExpectedTopic], results: Sequence[tuple[Check, PartitionProof]]) -> dict[str, ProvenTopic]:
    partitions: dict[str, list[ProvenPartition]] = {topic.target: [] for topic in topics}
    for check, proof in results:
        partitions[check.topic.target].append(_partition(check, proof))
    return {
        topic.target: ProvenTopic(
            source=topic.source,
            records=sum(each.records for each in partitions[topic.target]),
            partitions=tuple(partitions[topic.target]),
        )
        for topic in topics
    }


def _partition(check: Check, proof: PartitionProof) -> ProvenPartition:
    target = check.target
    return ProvenPartition(
        partition=target.partition,
        records=proof.records,
        decoded_records=proof.decoded_records,
        compacted_records=proof.compacted_records,
        digest=f"blake3:{proof.digest}" if proof.digest and not proof.difference else "",
        target_start=target.start,
        target_end=proof.next_target,
        later_offsets=0 if proof.difference else target.end - proof.next_target,
        expired_offsets=check.expired_offsets,
    )
