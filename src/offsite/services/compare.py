"""A backup against a live cluster: the cluster it came from, one it was restored into, or any other copy.

A restore is compared by what it remembers of itself. Without one, topics are compared under their own names as of a
commit: with their offsets where the cluster has the very topics that were backed up, else by their records in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, NoSuchRestore
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.rename import Renames
from offsite.model.selection import TopicSelection
from offsite.pipeline.proof import ProofEnds
from offsite.pipeline.restore_plan import PartitionRestore, Repartition, RestorePlan, plan_restore
from offsite.pipeline.runner import OnProgress, Runner
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.restore_layout import RestoreLayout
from offsite.repository.restore_outcome import RepartitionedTopic, RestoredPartition, RestoreOutcome, get_outcome
from offsite.repository.restore_record import RestoreRecord, find_record, get_targets
from offsite.repository.state import BackupState
from offsite.services.expected import ExpectedTopic, expected_topics
from offsite.services.proof import Finding, ProvenTopic, prove


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """`restore` names one whose targets are compared; else `commit` (None: the newest) and `read_committed` say what
    is expected. `exact`: what the cluster has after the backup's end, or has deleted since, is a difference."""

    selection: TopicSelection
    restore: str | None = None
    commit: int | None = None
    read_committed: bool = True
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """A decided comparison: nothing was read yet. `restore` is empty when it is not about one."""

    backup: Backup
    commit: int
    cluster_id: str
    restore: str
    expected: tuple[ExpectedTopic, ...]
    exact: bool

    @property
    def raw_bytes(self) -> int:
        return sum(topic.raw_bytes for topic in self.expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """`same_offsets` are the topics whose offsets were compared too. `findings` has the first difference of each
    partition."""

    verified: bool
    commit: int
    restore: str
    cluster_id: str
    exact: bool
    records: int
    same_offsets: tuple[str, ...]
    topics: Mapping[str, ProvenTopic]
    findings: tuple[Finding, ...]


def plan_comparison(backup: Backup, admin: ClusterAdmin, request: CompareRequest) -> PlannedComparison:
    """Decide what is expected of the cluster.

    Raises `NoSuchTopic`, `NoSuchRestorePoint`, `NoSuchRestore`, and `BadOption` for a restore into another cluster.
    """
    cluster_id = admin.cluster().cluster_id
    if request.restore is not None:
        return _of_restore(backup, cluster_id, request, request.restore)
    head = backup.state()
    point = backup.state_at(head.seq if request.commit is None else request.commit, head=head)
    plan = plan_restore(point, request.selection, renames=Renames(), target_topics=())
    return PlannedComparison(
        backup=backup,
        commit=point.seq,
        cluster_id=cluster_id,
        restore="",
        expected=tuple(_named_alike(plan, admin, request)),
        exact=request.exact,
    )


def run_comparison(
    planned: PlannedComparison,
    *,
    admin: ClusterAdmin,
    kafka: KafkaConfig,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> CompareResult:
    """Read both ends and compare. A difference is a result. Raises what `prove` raises."""
    ends = ProofEnds(kafka=kafka, store=planned.backup.store, exact=planned.exact)
    proof = prove(planned.expected, ends=ends, admin=admin, runner=runner, on_progress=on_progress)
    return CompareResult(
        verified=proof.verified,
        commit=planned.commit,
        restore=planned.restore,
        cluster_id=planned.cluster_id,
        exact=planned.exact,
        records=proof.records,
        same_offsets=tuple(topic.target for topic in planned.expected if topic.same_offsets),
        topics=proof.topics,
        findings=proof.findings,
    )


def _named_alike(plan: RestorePlan, admin: ClusterAdmin, request: CompareRequest) -> Iterator[ExpectedTopic]:
    """Topics under their own names. Of which the cluster has the very incarnation that was backed up, the log itself
    must be the same: all offsets, whatever became of transactions since. Only compaction goes on."""
    existing = {name: str(topic.topic_id) for name, topic in admin.topics().items() if topic.topic_id is not None}
    same = {topic.target for topic in plan.topics if existing.get(topic.target) == topic.source.topic_id}
    configs = admin.topic_configs(same, with_defaults=True) if same and not request.exact else {}
    for topic in expected_topics(plan, starts=None, read_committed=request.read_committed, same_offsets=same):
        policy = configs.get(topic.target, {}).get("cleanup.policy", "")
        yield replace(
            topic,
            read_committed=topic.read_committed and not topic.same_offsets,
            compacted="compact" in policy,
        )


def _of_restore(backup: Backup, cluster_id: str, request: CompareRequest, restore: str) -> PlannedComparison:
    layout = RestoreLayout(backup=backup.layout, restore=restore)
    record, outcome = find_record(backup.store, layout), get_outcome(backup.store, layout)
    if record is None:
        raise NoSuchRestore(f"backup {backup.descriptor.name} has no restore {restore}")
    if outcome is None:
        raise NoSuchRestore(
            f"restore {restore} has not ended", hint="run its command again: it continues, and compares at its end"
        )
    if record.cluster_id != cluster_id:
        raise BadOption(
            f"restore {restore} went into cluster {record.cluster_id}, this is cluster {cluster_id}",
            hint="name that cluster's brokers with --against, or leave --restore out to compare by topic names",
        )
    targets = get_targets(backup.store, layout)
    return PlannedComparison(
        backup=backup,
        commit=record.commit,
        cluster_id=cluster_id,
        restore=restore,
        expected=tuple(
            _restored_topics(backup, record, outcome, {} if targets is None else dict(targets.starts), request)
        ),
        exact=request.exact,
    )


def _restored_topics(
    backup: Backup,
    record: RestoreRecord,
    outcome: RestoreOutcome,
    starts: Mapping[TopicPartition, int],
    request: CompareRequest,
) -> Iterator[ExpectedTopic]:
    point = backup.state_at(record.commit)
    selected = set(request.selection.select(dict(record.topics), internal=PROTECTED_TOPICS))
    mixed = {each.target: each for each in outcome.repartitioned}
    for source, target in record.topics:
        if source in selected:
            own = [each for each in outcome.partitions if each.target.topic == target]
            yield ExpectedTopic(
                source=source,
                target=target,
                partitions=sum(each.topic == target for each in starts),
                chains=tuple(_chain(each, point, record.until_ms) for each in own),
                starts={each.partition: start for each, start in starts.items() if each.topic == target},
                read_committed=record.isolation == "read_committed",
                same_offsets=any(each.same_offsets for each in own),
                same_bounds=any(each.same_offsets for each in own),
                repartition=_repartition(mixed[target], point, record.until_ms) if target in mixed else None,
            )


def _chain(restored: RestoredPartition, point: BackupState, until_ms: int | None) -> PartitionRestore:
    return _source_chain(restored.source, restored.source_end, restored.target, point, until_ms)


def _repartition(mixed: RepartitionedTopic, point: BackupState, until_ms: int | None) -> Repartition:
    return Repartition(
        target=mixed.target,
        partitions=mixed.partitions,
        sources=tuple(
            _source_chain(source, end, TopicPartition(topic=mixed.target, partition=source.partition), point, until_ms)
            for source, end in mixed.sources
        ),
        keyless_in_turn=mixed.keyless_in_turn,
    )


def _source_chain(
    source: PartitionId, end: int, target: TopicPartition, point: BackupState, until_ms: int | None
) -> PartitionRestore:
    segments = tuple(segment for segment in point.segments.get(source, ()) if segment.start < end)
    return PartitionRestore(source=source, target=target, segments=segments, end=end, until_ms=until_ms)
