"""Carries out a restore plan: make the topics, write every partition as one chain, prove, set the topics up, report.

The order makes every crash harmless: the plan is recorded before anything is touched. The same command finds the
record, sees the progress in the target, and continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from offsite.engine.runner import OnProgress, Runner
from offsite.groups.run import AppliedGroups, restore_groups
from offsite.kafka.cluster import Cluster
from offsite.model.errors import StoreDenied, StoreUnavailable
from offsite.model.names import named
from offsite.model.options import Isolation
from offsite.reports.point_report import expected_deletions, hole_reports, report_consistency
from offsite.repository.records_place import prepare_records
from offsite.repository.restores.outcome import put_outcome
from offsite.repository.restores.record import RestoreRecord
from offsite.restore.cluster_settings import apply_metadata
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import Proof
from offsite.restore.lease import RestoreLease, hold_restore_lease
from offsite.restore.plan import PlannedRestore, newer_commit
from offsite.restore.point_report import holes_within, incarnations_of
from offsite.restore.preflight import AT_ONCE
from offsite.restore.result import (
    RestoredTopic,
    RestoreResult,
    WrittenRestore,
    describe_nothing_restored,
    excluded_records,
    prove_restore,
    restore_outcome,
    with_preserved,
)
from offsite.restore.set_aside import set_settings_aside
from offsite.restore.target_topics import finish_topics
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt
from offsite.restore.write.plan import TopicRestore
from offsite.restore.write.repartition import RepartitionReceipt
from offsite.restore.write_jobs import refuse_keyless, repartition_notes, write_chains, write_repartitions

AnyReceipt = RestoreReceipt | RepartitionReceipt


def run_restore(  # noqa: PLR0913  # the ends, what does the work, and who is told of it
    prepared: PlannedRestore,
    *,
    cluster: Cluster,
    runner: Runner,
    verify: bool = True,
    take_over: bool = False,
    on_progress: OnProgress | None = None,
    on_proof: OnProgress | None = None,
) -> RestoreResult:
    """Carry out a prepared restore. After a crash, prepare and run again. `verify`: read everything back at the end and
    compare; a difference is a result, and leaves groups alone. The proof comes before topics get settings by which
    brokers delete records. `take_over`: shut out another process that runs the restore, and continue.

    A run that fails, or is interrupted, gives existing topics their own settings back (see `set_aside`).

    Raises `RestoreRunning` when another process runs the restore, `RestoreTakenOver` as soon as another process has
    taken over, `TargetNotEmpty` when a target changed since the plan, and `PartitionsFailed` when some partitions could
    not be written: all other partitions are complete, and the same command continues with the rest.
    """
    backup, record = prepared.backup, prepared.record
    ends = RestoreEnds(
        kafka=cluster.config,
        store=backup.store,
        records=backup.record_store,
        layout=prepared.layout,
        read_committed=record.isolation == Isolation.READ_COMMITTED,
    )
    if not prepared.resumes:
        refuse_keyless(prepared.plan.repartitions, ends=ends, runner=runner)
    prepare_records(backup)
    with hold_restore_lease(backup, record, take_over=take_over, adopts=prepared.adopts) as lease:
        work = _Work(prepared=prepared, ends=ends, cluster=cluster, runner=runner, lease=lease)
        return work.run(verify=verify, on_progress=on_progress, on_proof=on_proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A restore in progress. Changes that brokers do not fence are made only right after a check of the lease."""

    prepared: PlannedRestore
    ends: RestoreEnds
    cluster: Cluster
    runner: Runner
    lease: RestoreLease

    def run(self, *, verify: bool, on_progress: OnProgress | None, on_proof: OnProgress | None) -> RestoreResult:
        prepared, layout = self.prepared, self.prepared.layout
        with set_settings_aside(
            prepared.backup,
            self.cluster,
            prepared.record,
            check=self.lease.check,
            halt=self.runner.halt,
        ) as settings:
            prepared = replace(prepared, record=replace(prepared.record, settings=settings))
            try:
                # 1. Make the topics and write all partitions.
                restored, receipts = replace(self, prepared=prepared)._write(on_progress)  # noqa: SLF001  # itself
            except (StoreUnavailable, StoreDenied) as error:
                if created := named(prepared.record.created, most=5):
                    error.hint = (
                        f"{error.hint}; {created}, created by this restore, stay: the same command continues with them"
                    )
                raise
            # 2. Read everything back, before topics get settings by which brokers delete records.
            proof = self._prove(restored, on_proof) if verify else None
            # 3. Give the topics their final settings.
            self.lease.check()
            notes = (
                *repartition_notes(prepared.plan, prepared.request.repartition),
                *finish_topics(self.cluster.admin, settings),
            )
        # 4. Set cluster settings and consumer groups.
        self.lease.check()
        applied = apply_metadata(self.cluster.admin, prepared.metadata)
        self.lease.check()
        groups = _groups(prepared, self.cluster, proof)
        result = replace(
            _judged(_result(prepared, receipts, proof), prepared), metadata=applied, groups=groups, notes=notes
        )
        # 5. Store the outcome: the restore has ended.
        self.lease.check()
        outcome = restore_outcome(restored, records=result.records, size_bytes=result.bytes, proof=proof)
        put_outcome(
            self.ends.records, layout, outcome
        )  # last: until the outcome is stored, the same command continues this restore
        return result

    def _write(self, on_progress: OnProgress | None) -> tuple[WrittenRestore, list[AnyReceipt]]:
        plan, record = self.prepared.plan, self.prepared.record
        chains = write_chains(
            plan,
            self.prepared.offsets,
            record,
            ends=self.ends,
            admin=self.cluster.admin,
            runner=self.runner,
            lease=self.lease,
            on_progress=on_progress,
        )
        repartitions = write_repartitions(
            plan.repartitions,
            chains.targets,
            record,
            ends=self.ends,
            admin=self.cluster.admin,
            runner=self.runner,
            lease=self.lease,
            on_progress=on_progress,
        )
        restored = WrittenRestore(
            plan=with_preserved(plan, self.prepared.offsets),
            starts=dict(repartitions.targets.starts),
            makings=repartitions.targets.makings,
            read_committed=self.ends.read_committed,
            same_offsets=frozenset(record.preserved),
        )
        return restored, [*chains.receipts, *repartitions.receipts]

    def _prove(self, restored: WrittenRestore, on_proof: OnProgress | None) -> Proof:
        maps = restored.maps(self.ends.records, self.ends.layout)
        ends = ProofEnds(kafka=self.cluster.config, store=self.ends.store, exact=True, maps=maps)
        return prove_restore(
            restored,
            ends=ends,
            admin=self.cluster.admin,
            runner=self.runner,
            on_progress=self.lease.watch_progress(on_proof),
        )


