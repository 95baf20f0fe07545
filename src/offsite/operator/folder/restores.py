"""Keeps the `Restore` resources of a home: every restore runs once, as a job of the local machine.

The place of a restore is recorded before anything starts. Hence a restore without a start can be deleted at once, even
with an invalid spec, and a started restore is stopped by its record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsite.model.check import check
from offsite.model.errors import BadResource, OffsiteError
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.restore import RestoreStatus, RestoreWanted, leaving, restore_wanted
from offsite.operator.decide.wanted import Account, Place
from offsite.operator.folder.keeper import Changes, Kept, saying_of, with_place
from offsite.operator.folder.records import Record
from offsite.operator.folder.status import Told
from offsite.operator.resources.restore import Restore
from offsite.operator.world.restores import GONE_MS, RestoreHands, is_out_of_reach
from offsite.operator.world.telling import Telling


@dataclass(slots=True, kw_only=True)
class RestoreKeeper:
    """`executor` and `accounts` belong to the current round."""

    records: Changes
    telling: Telling
    hands: RestoreHands | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: Record) -> Kept:
        hands, restore = self._parts(record)
        kept = record.places[-1].account if record.places else ""  # the order of accounts matters for new restores only
        wanted = restore_wanted(restore, tuple(self.accounts), kept=kept)
        hands.eyes.open_store(wanted.place)
        if wanted.place not in record.places:
            with_place(self.records, record, wanted.place)
        return self._told(hands, record, wanted.place, hands.reconcile(wanted, known=self.records.uids()))

    def let_go(self, record: Record) -> Kept | None:
        """Stop a running restore, and wait for its end; restored records stay. Only a restore that is over in its log
        is deleted: another operator may be about to start the restore. If the end cannot be read, because the
        repository is unreachable for an hour or the log is barred, the tag is released for other restores."""
        if not record.places:
            return None
        hands, restore = self._parts(record)
        stopped = _stopped(restore, record)
        try:
            status = hands.reconcile(stopped, known=self.records.uids())
        except OffsiteError as error:
            if not is_out_of_reach(error) or hands.tags.now_ms() - record.deletion_ms <= GONE_MS:
                raise
            hands.free_tag(stopped)
            return None
        kept = self._told(hands, record, stopped.place, status)
        if status.phase.is_final:
            return None
        if hands.is_barred(stopped):
            hands.free_tag(stopped)
            return None
        return kept

    def _told(self, hands: RestoreHands, record: Record, place: Place, status: RestoreStatus) -> Kept:
        kept = _kept(status)
        self.telling.tell(hands.eyes, record.uid, place, saying_of(record, kept.told, kept.fields))
        return kept

    def _parts(self, record: Record) -> tuple[RestoreHands, Restore]:
        restore = record.resource()
        check(isinstance(restore, Restore), "a keeper of restores")
        if self.hands is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run tells what is wrong with it")
        return self.hands, restore  # type: ignore[return-value]  # as was checked


def _stopped(restore: Restore, record: Record) -> RestoreWanted:
    return leaving(record.uid, record.places[-1], cluster=restore.spec.cluster, tag=restore.spec.tag)


def _kept(status: RestoreStatus) -> Kept:
    fields: dict[str, JsonValue] = {"phase": status.phase.value, "attempts": status.attempts}
    if status.job:
        fields["job"] = status.job
    if status.progress is not None:
        done: Mapping[str, JsonValue] = {
            "tasksDone": status.progress.tasks_done,
            "tasksTotal": status.progress.tasks_total,
            "records": status.progress.records,
        }
        fields["progress"] = done
    if status.failure is not None:
        hint = f"; {status.failure.hint}" if status.failure.hint else ""
        fields["failureReason"] = f"{status.failure.id}: {status.failure.message}{hint}"
    if status.verified is not None:
        fields["verified"] = status.verified
    return Kept(told=[Told(type=each.type.value, message=each.message) for each in status.conditions], fields=fields)
