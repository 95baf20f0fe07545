"""The end and the result of a restore: the written records are read back and compared with the backup, the outcome is
recorded, and the result says it to people and scripts.

A result must never claim a verification that did not happen, nor call a backup empty when the command left out its
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from offsite.engine.runner import OnProgress, Runner
from offsite.groups.run import AppliedGroups
from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import TopicPartition
from offsite.model.units import format_time
from offsite.points.incarnations import IncarnationSummary
from offsite.points.point_in_time import PointInTime
from offsite.reports.point_report import ConsistencyReport, HoleReport
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.outcome import RepartitionedTopic, RestoredPartition, RestoreOutcome
from offsite.repository.restores.record import RestoreRecord
from offsite.restore.cluster_settings import AppliedMetadata
from offsite.restore.compare.expected import expected_topics
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import Proof, ProofFinding, UncomparedPartition, prove
from offsite.restore.compare.target import RestoredMaps
from offsite.restore.offsets import OffsetsVerdict
from offsite.restore.write.plan import RestorePlan
from offsite.stores.store import Store

_NAMED_MAX = 12
"""Topics in one sentence."""
_TEXT_MAX = 120
"""Characters of an option's value in one sentence."""
_CUTS = (("checkpoint", "--checkpoint"), ("ends", "--offsets-file"), ("before", "--before"))
"""Fields of a request that end partitions before the end of the commit, and their options."""