def _groups(prepared: PlannedRestore, cluster: Cluster, proof: Proof | None) -> AppliedGroups | None:
    """Groups are not moved to records that are known to be wrong, or could not be read."""
    if proof is not None and (proof.findings or proof.uncompared):
        return None
    return restore_groups(prepared.backup, cluster.admin, prepared.record, prepared.groups)


def _result(prepared: PlannedRestore, receipts: Sequence[AnyReceipt], proof: Proof | None) -> RestoreResult:
    left_out = tuple(
        (topic_settings.topic, omitted)
        for topic_settings in prepared.record.settings
        for omitted in topic_settings.left_out
    )
    within = holes_within(prepared.plan, prepared.point.commit)
    holes = hole_reports(within)
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
        held_back=tuple(
            (topic, omitted.setting, omitted.value) for topic, omitted in left_out if omitted.reason == AT_ONCE
        ),
        left_out=tuple(
            (topic, omitted.setting, omitted.reason) for topic, omitted in left_out if omitted.reason != AT_ONCE
        ),
        holes=len(holes),
        verified=None if proof is None else proof.verified,
        findings=() if proof is None else proof.findings,
        compared_records=None if proof is None else proof.records,
        uncompared=() if proof is None else proof.uncompared,
        lacking=holes,
        incarnations=incarnations_of(prepared.point, prepared.plan.source_names),
        newer_commit=newer_commit(prepared),
        consistency=report_consistency(prepared.point.cut, prepared.plan.source_names),
        expected_deletions=len(expected_deletions(within)),
    )


def _judged(result: RestoreResult, prepared: PlannedRestore) -> RestoreResult:
    if result.records:
        return result
    invisible = sum(topic.invisible_records for topic in result.topics.values())
    excluded = excluded_records(prepared.point, prepared.plan, prepared.record, invisible_records=invisible)
    result = replace(result, excluded=excluded)
    return replace(result, problem=describe_nothing_restored(result))


def _topic(topic: TopicRestore, receipts: Sequence[AnyReceipt], record: RestoreRecord) -> RestoredTopic:
    topic_receipts = [receipt for receipt in receipts if receipt.target.topic == topic.target]
    return RestoredTopic(
        source=topic.source.topic,
        partitions=topic.partitions,
        same_offsets=topic.target in record.preserved,
        records=sum(receipt.records for receipt in topic_receipts),
        bytes=sum(receipt.bytes for receipt in topic_receipts),
        invisible_records=sum(receipt.invisible_records for receipt in topic_receipts),
        undecided_transactions=sum(receipt.undecided for receipt in topic_receipts),
    )
