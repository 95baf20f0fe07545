"""A backup against a live cluster: the backup's source, the target of a restore, or any other copy.

A restore is compared by its own record. Without a restore, topics are compared under their own names as of a commit:
log by log if the cluster has the very topics of the backup (see `topics`), else record by record in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.engine.runner import OnProgress, Runner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.cleanup_policy import is_compacted
from offsite.model.errors import BadOption, NoSuchRestore
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.options import Isolation
from offsite.model.selection import TopicSelection
from offsite.points.point_cut import choose_cut
from offsite.points.point_in_time import (
    PartitionChain,
    PointInTime,
    SelectedChains,
    chain_to,
    hole_starts,
    select_chains,
)
from offsite.reports.point_report import BranchReport, HoleReport, branch_reports, hole_reports
from offsite.repository.backup import Backup
from offsite.repository.commit import RecordedHole, TopicShape
from offsite.repository.records_place import GIVEN_AGAIN
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RepartitionedTopic,
    RestoreOutcome,
    RestoreRecord,
    find_record,
    get_outcome,
    get_targets,
)
from offsite.repository.state import BackupState
from offsite.restore.compare.expected import ExpectedTopic, preserved_extents
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import ProofFinding, ProvenTopic, UncomparedPartition, prove
from offsite.restore.compare.topics import (
    LeftOutTopic,
    leave_out_as_compacted,
    leave_out_compacted,
    leave_out_deleted,
    log_extents,
    same_topics,
)
from offsite.restore.rewritten_ids import stored_rewrite
from offsite.restore.write.plan import Repartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """The request. `restore` names the restore with the targets to compare; else `commit` (None: the newest) and
    `read_committed` define the expected records. `exact`: records after the backup's end, or deleted since, are a
    difference."""

    selection: TopicSelection
    restore: str | None = None
    commit: int | None = None
    read_committed: bool = True
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """A decided comparison: nothing was read yet. `restore` is empty without a restore. `by_name` are topics matched
    with the source by name alone: neither side has topic ids. `lacking`: data of the topics that the backup itself
    lacks. `left_out` topics are not compared; nor are `branches`, old histories of the topics' logs: the history that
    continues is compared."""

    backup: Backup
    commit: int
    cluster_id: str
    restore: str
    expected: tuple[ExpectedTopic, ...]
    exact: bool
    by_name: tuple[str, ...]
    lacking: tuple[HoleReport, ...]
    left_out: tuple[LeftOutTopic, ...] = ()
    branches: tuple[BranchReport, ...] = ()

    @property
    def raw_bytes(self) -> int:
        return sum(topic.raw_bytes for topic in self.expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """Result of a comparison. `verified`: True when records were compared and all are equal; False with `findings`, the
    first difference of every partition; None without anything to compare, or with partitions that could not be read
    (`uncompared`). `compared_records` are equal at both ends; `empty_partitions` had nothing to compare.

    `same_offsets` are the topics with compared offsets. `by_name`, `lacking`, `left_out`, `branches`: see
    `PlannedComparison`.
    """

    verified: bool | None
    commit: int
    restore: str
    cluster_id: str
    exact: bool
    records: int
    compared_records: int
    compared_partitions: int
    empty_partitions: int
    same_offsets: tuple[str, ...]
    by_name: tuple[str, ...]
    topics: Mapping[str, ProvenTopic]
    findings: tuple[ProofFinding, ...]
    uncompared: tuple[UncomparedPartition, ...]
    lacking: tuple[HoleReport, ...]
    left_out: tuple[LeftOutTopic, ...] = ()
    branches: tuple[BranchReport, ...] = ()


def plan_comparison(backup: Backup, admin: ClusterAdmin, request: CompareRequest) -> PlannedComparison:
    """The plan of a comparison: the records expected of the cluster.

    Raises `NoSuchTopic`, `NoSuchRestorePoint`, `NoSuchRestore`, and `BadOption` for a restore into another cluster.
    """
    cluster_id = admin.cluster().cluster_id
    backup = backup.for_reading(is_named=request.restore is not None or request.commit is not None)
    if request.restore is not None:
        return _of_restore(backup, admin, request, request.restore)
    head = backup.sound_state()
    point = backup.state_at(head.seq if request.commit is None else request.commit, head=head)
    selected = select_chains(PointInTime(commit=point, state=point), request.selection).copyable()
    listed = admin.topics()
    at_source = backup.descriptor.cluster_id == cluster_id
    selected, left_out = leave_out_deleted(selected, point, head, listed=listed, at_source=at_source)
    shapes = [topic.shape for topic in selected.topics]
    same = same_topics(shapes, listed, descriptor=backup.descriptor, cluster_id=cluster_id)
    selected, compacted = leave_out_compacted(selected, point, same={*same.by_id, *same.by_name})
    return PlannedComparison(
        backup=backup,
        commit=point.seq,
        cluster_id=cluster_id,
        restore="",
        expected=tuple(_named_alike(selected, point, admin, request, same={*same.by_id, *same.by_name})),
        exact=request.exact,
        by_name=same.by_name,
        lacking=hole_reports(selected.holes),
        left_out=(*left_out, *compacted),
        branches=tuple(branch for branch in branch_reports(point) if branch.topic in selected.names),
    )


def run_comparison(
    planned: PlannedComparison,
    *,
    cluster: Cluster,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> CompareResult:
    """Read both ends and compare. A difference is a result. Raises the errors of `prove`."""
    backup = planned.backup
    ends = ProofEnds(kafka=cluster.config, store=backup.store, exact=planned.exact, records=backup.record_store)
    proof = prove(planned.expected, ends=ends, admin=cluster.admin, runner=runner, on_progress=on_progress)
    return CompareResult(
        verified=proof.verified,
        commit=planned.commit,
        restore=planned.restore,
        cluster_id=planned.cluster_id,
        exact=planned.exact,
        records=proof.records,
        compared_records=proof.records,
        compared_partitions=proof.compared_partitions,
        empty_partitions=proof.empty_partitions,
        same_offsets=tuple(topic.target for topic in planned.expected if topic.same_offsets),
        by_name=planned.by_name,
        topics=proof.topics,
        findings=proof.findings,
        uncompared=proof.uncompared,
        lacking=planned.lacking,
        left_out=planned.left_out,
        branches=planned.branches,
    )


def _named_alike(
    selected: SelectedChains, point: BackupState, admin: ClusterAdmin, request: CompareRequest, *, same: Collection[str]
) -> Iterator[ExpectedTopic]:
    """Topics under their own names. If the cluster has the very incarnation of the backup, the log itself must be
    equal: all offsets, whatever the transactions did since. Only compaction continues."""
    shapes = {topic.topic: topic.shape for topic in selected.topics}
    compacted = _compacted(admin, {name: shapes[name] for name in same}, request)
    for topic in selected.topics:
        is_same = topic.topic in same
        yield ExpectedTopic(
            source=topic.topic,
            target=topic.topic,
            partitions=topic.shape.partitions,
            chains={chain.source.partition: chain for chain in topic.chains},
            starts=None,
            read_committed=request.read_committed and not is_same,
            same_offsets=is_same,
            compacted=topic.topic in compacted,
            extents=log_extents(point, topic.shape) if is_same else None,
            whole_log=is_same,
        )


def _compacted(admin: ClusterAdmin, shapes: Mapping[str, TopicShape], request: CompareRequest) -> set[str]:
    """The names of the cluster's topics that are compacted, or were at the backup: their missing records may be
    superseded. Empty when missing records would be a difference as well."""
    if request.exact:
        return set()
    existing = shapes.keys() & admin.topics().keys()
    configs = admin.topic_configs(existing, with_defaults=True) if existing else {}
    return {
        name
        for name, shape in shapes.items()
        for settings in (configs.get(name, {}), dict(shape.configs))
        if is_compacted(settings)
    }


def _of_restore(backup: Backup, admin: ClusterAdmin, request: CompareRequest, restore: str) -> PlannedComparison:
    cluster_id = admin.cluster().cluster_id
    layout = RestoreLayout(backup=backup.layout, restore=restore)
    record, outcome = find_record(backup.record_store, layout), get_outcome(backup.record_store, layout)
    if record is None:
        raise NoSuchRestore(f"backup {backup.descriptor.name} has no restore {restore}", hint=GIVEN_AGAIN)
    if outcome is None:
        raise NoSuchRestore(
            f"restore {restore} has not ended",
            hint="run the command of the restore again: it continues, and compares at its end",
        )
    if record.cluster_id != cluster_id:
        raise BadOption(
            f"restore {restore} wrote into cluster {record.cluster_id}, but this cluster is {cluster_id}",
            hint="give the brokers of that cluster with --against, or omit --restore to compare by topic names",
        )
    targets = get_targets(backup.record_store, layout)
    starts = {} if targets is None else dict(targets.starts)
    topics = list(_restored_topics(backup, record, outcome, starts, request))
    since = _compacted_since(backup, record, topics)
    topics = [topic for topic in topics if topic.source not in since]
    compacted = _compacted(admin, _restored_shapes(backup, record, topics), request)
    return PlannedComparison(
        backup=backup,
        commit=record.commit,
        cluster_id=cluster_id,
        restore=restore,
        expected=tuple(replace(topic, compacted=topic.target in compacted) for topic in topics),
        exact=request.exact,
        by_name=(),
        lacking=hole_reports(_lacking(backup, record, outcome, request)),
        left_out=tuple(map(leave_out_as_compacted, since.values())),
    )


def _compacted_since(backup: Backup, record: RestoreRecord, topics: Sequence[ExpectedTopic]) -> dict[str, TopicShape]:
    """By name, the topics with fewer records in the backup now than at the start of the restore."""
    head = backup.sound_state()
    sources = {topic.source for topic in topics}
    compacted = [partition_id for partition_id in head.compacted if partition_id.topic in sources]
    if not compacted:
        return {}
    then = head.history.latest_at(record.created_at_ms)
    before = backup.catalog.state(upto=then.seq).compacted if then else {}
    since = (partition_id for partition_id in compacted if head.compacted[partition_id] != before.get(partition_id))
    return {partition_id.topic: head.topics[partition_id.incarnation] for partition_id in since}


def _lacking(
    backup: Backup, record: RestoreRecord, outcome: RestoreOutcome, request: CompareRequest
) -> list[RecordedHole]:
    """The restored data that the backup did not have."""
    selected = set(request.selection.select(dict(record.topics), internal=PROTECTED_TOPICS))
    ends = {partition.source: partition.source_end for partition in outcome.partitions}
    ends |= {source: end for repartitioned in outcome.repartitioned for source, end in repartitioned.sources}
    holes = backup.state_at(record.commit).holes
    return [h for h in holes if h.partition_id.topic in selected and h.start < ends.get(h.partition_id, 0)]


def _restored_shapes(backup: Backup, record: RestoreRecord, topics: Sequence[ExpectedTopic]) -> dict[str, TopicShape]:
    """Only topics restored partition by partition: a record distributed by key has no fixed place to be missed at."""
    shapes = {incarnation.topic: shape for incarnation, shape in backup.state_at(record.commit).topics.items()}
    return {
        topic.target: shapes[topic.source] for topic in topics if topic.repartition is None and topic.source in shapes
    }


def _restored_topics(
    backup: Backup,
    record: RestoreRecord,
    outcome: RestoreOutcome,
    starts: Mapping[TopicPartition, int],
    request: CompareRequest,
) -> Iterator[ExpectedTopic]:
    state = backup.state_at(record.commit)
    cut = choose_cut(backup.store, state, record.cut)
    point = PointInTime(commit=state, state=state, until_ms=record.until_ms, cut=cut)
    starts_of_holes, rewrite = hole_starts(state.holes), stored_rewrite(backup, record.restore)

    def chain_of(source: PartitionId, end: int) -> PartitionChain:
        return replace(chain_to(point, source, end, starts=starts_of_holes), rewrite=rewrite)

    selected = set(request.selection.select(dict(record.topics), internal=PROTECTED_TOPICS))
    mixed = {repartitioned.target: repartitioned for repartitioned in outcome.repartitioned}
    for source, target in record.topics:
        if source in selected:
            partitions = [partition for partition in outcome.partitions if partition.target.topic == target]
            chains = {
                partition.target.partition: chain_of(partition.source, partition.source_end) for partition in partitions
            }
            same_offsets = any(partition.same_offsets for partition in partitions)
            yield ExpectedTopic(
                source=source,
                target=target,
                partitions=sum(partition.topic == target for partition in starts),
                chains=chains,
                starts={partition.partition: start for partition, start in starts.items() if partition.topic == target},
                read_committed=record.isolation == Isolation.READ_COMMITTED,
                same_offsets=same_offsets,
                same_bounds=same_offsets,
                extents=preserved_extents(chains) if same_offsets else None,
                repartition=_repartition(mixed[target], chain_of) if target in mixed else None,
            )


def _repartition(mixed: RepartitionedTopic, chain_of: Callable[[PartitionId, int], PartitionChain]) -> Repartition:
    return Repartition(
        target=mixed.target,
        partitions=mixed.partitions,
        sources=tuple(chain_of(source, end) for source, end in mixed.sources),
        keyless_in_turn=mixed.keyless_in_turn,
    )
