"""A drill: restore a backup for the sake of the proof, compare, remove everything again, and write the report.

The restore's record names all topics before they are made: the next drill can remove the leftovers of a killed drill.
One drill of a backup at a time: another drill would take the topics for leftovers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from offsite.engine.runner import OnProgress, Runner, RunProgress
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, DamagedObject, OffsiteError, PartitionsFailed
from offsite.model.ids import dated_id, random_id
from offsite.model.names import amount
from offsite.model.options import OffsetsMode
from offsite.model.selection import SCRATCH_PREFIX, TopicSelection
from offsite.model.topic_choices import Rename, Renames
from offsite.model.units import format_time
from offsite.reports.point_report import hole_reports, report_consistency
from offsite.repository.backup import Backup
from offsite.repository.lease import ProcessIdentity
from offsite.repository.records_place import writing_records
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreOutcome,
    RestoreRecord,
    get_outcome,
    put_outcome,
    try_unfinished_restores,
)
from offsite.restore.drill_report import DrilledTopic, DrillReport
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore

PREFIX = SCRATCH_PREFIX
OWN_CLUSTER = (
    "the drill ran in the cluster that was backed up: it needed space and time there, and does not prove that another "
    "cluster can take the backup"
)
_TOPIC_MAX = 249
_ABANDONED = RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRequest:
    """The request of a drill. `in_sandbox`: the cluster is the drill's own, and topics keep their names. `by` and
    `versions` are for the report."""

    selection: TopicSelection
    commit: int | None
    in_sandbox: bool
    by: str
    accept_rollback: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)


class Drill:
    """One drill of `backup`. `on_report` gets every report, also of a failed drill, before the drill raises."""

    def __init__(  # noqa: PLR0913  # keyword-only: what is drilled, where, and who is told
        self,
        backup: Backup,
        request: DrillRequest,
        *,
        cluster: Cluster,
        runner: Runner,
        clock: Clock,
        on_report: Callable[[DrillReport], None],
    ) -> None:
        self._backup = backup.for_reading(is_named=request.commit is not None)
        self._request = request
        self._cluster = cluster
        self._runner = runner
        self._clock = clock
        self._on_report = on_report
        self._attempt = random_id()
        self._report = self._opened()

    def run(self, *, on_progress: OnProgress | None = None, on_proof: OnProgress | None = None) -> DrillReport:
        """Remove leftovers of killed drills, restore, compare, remove, report. A difference is a result.

        Raises the errors of preparing and running a restore, after the report.
        """
        try:
            self._take_away_leftovers()
            prepared = prepare_restore(self._backup, self._cluster.admin, self._restore_request())
            self._note_plan(prepared)
            try:
                self._restore(prepared, on_progress, on_proof)
            finally:
                self._report = replace(self._report, removed=self._take_away(prepared.record))
        except OffsiteError as error:
            cause = error.__cause__ if isinstance(error, PartitionsFailed) else error
            shown = False if isinstance(cause, Damaged) else None  # a drill that could not run proves nothing
            self._report = replace(self._report, proven=shown, problem=error.message)
            self._close()
            raise
        self._close()
        return self._report

    def _restore(self, prepared: PlannedRestore, on_progress: OnProgress | None, on_proof: OnProgress | None) -> None:
        compare_s = 0.0

        def note_proof(now: RunProgress) -> None:
            nonlocal compare_s
            compare_s = now.elapsed_s
            if on_proof is not None:
                on_proof(now)

        began_s = self._clock.monotonic_s()
        result = run_restore(
            prepared,
            cluster=self._cluster,
            runner=self._runner,
            on_progress=on_progress,
            on_proof=note_proof,
        )
        took_s = self._clock.monotonic_s() - began_s
        self._note_result(prepared, result, restore_s=took_s - compare_s, compare_s=compare_s)

    def _restore_request(self) -> RestoreRequest:
        return RestoreRequest(
            selection=self._request.selection,
            commit=self._request.commit,
            renames=Renames() if self._request.in_sandbox else scratch_names(self._attempt, self._topics()),
            offsets=OffsetsMode.DEFAULT,
            accept_rollback=self._request.accept_rollback,
        )

    def _topics(self) -> set[str]:
        return {incarnation.topic for incarnation in self._backup.sound_state().topics}

    def _take_away_leftovers(self) -> None:
        """Remove leftovers in this cluster: a killed sandbox took everything with it. Drills in progress are left
        alone."""
        cluster_id = self._cluster.admin.cluster().cluster_id
        drills = [
            record
            for record in try_unfinished_restores(self._backup.record_store, self._backup.layout)
            if isinstance(record, RestoreRecord) and record.cluster_id == cluster_id and _is_drill(record)
        ]
        under_way = [record for record in drills if self._is_under_way(record)]
        used = {target for record in under_way for _, target in record.topics}
        leftovers = [drill for drill in drills if used.isdisjoint(target for _, target in drill.topics)]
        names = [name for record in leftovers for name in self._take_away(record)]
        self._report = replace(self._report, leftovers=tuple(names))

    def _is_under_way(self, record: RestoreRecord) -> bool:
        layout = RestoreLayout(backup=self._backup.layout, restore=record.restore)
        terms = layout.lease(self._backup.record_store)
        try:
            return terms.readable_holder(asking=ProcessIdentity.current()) is not None
        except DamagedObject:  # the writer of the damaged lease may be at work
            return True

    def _take_away(self, record: RestoreRecord) -> tuple[str, ...]:
        """Delete the topics made by the restore, and end a restore that did not end by itself. May be repeated."""
        store, layout = self._backup.record_store, RestoreLayout(backup=self._backup.layout, restore=record.restore)
        existing = self._cluster.admin.topics()
        names = sorted(target for _, target in record.topics if target in existing and target.startswith(PREFIX))
        self._cluster.admin.delete_topics(names)
        if store.head(layout.record_key) is not None and store.head(layout.report_key) is None:
            put_outcome(store, layout, _ABANDONED)
        return tuple(names)

    def _opened(self) -> DrillReport:
        with writing_records(self._backup):
            now_ms = self._backup.record_store.now_ms()
        return DrillReport(
            drill=dated_id(now_ms, self._attempt),
            backup=self._backup.descriptor.name,
            repository=self._backup.store.url,
            by=self._request.by,
            versions=self._request.versions,
            began=format_time(now_ms),
            place="its own sandbox" if self._request.in_sandbox else "own topics in a cluster in use",
        )

    def _note_plan(self, prepared: PlannedRestore) -> None:
        holes = hole_reports(prepared.plan.holes_within(prepared.point.commit))
        self._report = replace(
            self._report,
            commit=prepared.plan.commit,
            committed=format_time(prepared.point.commit.committed_at_ms),
            restore=prepared.record.restore,
            cluster_id=prepared.record.cluster_id,
            isolation=prepared.record.isolation,
            warnings=self._warnings(prepared.record.cluster_id),
            skipped=prepared.plan.skipped,
            holes=len(holes),
            lacking=holes,
            consistency=report_consistency(prepared.point.cut, prepared.plan.source_names),
        )

    def _warnings(self, cluster_id: str) -> tuple[str, ...]:
        is_own = cluster_id == self._backup.descriptor.cluster_id and not self._request.in_sandbox
        return (OWN_CLUSTER,) if is_own else ()

    def _note_result(
        self, prepared: PlannedRestore, result: RestoreResult, *, restore_s: float, compare_s: float
    ) -> None:
        outcome = get_outcome(self._backup.record_store, prepared.layout)
        self._report = replace(
            self._report,
            proven=result.verified,
            problem=_left_open(result),
            findings=tuple(f"{finding.where}: {finding.what}" for finding in result.findings),
            records=result.records,
            bytes=result.bytes,
            restore_s=restore_s,
            compare_s=compare_s,
            topics=tuple(_drilled(name, result, outcome) for name in result.topics),
        )

    def _close(self) -> None:
        self._report = replace(self._report, ended=format_time(self._backup.record_store.now_ms()))
        self._on_report(self._report)


def scratch_names(attempt: str, topics: Iterable[str]) -> Renames:
    """The names `offsite-drill-<attempt>-<topic>` by source topic; a name too long is cut, and made unique by its
    hash."""
    prefix = f"{PREFIX}{attempt}-"
    long = sorted(topic for topic in topics if len(prefix) + len(topic) > _TOPIC_MAX)
    cut = [
        Rename(source=topic, target=f"{prefix}{topic[:200]}-{sha256(topic.encode()).hexdigest()[:8]}") for topic in long
    ]
    return Renames(rules=(*cut, Rename(source="*", target=f"{prefix}*")))


def _is_drill(record: RestoreRecord) -> bool:
    return bool(record.topics) and all(target.startswith(PREFIX) for _, target in record.topics)


def _left_open(result: RestoreResult) -> str:
    """Why a drill without a difference proves nothing, if so."""
    if result.uncompared:
        first = result.uncompared[0]
        return (
            f"{amount(len(result.uncompared), 'partition was', 'partitions were')} not compared, "
            f"{first.topic}/{first.partition}: {first.message}"
        )
    return "" if result.verified is not None else result.problem


def _drilled(name: str, result: RestoreResult, outcome: RestoreOutcome | None) -> DrilledTopic:
    topic = result.topics[name]
    partitions = outcome.partitions if outcome is not None else ()
    return DrilledTopic(
        source=topic.source,
        target=name,
        partitions=topic.partitions,
        same_offsets=topic.same_offsets,
        records=topic.records,
        bytes=topic.bytes,
        invisible_records=topic.invisible_records,
        digests=tuple(
            f"{partition.target.partition}: {partition.digest}"
            for partition in partitions
            if partition.target.topic == name and partition.digest
        ),
    )
