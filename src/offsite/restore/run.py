"""Carries out a restore plan: bring schemas to a registry, make the topics, write every partition as one chain, prove,
set the topics up, report.

The order makes every crash harmless: the plan is recorded before anything is touched. The same command finds the
record, sees the progress in the target, and continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from offsite.engine.runner import OnProgress, Runner
from offsite.groups.run import AppliedGroups, restore_groups
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.log.range import TopicPartition
from offsite.model.errors import StoreDenied, StoreUnavailable
from offsite.model.names import named
from offsite.model.options import Isolation
from offsite.reports.point_report import late_topics
from offsite.repository.records_place import prepare_records
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RepartitionedTopic, RestoredPartition, RestoreOutcome, put_outcome
from offsite.restore.cluster_settings import apply_metadata
from offsite.restore.compare.expected import expected_topics
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import Proof, ProofFinding, prove
from offsite.restore.compare.target import RestoredMaps
from offsite.restore.lease import hold_restore_lease
from offsite.restore.offsets import OffsetsVerdict
from offsite.restore.plan import PlannedRestore
from offsite.restore.registration import bring_schemas
from offsite.restore.result import RestoreResult, restore_result
from offsite.restore.set_aside import set_settings_aside
from offsite.restore.target_topics import RestoreSite, finish_topics
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt
from offsite.restore.write.plan import RestorePlan
from offsite.restore.write_jobs import refuse_keyless, repartition_notes, write_chains, write_repartitions
from offsite.stores.store import Store


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
        prepared = bring_schemas(prepared, cluster.admin, lease, on_progress=on_progress)
        site = RestoreSite(ends=ends, cluster=cluster, runner=runner, lease=lease)
        result, outcome = _written_and_set_up(prepared, site, verify=verify, on_progress=on_progress, on_proof=on_proof)
        # Last: until the outcome is stored, the same command continues this restore.
        lease.check()
        put_outcome(ends.records, prepared.layout, outcome)
    return result


def _written_and_set_up(
    prepared: PlannedRestore,
    site: RestoreSite,
    *,
    verify: bool,
    on_progress: OnProgress | None,
    on_proof: OnProgress | None,
) -> tuple[RestoreResult, RestoreOutcome]:
    """The result of a restore with everything in place, and the outcome to store. Changes that brokers do not fence are
    made only right after a check of the lease."""
    admin, lease = site.cluster.admin, site.lease
    with set_settings_aside(
        prepared.backup, site.cluster, prepared.record, check=lease.check, halt=site.runner.halt
    ) as settings:
        prepared = replace(prepared, record=replace(prepared.record, settings=settings))
        # 1. Make the topics and write all partitions.
        with _created_topics_named(prepared):
            written = _write(prepared, site, on_progress)
        # 2. Read everything back, before topics get settings by which brokers delete records.
        proof = _prove(written, site, on_proof) if verify else None
        # 3. Give the topics their final settings.
        lease.check()
        notes = (
            *repartition_notes(prepared.plan, prepared.request.repartition),
            *finish_topics(admin, settings),
            *([prepared.group_note] if prepared.group_note else ()),
            *prepared.schema_ids.notes,
            *map(str, late_topics(topic.source for topic in prepared.plan.topics)),
        )
    # 4. Set cluster settings and consumer groups.
    lease.check()
    applied = apply_metadata(admin.settings, prepared.metadata)
    lease.check()
    groups = _groups(prepared, site.cluster, proof)
    result = restore_result(prepared, written.receipts, proof)
    return replace(result, metadata=applied, groups=groups, notes=notes), restore_outcome(written, result, proof)


@contextmanager
def _created_topics_named(prepared: PlannedRestore) -> Iterator[None]:
    """A block whose errors of the store tell that created topics stay."""
    try:
        yield
    except (StoreUnavailable, StoreDenied) as error:
        if created := named(prepared.record.created, most=5):
            error.hint = f"{error.hint}; {created}, created by this restore, stay: the same command continues with them"
        raise


def _write(prepared: PlannedRestore, site: RestoreSite, on_progress: OnProgress | None) -> WrittenRestore:
    plan, record = prepared.plan, prepared.record
    alone = write_chains(plan, prepared.offsets, record, site, on_progress=on_progress)
    mixed = write_repartitions(plan.repartitions, alone.targets, record, site, on_progress=on_progress)
    return WrittenRestore(
        plan=with_preserved(plan, prepared.offsets),
        starts=dict(mixed.targets.starts),
        makings=mixed.targets.makings,
        read_committed=site.ends.read_committed,
        same_offsets=frozenset(record.preserved),
        receipts=(*alone.receipts, *mixed.receipts),
    )


def _prove(written: WrittenRestore, site: RestoreSite, on_proof: OnProgress | None) -> Proof:
    maps = written.maps(site.ends.records, site.ends.layout)
    ends = ProofEnds(kafka=site.cluster.config, store=site.ends.store, exact=True, maps=maps, records=site.ends.records)
    on_progress = site.lease.watch_progress(on_proof)
    return prove_restore(written, ends=ends, admin=site.cluster.admin, runner=site.runner, on_progress=on_progress)


def _groups(prepared: PlannedRestore, cluster: Cluster, proof: Proof | None) -> AppliedGroups | None:
    """Groups are not moved to records that are known to be wrong, or could not be read."""
    if proof is not None and (proof.findings or proof.uncompared):
        return None
    return restore_groups(prepared.backup, cluster.admin, prepared.record, prepared.groups)


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
    aborted records. `receipts`: of all partitions."""

    plan: RestorePlan
    starts: Mapping[TopicPartition, int]
    makings: tuple[tuple[str, int], ...]
    read_committed: bool
    same_offsets: frozenset[str]
    receipts: tuple[RestoreReceipt, ...] = ()

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
                target_offset=end,
                records=now[target] - end,
                detail=f"it grew from offset {end} to {now[target]} during the comparison: other clients write to it",
            )


def restore_outcome(restored: WrittenRestore, result: RestoreResult, proof: Proof | None) -> RestoreOutcome:
    """The outcome of a restore to record at its end, for later comparisons."""
    return RestoreOutcome(
        records=result.records,
        size_bytes=result.bytes,
        verified=result.verified,
        findings=tuple(f"{finding.where}: {finding.what}" for finding in result.findings),
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
