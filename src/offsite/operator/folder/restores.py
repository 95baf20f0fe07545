"""Keeps the `Restore` resources of a home: every restore runs once, as a job of the local machine.

The place of a restore is recorded before anything starts. Hence a restore without a start can be deleted at once, even
with an invalid spec, and a started restore is stopped by its record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsite.model.errors import BadResource, OffsiteError, check
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.restore import DesiredRestore, RestoreStatus, resolve_restore, resolve_stopped_restore
from offsite.operator.decide.wanted import Account, RepositoryPlace
from offsite.operator.folder.keeper import Reconciled, RecordStore, add_place, make_note
from offsite.operator.folder.records import ResourceRecord
from offsite.operator.folder.status import Condition
from offsite.operator.resources.restore import Restore
from offsite.operator.world.restores import GONE_MS, RestoreExecutor, is_unreachable
from offsite.operator.world.telling import NoteWriter


@dataclass(slots=True, kw_only=True)
class RestoreKeeper:
    """`executor` and `accounts` belong to the current round."""

    records: RecordStore
    notes: NoteWriter
    executor: RestoreExecutor | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: ResourceRecord) -> Reconciled:
        executor, restore = self._parts(record)
        current_account = (
            record.places[-1].account if record.places else ""
        )  # the order of accounts matters for new restores only
        desired = resolve_restore(restore, tuple(self.accounts), current_account=current_account)
        executor.observer.open_store(desired.place)
        if desired.place not in record.places:
            add_place(self.records, record, desired.place)
        return self._tell(
            executor, record, desired.place, executor.reconcile(desired, declared_uids=self.records.uids())
        )

    def let_go(self, record: ResourceRecord) -> Reconciled | None:
        """Stop a running restore, and wait for its end; restored records stay. Only a restore that is over in its log
        is deleted: another operator may be about to start the restore. If the end cannot be read, because the
        repository is unreachable for an hour or the log is barred, the tag is released for other restores."""
        if not record.places:
            return None
        executor, restore = self._parts(record)
        stopped = _stopped(restore, record)
        try:
            status = executor.reconcile(stopped, declared_uids=self.records.uids())
        except OffsiteError as error:
            if not is_unreachable(error) or executor.tags.now_ms() - record.deletion_ms <= GONE_MS:
                raise
            executor.free_tag(stopped)
            return None
        reconciled = self._tell(executor, record, stopped.place, status)
        if status.phase.is_final:
            return None
        if executor.is_barred(stopped):
            executor.free_tag(stopped)
            return None
        return reconciled

    def _tell(
        self, executor: RestoreExecutor, record: ResourceRecord, place: RepositoryPlace, status: RestoreStatus
    ) -> Reconciled:
        reconciled = _reconciled(status)
        self.notes.write(
            executor.observer, record.uid, place, make_note(record, reconciled.conditions, reconciled.status)
        )
        return reconciled

    def _parts(self, record: ResourceRecord) -> tuple[RestoreExecutor, Restore]:
        restore = record.resource()
        check(isinstance(restore, Restore), "a keeper of restores")
        if self.executor is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run reports the problem")
        return self.executor, restore  # type: ignore[return-value]  # as was checked


def _stopped(restore: Restore, record: ResourceRecord) -> DesiredRestore:
    return resolve_stopped_restore(record.uid, record.places[-1], cluster=restore.spec.cluster, tag=restore.spec.tag)


def _reconciled(status: RestoreStatus) -> Reconciled:
    fields: dict[str, JsonValue] = {"phase": status.phase.value, "attempts": status.attempts}
    if status.job:
        fields["job"] = status.job
    if status.progress is not None:
        progress: Mapping[str, JsonValue] = {
            "tasksDone": status.progress.tasks_done,
            "tasksTotal": status.progress.tasks_total,
            "records": status.progress.records,
        }
        fields["progress"] = progress
    if status.failure is not None:
        hint = f"; {status.failure.hint}" if status.failure.hint else ""
        fields["failureReason"] = f"{status.failure.id}: {status.failure.message}{hint}"
    if status.verified is not None:
        fields["verified"] = status.verified
    return Reconciled(
        conditions=[Condition(type=condition.type.value, message=condition.message) for condition in status.conditions],
        status=fields,
    )
