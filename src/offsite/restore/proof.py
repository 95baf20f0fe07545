"""The end of a restore: the written records are read back and compared with the backup, and the result is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.engine.runner import OnProgress, Runner
from offsite.kafka.cluster import TopicOffsetSource
from offsite.log.range import TopicPartition
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.outcome import RepartitionedTopic, RestoredPartition, RestoreOutcome
from offsite.restore.compare.expected import expected_topics
from offsite.restore.compare.maps import RestoredMaps
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.partitions import prove
from offsite.restore.compare.result import Proof, ProofFinding
from offsite.restore.write.plan import RestorePlan
from offsite.restore.write.preserve.plan import OffsetsVerdict
from offsite.stores.store import Store


def with_preserved(plan: RestorePlan, offsets: Iterable[OffsetsVerdict]) -> RestorePlan:
    """The plan with the real chains of preserved topics: empty partitions have bounds as well."""
    preserved = {topic.target: topic.partitions for topic in offsets if topic.preserve}
    translated = (chain for chain in plan.partitions if chain.target.topic not in preserved)
    return replace(
        plan,
        partitions=(*translated, *(partition.chain for partitions in preserved.values() for partition in partitions)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRestore:
    """A restore as written: all of `plan`, into target partitions that began at `starts`; `makings`: how often target
    topics were made; `same_offsets`: target topics with records at the offsets of the source. `read_committed`: without
    aborted records."""

    plan: RestorePlan
    starts: Mapping[TopicPartition, int]
    makings: tuple[tuple[str, int], ...]
    read_committed: bool
    same_offsets: frozenset[str]

    def maps(self, store: Store, layout: RestoreLayout) -> RestoredMaps:
        """The offset maps of the written records, in `store`."""
        return RestoredMaps(store=store, layout=layout, makings=self.makings, starts=tuple(self.starts.items()))


def prove_restore(
    restored: WrittenRestore,
    *,
    ends: ProofEnds,
    admin: TopicOffsetSource,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> Proof:
    """The proof of a restore: read all of it back and compare, including the offset maps named in `ends`. No record may
    have been added during the proof. Raises the errors of `prove`."""
    written = admin.end_offsets(restored.starts)
    expected = expected_topics(
        restored.plan,
        starts=restored.starts,
        read_committed=restored.read_committed,
        same_offsets=restored.same_offsets,
    )
    proof = prove(expected, ends=ends, admin=admin, runner=runner, on_progress=on_progress)
    with_findings = {(finding.topic, finding.partition) for finding in proof.findings}
    now = admin.end_offsets(restored.starts)
    grown = tuple(
        e for e in _grown(restored, _ends(restored, written, proof), now) if (e.topic, e.partition) not in with_findings
    )
    return replace(proof, verified=False if grown else proof.verified, findings=(*proof.findings, *grown))


def _ends(
    restored: WrittenRestore, log_ends: Mapping[TopicPartition, int], proof: Proof
) -> Mapping[TopicPartition, int]:
    """The ends of the partitions before the comparison: at least the end of the records found by the comparison, even
    if a leader did not know its end yet and answered a lower one."""
    compared_ends = {
        TopicPartition(topic=name, partition=partition.partition): partition.target_end
        for name, topic in proof.topics.items()
        for partition in topic.partitions
    }
    preserved_ends = {
        chain.target: chain.end for chain in restored.plan.partitions if chain.target.topic in restored.same_offsets
    }
    return {key: max(end, compared_ends.get(key, 0), preserved_ends.get(key, 0)) for key, end in log_ends.items()}


def _grown(
    restored: WrittenRestore, before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
) -> Iterator[ProofFinding]:
    """A lower end than before says nothing: the records up to the earlier end were read."""
    sources = {topic.target: topic.source.topic for topic in restored.plan.topics}
    for target, end in before.items():
        if now[target] > end:
            yield ProofFinding(
                source=sources.get(target.topic, target.topic),
                topic=target.topic,
                partition=target.partition,
                kind="extra",
                fields=(),
                source_offset=-1,
                target_offset=end,
                records=now[target] - end,
                detail=f"it grew from offset {end} to {now[target]} during the comparison: other clients write to it",
            )


def restore_outcome(restored: WrittenRestore, *, records: int, size_bytes: int, proof: Proof | None) -> RestoreOutcome:
    """The outcome of a restore to record at its end, for later comparisons."""
    return RestoreOutcome(
        records=records,
        size_bytes=size_bytes,
        verified=None if proof is None else proof.verified,
        findings=() if proof is None else tuple(f"{finding.where}: {finding.what}" for finding in proof.findings),
        partitions=tuple(_partitions(restored, proof)),
        repartitioned=tuple(
            RepartitionedTopic(
                target=repartition.target,
                partitions=repartition.partitions,
                keyless_in_turn=repartition.keyless_in_turn,
                sources=tuple((chain.source, chain.end) for chain in repartition.sources),
            )
            for repartition in restored.plan.repartitions
        ),
    )


def _partitions(restored: WrittenRestore, proof: Proof | None) -> Iterator[RestoredPartition]:
    digests = {
        TopicPartition(topic=name, partition=partition.partition): partition.digest
        for name, topic in ({} if proof is None else proof.topics).items()
        for partition in topic.partitions
    }
    for chain in restored.plan.partitions:
        yield RestoredPartition(
            source=chain.source,
            source_end=chain.end,
            target=chain.target,
            target_start=restored.starts[chain.target],
            same_offsets=chain.target.topic in restored.same_offsets,
            digest=digests.get(chain.target, ""),
        )
