"""Does a live cluster hold what a backup says? Compared partition by partition, in Spark, both ends read in full.

Owns what is expected of which topic and what a finding is called. Changes nothing, on either side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.list_offsets import READ_COMMITTED
from offsite.log.range import LogRange, TopicPartition
from offsite.pipeline.proof import PartitionProof, ProofEnds, ProofTask, nothing_to_prove, prove_partition
from offsite.pipeline.restore_plan import PartitionRestore, RestorePlan
from offsite.pipeline.runner import OnProgress, Runner
from offsite.repository.commit import PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTopic:
    """What `target` should hold: the records of `chains`, one for each partition that holds anything, and nothing in
    the other ones of `partitions`.

    `read_committed`: of what consumers of that isolation see. `starts`: where each target partition began, as a restore
    remembers it; None: at its log start. `same_offsets`: records must have their source's offsets; a `compacted` topic
    may then lack some of them.
    """

    source: str
    target: str
    partitions: int
    chains: tuple[PartitionRestore, ...]
    starts: Mapping[int, int] | None
    read_committed: bool
    same_offsets: bool
    compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The first difference in one partition; `partition` is -1 when it concerns the whole topic. `kind`: `changed`,
    `missing`, `extra`, `reordered` (see `Difference`), `topic` (there is none) or `partitions` (another number)."""

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
    """`records` are the same at both ends; `digest` is over them all, empty when there is a difference.

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


def expected_topics(
    plan: RestorePlan,
    *,
    starts: Mapping[TopicPartition, int] | None,
    read_committed: bool,
    same_offsets: Collection[str],
) -> list[ExpectedTopic]:
    """What a restore by `plan` leaves behind, when its target partitions began at `starts`. `same_offsets` are the
    target topics that keep the source's offsets. Topics with another number of partitions are not compared this way."""
    chains: dict[str, list[PartitionRestore]] = {topic.target: [] for topic in plan.topics}
    for chain in plan.partitions:
        chains[chain.target.topic].append(chain)
    begun: dict[str, dict[int, int]] = {topic.target: {} for topic in plan.topics}
    for each, start in (starts or {}).items():
        begun[each.topic][each.partition] = start
    return [
        ExpectedTopic(
            source=topic.source.topic,
            target=topic.target,
            partitions=topic.source.partitions,
            chains=tuple(chains[topic.target]),
            starts=None if starts is None else begun[topic.target],
            read_committed=read_committed,
            same_offsets=topic.target in same_offsets,
        )
        for topic in plan.topics
        if topic.repartition is None
    ]


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
    checks = _checks(comparable, admin, ends)
    tasks = [check.task for check in checks if check.is_read]
    proofs = runner.run(tasks, partial(prove_partition, ends=ends), on_progress=on_progress) if tasks else []
    answers = iter(proofs)
    results = [(each, next(answers) if each.is_read else nothing_to_prove(each.task)) for each in checks]
    unlike = [_unlike(t, counts.get(t.target, 0)) for t in expected if t not in comparable]
    findings = (*unlike, *(found for check, proof in results for found in _findings(check, proof)))
    topics = _topics(comparable, results)
    return Proof(
        verified=not findings,
        records=sum(topic.records for topic in topics.values()),
        topics=topics,
        findings=findings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One partition's task. `is_read` is false where that would tell nothing: the backup has no record of it, and what
    the cluster has, if anything, does not count."""

    topic: ExpectedTopic
    task: ProofTask
    expired_offsets: int
    is_read: bool


def _checks(topics: Sequence[ExpectedTopic], admin: ClusterAdmin, ends: ProofEnds) -> list[_Check]:
    committed = _partitions_of(t for t in topics if t.read_committed)
    others = _partitions_of(t for t in topics if not t.read_committed)
    starts = admin.start_offsets([*committed, *others])
    last = {**admin.end_offsets(committed, isolation=READ_COMMITTED), **admin.end_offsets(others)}
    return [
        _check(topic, chain, start=starts[chain.target], end=last[chain.target], exact=ends.exact)
        for topic in topics
        for chain in _all_chains(topic)
    ]


def _partitions_of(topics: Iterable[ExpectedTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic=t.target, partition=number) for t in topics for number in range(t.partitions)]


def _all_chains(topic: ExpectedTopic) -> Iterator[PartitionRestore]:
    """Those of the plan, and one without segments for each partition that should be empty."""
    known = {chain.target.partition: chain for chain in topic.chains}
    for number in range(topic.partitions):
        target = TopicPartition(topic=topic.target, partition=number)
        source = PartitionId(topic=topic.source, topic_id="", partition=number)
        yield known.get(number) or PartitionRestore(source=source, target=target, segments=(), end=0)


def _check(topic: ExpectedTopic, chain: PartitionRestore, *, start: int, end: int, exact: bool) -> _Check:
    """`start` and `end` are the cluster's. A restore without the source's offsets is found by where it began."""
    number = chain.target.partition
    begun = start if topic.starts is None else topic.starts[number]
    if topic.same_offsets:
        begun = chain.segments[0].start if chain.segments else start
    expired = max(0, start - begun)
    low = start if topic.same_offsets else max(start, begun)
    task = ProofTask(
        partition=chain,
        target=LogRange(topic=topic.target, partition=number, start=low, end=max(low, end)),
        read_committed=topic.read_committed,
        offsets=topic.same_offsets,
        compacted=topic.compacted,
        skip_below=start if topic.same_offsets and not exact else 0,
        skip_records=expired if not topic.same_offsets and not exact else 0,
    )
    is_read = bool(chain.segments) or (exact and len(task.target) > 0)
    return _Check(topic=topic, task=task, expired_offsets=expired, is_read=is_read)


def _unlike(topic: ExpectedTopic, partitions: int) -> Finding:
    """A topic that cannot be compared."""
    if partitions:
        kind, detail = "partitions", f"{partitions} partitions instead of {topic.partitions}"
    else:
        kind, detail = "topic", "the cluster has no such topic"
    return Finding(
        source=topic.source,
        topic=topic.target,
        partition=-1,
        kind=kind,
        fields=(),
        source_offset=-1,
        target_offset=-1,
        records=0,
        detail=detail,
    )


def _findings(check: _Check, proof: PartitionProof) -> Iterator[Finding]:
    if (difference := proof.difference) is not None:
        yield Finding(
            source=check.topic.source,
            topic=check.topic.target,
            partition=check.task.target.partition,
            kind=difference.kind,
            fields=difference.fields,
            source_offset=difference.source_offset,
            target_offset=difference.target_offset,
            records=difference.records,
            detail=difference.detail,
        )


def _topics(
    topics: Sequence[ExpectedTopic], results: Sequence[tuple[_Check, PartitionProof]]
) -> dict[str, ProvenTopic]:
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


def _partition(check: _Check, proof: PartitionProof) -> ProvenPartition:
    target = check.task.target
    return ProvenPartition(
        partition=target.partition,
        records=proof.records,
        decoded_records=proof.decoded_records,
        compacted_records=proof.compacted_records,
        digest="" if proof.difference else f"blake3:{proof.digest}",
        target_start=target.start,
        target_end=proof.next_target,
        later_offsets=0 if proof.difference else target.end - proof.next_target,
        expired_offsets=check.expired_offsets,
    )
