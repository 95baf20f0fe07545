"""Restore: plan, make the topics, write each partition as one chain, prove it, give the topics their settings, report.

The order makes every crash harmless: what will be done is recorded before anything is touched, and the same command
finds that record, sees from the target how far it came, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig
from offsite.model.group_patterns import GroupPatterns
from offsite.model.time import format_time
from offsite.pipeline.point_in_time import PointInTime
from offsite.pipeline.preserve_plan import TopicOffsets
from offsite.pipeline.proof import ProofEnds
from offsite.pipeline.repartition import RepartitionReceipt
from offsite.pipeline.restore_copy import RestoreEnds, RestoreReceipt
from offsite.pipeline.restore_plan import RestorePlan, TopicRestore, plan_restore
from offsite.pipeline.runner import OnProgress, Runner
from offsite.pipeline.target_settings import AT_ONCE
from offsite.repository.attempt import random_attempt
from offsite.repository.backup import Backup
from offsite.repository.restore_layout import RestoreLayout
from offsite.repository.restore_outcome import put_outcome
from offsite.repository.restore_record import (
    RestoreRecord,
    put_record,
    unfinished_restores,
)
from offsite.repository.state import BackupState
from offsite.services.groups import GroupsApplied
from offsite.services.metadata_restore import AppliedMetadata, MetadataPlan, apply_metadata, plan_metadata
from offsite.services.offsets_mode import decide_offsets
from offsite.services.preflight import checked_settings, circumstances
from offsite.services.proof import Finding, Proof
from offsite.services.repartition import refuse_keyless, write_repartitions
from offsite.services.restore_chains import write_chains
from offsite.services.restore_groups import check_groups, restore_groups
from offsite.services.restore_point import find_point
from offsite.services.restore_proof import Restored, prove_restore, restore_outcome, with_preserved
from offsite.services.restore_request import RestoreRequest, remembered
from offsite.services.restore_schemas import without_live_schemas
from offsite.services.restore_topics import finish_topics, read_targets

AnyReceipt = RestoreReceipt | RepartitionReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRestore:
    """A decided restore: nothing was touched yet. `record` is that of an unfinished one which will be continued, else
    new; `resumes` says which."""

    backup: Backup
    record: RestoreRecord
    resumes: bool
    plan: RestorePlan
    point: PointInTime
    metadata: MetadataPlan
    offsets: tuple[TopicOffsets, ...]
    groups: GroupPatterns

    @property
    def layout(self) -> RestoreLayout:
        return RestoreLayout(backup=self.backup.layout, restore=self.record.restore)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """`records` are in the target; `invisible_records` were left out as aborted or undecided at the restore point, or,
    with `same_offsets`, are there and aborted."""

    source: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    undecided_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """`topics` by target name; `skipped` lists (topic, reason); `held_back` lists (topic, setting, value): settings of
    the source that were not set, because they would delete restored records at once; `left_out` lists (topic, setting,
    reason) of those that the target cannot have. `verified`: what was written was read back and is what the backup
    holds; None when it was not read. `findings` has the first difference of each partition. `groups` is None when
    none were asked for."""

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
    findings: tuple[Finding, ...]
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    groups: GroupsApplied | None = None


def prepare_restore(backup: Backup, admin: ClusterAdmin, request: RestoreRequest) -> PlannedRestore:
    """Decide everything; changes nothing. Finds an unfinished restore of the same request and plans to continue it.

    Raises `NoSuchRestorePoint`, and what `plan_restore` raises.
    """
    cluster_id = admin.cluster().cluster_id
    unfinished = _unfinished(backup, request, cluster_id)
    point = find_point(backup, request, unfinished)
    check_groups(point.state, request.groups)
    names = _names(point.state, request)
    now_ms = backup.store.now_ms()
    existing = [] if unfinished else read_targets(admin, names.values(), now_ms=now_ms)
    plan = plan_restore(
        point.state,
        request.selection,
        renames=request.renames,
        target_topics=existing,
        until_ms=point.until_ms,
        counts=request.repartition,
    )
    if backup.descriptor.cluster_id == cluster_id:
        plan = without_live_schemas(plan, request.selection, existing, unfinished)
    offsets = decide_offsets(plan, point, request, existing=existing, unfinished=unfinished)
    metadata = plan_metadata(admin, backup.store, point.state, topics=names, apply=request.metadata)
    given = circumstances(admin, request, now_ms=now_ms)
    settings = () if unfinished else checked_settings(admin, plan.topics, existing, given, also=metadata.problems)
    record = unfinished or replace(
        _new_record(backup, request, plan, cluster_id, until_ms=point.until_ms),
        settings=settings,
        preserved=tuple(sorted(each.target for each in offsets if each.preserve)),
    )
    return PlannedRestore(
        backup=backup,
        record=record,
        resumes=unfinished is not None,
        plan=plan,
        point=point,
        metadata=metadata,
        offsets=offsets,
        groups=request.groups,
    )


def run_restore(  # noqa: PLR0913  # the ends, what does the work, and who is told of it
    prepared: PlannedRestore,
    *,
    admin: ClusterAdmin,
    kafka: KafkaConfig,
    runner: Runner,
    verify: bool = True,
    on_progress: OnProgress | None = None,
    on_proof: OnProgress | None = None,
) -> RestoreResult:
    """Do it. After a crash, prepare and run again. `verify`: read everything back at the end and compare; a difference
    is a result, and leaves groups alone. That comes before topics get settings by which brokers delete records.

    Raises `TargetNotEmpty` when a target changed since the plan, and `PartitionsFailed` when some partitions could not
    be written: the others are complete then, and the same command continues with the rest.
    """
    store, layout, record = prepared.backup.store, prepared.layout, prepared.record
    ends = RestoreEnds(kafka=kafka, store=store, layout=layout, read_committed=record.isolation == "read_committed")
    if not prepared.resumes:
        refuse_keyless(prepared.plan.repartitions, ends=ends, runner=runner)
    put_record(store, layout, record)
    restored, receipts = _write(prepared, ends=ends, admin=admin, runner=runner, on_progress=on_progress)
    proof_ends = ProofEnds(kafka=kafka, store=store, exact=True)
    proof = (
        prove_restore(restored, ends=proof_ends, admin=admin, runner=runner, on_progress=on_proof) if verify else None
    )
    finish_topics(admin, record.settings)
    applied = apply_metadata(admin, prepared.metadata)
    result = replace(_result(prepared, receipts, proof), metadata=applied, groups=_groups(prepared, admin, proof))
    outcome = restore_outcome(restored, records=result.records, size_bytes=result.bytes, proof=proof)
    put_outcome(store, layout, outcome)
    return result


def _write(
    prepared: PlannedRestore, *, ends: RestoreEnds, admin: ClusterAdmin, runner: Runner, on_progress: OnProgress | None
) -> tuple[Restored, list[AnyReceipt]]:
    plan, record = prepared.plan, prepared.record
    chains = write_chains(
        plan, prepared.offsets, record, ends=ends, admin=admin, runner=runner, on_progress=on_progress
    )
    repartitions = write_repartitions(
        plan.repartitions, chains.starts, ends=ends, runner=runner, on_progress=on_progress
    )
    restored = Restored(
        plan=with_preserved(plan, prepared.offsets),
        starts=chains.starts,
        read_committed=ends.read_committed,
        same_offsets=frozenset(record.preserved),
    )
    return restored, [*chains.receipts, *repartitions]


def _groups(prepared: PlannedRestore, admin: ClusterAdmin, proof: Proof | None) -> GroupsApplied | None:
    """Nobody is sent on to records that are known to be wrong."""
    if proof is not None and not proof.verified:
        return None
    return restore_groups(prepared.backup, admin, prepared.record, prepared.groups)


def _unfinished(backup: Backup, request: RestoreRequest, cluster_id: str) -> RestoreRecord | None:
    """The newest restore without a report that this very request began."""
    found = [
        record
        for record in unfinished_restores(backup.store, backup.layout)
        if (record.cluster_id, record.request) == (cluster_id, remembered(request))
    ]
    return max(found, key=lambda record: record.created_at_ms, default=None)


def _names(point: BackupState, request: RestoreRequest) -> dict[str, str]:
    plan = plan_restore(point, request.selection, renames=request.renames, target_topics=())
    return {topic.source.topic: topic.target for topic in plan.topics}


def _new_record(
    backup: Backup, request: RestoreRequest, plan: RestorePlan, cluster_id: str, *, until_ms: int | None
) -> RestoreRecord:
    now_ms = backup.store.now_ms()
    stamp = format_time(now_ms)[:19].replace("-", "").replace(":", "").replace("T", "-")
    return RestoreRecord(
        restore=f"{stamp}-{random_attempt()}",
        commit=plan.commit,
        cluster_id=cluster_id,
        request=remembered(request),
        isolation=request.isolation,
        offsets=request.offsets,
        created_at_ms=now_ms,
        topics=tuple(sorted((topic.source.topic, topic.target) for topic in plan.topics)),
        created=tuple(sorted(topic.target for topic in plan.topics if topic.create)),
        until_ms=until_ms,
    )


def _result(prepared: PlannedRestore, receipts: Sequence[AnyReceipt], proof: Proof | None) -> RestoreResult:
    left_out = tuple((each.topic, left) for each in prepared.record.settings for left in each.left_out)
    return RestoreResult(
        restore=prepared.record.restore,
        backup=prepared.plan.backup,
        commit=prepared.plan.commit,
        offsets=prepared.record.offsets,
        isolation=prepared.record.isolation,
        resumed=prepared.resumes,
        records=sum(receipt.records for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in receipts),
        topics={topic.target: _topic(topic, receipts, prepared.record) for topic in prepared.plan.topics},
        skipped=prepared.plan.skipped,
        held_back=tuple((topic, each.setting, each.value) for topic, each in left_out if each.reason == AT_ONCE),
        left_out=tuple((topic, each.setting, each.reason) for topic, each in left_out if each.reason != AT_ONCE),
        holes=len(prepared.plan.holes),
        verified=None if proof is None else proof.verified,
        findings=() if proof is None else proof.findings,
    )


def _topic(topic: TopicRestore, receipts: Sequence[AnyReceipt], record: RestoreRecord) -> RestoredTopic:
    own = [receipt for receipt in receipts if receipt.target.topic == topic.target]
    return RestoredTopic(
        source=topic.source.topic,
        partitions=topic.partitions,
        same_offsets=topic.target in record.preserved,
        records=sum(receipt.records for receipt in own),
        bytes=sum(receipt.bytes for receipt in own),
        invisible_records=sum(receipt.invisible_records for receipt in own),
        undecided_transactions=sum(receipt.undecided for receipt in own),
    )