def with_preserved(plan: RestorePlan, offsets: Iterable[OffsetsVerdict]) -> RestorePlan:
    """The plan with the real chains of preserved topics: empty partitions have bounds as well."""
    preserved = {topic.target: topic.partitions for topic in offsets if topic.preserve}
    translated = (partition for partition in plan.partitions if partition.target.topic not in preserved)
    return replace(
        plan,
        partitions=(*translated, *(kept.partition for partitions in preserved.values() for kept in partitions)),
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
    admin: ClusterAdmin,
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
        partition.target: partition.chain.end
        for partition in restored.plan.partitions
        if partition.target.topic in restored.same_offsets
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
    for partition in restored.plan.partitions:
        yield RestoredPartition(
            source=partition.chain.source,
            source_end=partition.chain.end,
            target=partition.target,
            target_start=restored.starts[partition.target],
            same_offsets=partition.target.topic in restored.same_offsets,
            digest=digests.get(partition.target, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedRecords:
    """Records of the backup at the commit that `options` left out; several options count together."""

    options: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """Result for one topic. `records` are in the target; `invisible_records` were left out as aborted or undecided at
    the restore point, or, with `same_offsets`, are in the target and aborted."""

    source: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    undecided_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Result of a restore.

    - `topics` by target name; `skipped` lists (topic, reason).
    - `held_back` lists (topic, setting, value): settings of the source not set, because they would delete restored
      records at once; `left_out` lists (topic, setting, reason): settings that the target cannot have.
    - `verified`: the written records were read back and equal the backup. None when not read (`compared_records` is
      None, too), without anything to compare, or with unreadable partitions (`uncompared`).
    - `findings` has the first difference of every partition. `lacking`: data of the restored topics that the backup
      itself lacks. `expected_deletions`: number of holes without a loss, not counted in `holes`.
    - `groups` is None when no groups were requested. `incarnations`: of topics deleted and created again, the taken
      incarnation and the rest.
    - Without any restored record, `problem` gives the reason, and `excluded` the records of the backup by the options
      that left them out.
    - `newer_commit`: the commit that the request means by now, when later than `commit`; None: not later, or unknown.
    - `consistency`: how far the topics are consistent with one another, and the transactions left out. `notes`:
      sentences for a person, for instance about settings that somebody changed meanwhile.
    """

    restore: str
    backup: str
    commit: int
    offsets: str
    isolation: str
    resumed: bool
    records: int
    bytes: int
    topics: Mapping[str, RestoredTopic]
    skipped: tuple[tuple[str, str], ...]
    held_back: tuple[tuple[str, str, str], ...]
    left_out: tuple[tuple[str, str, str], ...]
    holes: int
    verified: bool | None
    findings: tuple[ProofFinding, ...]
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    groups: AppliedGroups | None = None
    compared_records: int | None = None
    uncompared: tuple[UncomparedPartition, ...] = ()
    lacking: tuple[HoleReport, ...] = ()
    incarnations: tuple[IncarnationSummary, ...] = ()
    problem: str = ""
    excluded: tuple[ExcludedRecords, ...] = ()
    notes: tuple[str, ...] = ()
    newer_commit: int | None = None
    consistency: ConsistencyReport | None = None
    expected_deletions: int = 0


def excluded_records(
    point: PointInTime, plan: RestorePlan, record: RestoreRecord, *, invisible_records: int
) -> tuple[ExcludedRecords, ...]:
    """The records of the plan's topics in the backup, although only `invisible_records` (aborted or undecided) came
    back, by the options responsible."""
    incarnations = {topic.source.incarnation for topic in plan.topics}
    backup_records = {
        partition: sum(segment.records for segment in segments)
        for partition, segments in point.commit.segments.items()
        if partition.incarnation in incarnations
    }
    chosen = {
        partition: n
        for partition, n in backup_records.items()
        if point.partitions.includes(partition.topic, partition.partition)
    }
    is_cut = any(point.state.positions[partition].end < point.commit.positions[partition].end for partition in chosen)
    exclusions = (
        ExcludedRecords(
            options=(_option("--partitions", str(point.partitions)),),
            records=sum(backup_records.values()) - sum(chosen.values()),
        ),
        ExcludedRecords(
            options=tuple(_point_options(point, dict(record.request), is_cut=is_cut)),
            records=sum(chosen.values()) - invisible_records,
        ),
    )
    return tuple(exclusion for exclusion in exclusions if exclusion.options and exclusion.records > 0)


def describe_nothing_restored(result: RestoreResult) -> str:
    """The sentence for a restore without records; empty for any other restore."""
    if result.records:
        return ""
    topics = _topics(result)
    aborted = sum(topic.invisible_records for topic in result.topics.values())
    is_left_out = result.consistency is not None and result.consistency.left_out_count > 0
    kinds = "aborted, undecided or left out by the cut" if is_left_out else "aborted or undecided"
    but = f", but {aborted:,} {kinds} ones" if aborted else ""
    if not result.excluded:
        return f"nothing was restored: at commit {result.commit} the backup has no records of {topics}{but}"
    parts = [f"{' and '.join(exclusion.options)} left out {exclusion.records:,}" for exclusion in result.excluded]
    aborted_note = f"; the other {aborted:,} are {kinds}" if aborted else ""
    total = aborted + sum(exclusion.records for exclusion in result.excluded)
    return (
        f"nothing was restored: of the {total:,} records of {topics} that the backup has at commit {result.commit}, "
        f"{', '.join(parts)}{aborted_note}"
    )


def _point_options(point: PointInTime, request: dict[str, str], *, is_cut: bool) -> Iterator[str]:
    if point.until_ms is not None:
        yield f"--at {format_time(point.until_ms)}"
    if is_cut and point.cut.used is not None:
        yield "--cut consistent"
    for name, option in _CUTS if is_cut else ():
        if name in request:
            yield option if name == "ends" else _option(option, request[name])


def _option(name: str, value: str) -> str:
    return f"{name} {value if len(value) <= _TEXT_MAX else f'{value[:_TEXT_MAX]}…'}"


def _topics(result: RestoreResult) -> str:
    chosen = {incarnation.topic: incarnation for incarnation in result.incarnations if incarnation.taken}
    names = [
        f"{topic.source} (incarnation {chosen[topic.source].number})" if topic.source in chosen else topic.source
        for topic in sorted(result.topics.values(), key=lambda topic: topic.source)
    ]
    more = f" and {len(names) - _NAMED_MAX:,} more topics" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{more}"
