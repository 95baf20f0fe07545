"""Keeps the `Backup` resources of a home: reconciles, reports, and moves them through the expiry queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.model.clock import Clock
from offsite.model.errors import AccountClosed, BadResource, OffsiteError, ResourceConflict, check
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.core.expiry_jobs import ExpiryJobs, QueuedExpiry
from offsite.operator.core.keeper import NoteWriter, Reconciled, TendedAgents, make_note
from offsite.operator.core.processes import Launches, ProcessLaunch
from offsite.operator.core.records import RecordStore, ResourceRecord, add_place
from offsite.operator.core.status import Condition, describe_backups, describe_members
from offsite.operator.decide.backup import QUIET_MS, BackupCondition, ConditionType, SlotAvailability
from offsite.operator.decide.backup import seal as unsealed
from offsite.operator.decide.desired import (
    Account,
    DesiredBackup,
    RepositoryPlace,
    find_refusal,
    foreign_identity,
    resolve_backup,
    resolve_stopped_backup,
)
from offsite.operator.decide.observed import ObservedBackup
from offsite.operator.resources.backup import FINALIZER, Backup, DesiredBackupState
from offsite.operator.world.backups import BackupExecutor, reconcile
from offsite.operator.world.membership import Standing, decide_standing, enter_news, leave, list_present
from offsite.operator.world.observe import RepositoryAliases, find_current_account, observe_backup, read_history
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import find_member, member_id, member_in_force
from offsite.repository.declared.notes import get_kept_backups
from offsite.repository.removal import KEPT_MS

EXPIRY_FAILING = "ExpiryFailing"
"""A condition: expiry jobs fail repeatedly."""
FAILING_FROM = 2
"""Failures before the condition: one failed job may have met a running restore, or the job of another operator."""
LEAVE_MAX_MS = 120_000
"""Time that a deleted resource waits for the stop of its backups: a dead operator holds the lock for 30 s."""
STUCK_MS = 600_000
"""A backup that cannot be observed for so long, without copying agents, releases its slot for other initial copies."""
OLDER_KEPT = "OlderBackupKept"
"""A condition that explains why older backups stay. The spec is reconciled nevertheless."""
DECLARED_OTHERWISE = "DeclaredOtherwise"
"""A condition: resources that share a backup have different specs. A note on the resource in force."""
_NAMED_MAX = 5
RECHECK_MS = 10_000
"""Time between two observations of a reconciled backup: each costs requests to its repository."""


@dataclass(slots=True, kw_only=True)
class _UnchangedBackup:
    """A reconciled backup, at a time."""

    record: ResourceRecord
    reconciled: Reconciled
    at_ms: int


@dataclass(slots=True, kw_only=True)
class BackupKeeper:
    """`executor`, `launches` and `namespace` belong to the current round, with the current accounts. `expiry_requests`:
    entries for the expiry queue, collected in a round."""

    records: RecordStore
    agents: TendedAgents
    jobs: ExpiryJobs
    notes: NoteWriter
    clock: Clock
    executor: BackupExecutor | None = None
    launches: Launches | None = None
    namespace: str = ""
    expiry_requests: dict[str, QueuedExpiry] = field(default_factory=dict)
    places: RepositoryAliases = field(default_factory=RepositoryAliases)
    _unchanged: dict[str, _UnchangedBackup] = field(default_factory=dict)
    _stuck_ms: dict[str, int] = field(default_factory=dict)

    def keep(self, record: ResourceRecord) -> Reconciled:
        try:
            reconciled = self._reconcile(record)
        except OffsiteError:
            with suppress(OffsiteError):  # what is wrong with the resource says more
                self._let_others_copy(record)
            raise
        self._stuck_ms.pop(record.uid, None)
        return reconciled

    def _let_others_copy(self, record: ResourceRecord) -> None:
        """Release the slot of a long unreadable backup, after its last agent ended: no agent starts without a slot.
        Copying agents keep the slot."""
        executor, now_ms = self.executor, self.clock.now_ms()
        is_due = now_ms - self._stuck_ms.setdefault(record.uid, now_ms) >= STUCK_MS
        if executor is None or not is_due or executor.slots.availability(record.uid) is not SlotAvailability.HELD:
            return
        with suppress(OffsiteError):  # then nobody knows of one that copies
            live = observe_backup(executor.observer, record.uid, record.places, ledger=record.ledger).live
            if live is not None and live.is_copied and live.quiet_ms <= QUIET_MS:
                return
        self.agents.configure(record.uid, None)
        if not self.agents.alive(record.uid) and not self.agents.unseen(record.uid):
            decided("slot_given", why="its state cannot be read, and none of its agents is left", uid=record.uid)
            executor.slots.give(record.uid)

    def _reconcile(self, record: ResourceRecord) -> Reconciled:
        executor, launches, backup = self._parts(record)
        unchanged = self._unchanged.get(record.uid)
        if unchanged is not None and self._is_unchanged(unchanged, record, backup):
            return unchanged.reconciled
        if not find_refusal(backup.spec):  # what is refused is not in force
            self.jobs.stop_other(record.uid, _words(backup))
        desired = self._desired(executor, launches, backup, record)
        launches.check(desired.agents)
        if backup.spec.state is not DesiredBackupState.STOPPED:
            launches.properties(desired.agents.cluster)
        executor.observer.open_store(desired.place)
        places = self.places.distinct(executor.observer, record.ledger, (*record.places, desired.place))
        if desired.identity and len(places) > 1:
            raise BadResource(
                f"a backup with an identity cannot move from {places[0].repository}",
                hint="declare it there again; for another repository declare another Backup",
            )
        record = add_place(self.records, record, desired.place, among=places)
        desired, shared, members = _among_others(executor, desired) if desired.identity else (desired, None, [])
        result = reconcile(executor, desired, record.places)
        self._ask_for_expiry(record, backup, result.observed, may_go=shared is None or shared.lets_go)
        agents: dict[str, JsonValue] = {"replicas": desired.agents.replicas, "ready": result.observed.agents.ready}
        if problem := self.agents.problem(record.uid):
            agents["problem"] = problem
        fields: dict[str, JsonValue] = {"state": backup.spec.state.value, "agents": agents}
        conditions = _told(result.conditions)
        conditions += _older_kept(executor, record.ledger, desired.place, result.observed)
        conditions += self._failing(record.uid)
        if shared is not None and (message := shared.problem or shared.note):
            conditions.append(Condition(type=DECLARED_OTHERWISE, message=message, is_note=not shared.problem))
        if members:
            fields["members"] = members
        reconciled = Reconciled(conditions=conditions, status={**fields, "backups": describe_backups(result.observed)})
        self.notes.write(executor.observer, record.ledger, desired.place, make_note(record, reconciled.conditions))
        self._unchanged.pop(record.uid, None)
        if reconciled.is_as_declared:
            self._unchanged[record.uid] = _UnchangedBackup(
                record=record, reconciled=reconciled, at_ms=self.clock.now_ms()
            )
        return reconciled

    def keep_only(self, uids: Collection[str]) -> None:
        for remembered in (self.expiry_requests, self._unchanged, self._stuck_ms):
            for uid in remembered.keys() - set(uids):
                del remembered[uid]

    def let_go(self, record: ResourceRecord) -> Reconciled | None:
        """Stop the live backup, then the agents, then delete the backups through the queue. Without the finalizer the
        deletion waits for nothing, and the backups stay."""
        executor, launches, backup = self._parts(record)
        record = replace(record, places=self.places.distinct(executor.observer, record.ledger, record.places))
        self._unchanged.pop(record.uid, None)
        self.expiry_requests.pop(record.uid, None)
        if record.identity and (sharers := self._others(executor, launches, record)):
            decided("backup_stays", why="others may share it", uid=record.uid, others=sharers)
            self._forget(executor, record)
            return None
        if FINALIZER not in record.finalizers:
            return self._leave(executor, backup, record)
        job = self.jobs.job(record.uid)
        if job is not None and job.has_deleted:
            self._forget(executor, record)
            return None
        observed = self._stopped(executor, backup, record)
        if not record.places and not self.agents.alive(record.uid):  # nothing was ever begun
            self._forget(executor, record)
            return None
        message = "the running backup is stopped first" if observed is None else "its agents end first"
        if observed is not None and not self.agents.alive(record.uid):
            launch = self._launch(record, backup, is_deletion=True)
            self.expiry_requests[record.uid] = QueuedExpiry(launch=launch, is_deletion=True, namespace=self.namespace)
            failure_note = f": {job.said}" if job is not None and job.is_deletion and job.ended_ms and job.said else ""
            message = f"its backups are deleted, in the order of the expiry queue{failure_note}"
        return _going(message, observed)

    def _others(self, executor: BackupExecutor, launches: Launches, record: ResourceRecord) -> str:
        """Enter the end of the sharing of the resource; return the remaining sharers, empty: none. Without the
        finalizer a silent repository is awaited for a limited time: afterwards the backup stays for the unread
        sharers."""
        try:
            return _let_go_of_shared(executor, launches, record)
        except OffsiteError as error:
            if FINALIZER in record.finalizers or self.clock.now_ms() - record.deletion_ms < LEAVE_MAX_MS:
                raise
            warned("not_left", why=f"{error.id}: {error.message}", name=record.name, uid=record.uid)
            return error.message

    def _leave(self, executor: BackupExecutor, backup: Backup, record: ResourceRecord) -> Reconciled | None:
        """Stop the live backup, and keep all backups. A lock of another operator, or a silent repository, is awaited
        for a limited time only: the agents end in any case."""
        why, observed = "the running backup is stopped first", None
        try:
            observed = self._stopped(executor, backup, record)
        except OffsiteError as error:
            why = f"{error.id}: {error.message}"
        if observed is None or unsealed(observed) is not None:
            if self.clock.now_ms() - record.deletion_ms < LEAVE_MAX_MS:
                return _going(why, observed)
            warned("not_stopped", why=why, name=record.name, uid=record.uid)
            self._tell_left(executor, record, why)
        self._forget(executor, record)
        return None

    def _tell_left(self, executor: BackupExecutor, record: ResourceRecord, why: str) -> None:
        """Explain a ledger that still says `running`."""
        message = f"its resource is gone, but the backup was not stopped: {why}"
        condition = Condition(type=ConditionType.INCORRECT_BACKUP_STATE.value, message=message)
        for place in record.places:
            self.notes.write(executor.observer, record.ledger, place, make_note(record, [condition]))

    def _parts(self, record: ResourceRecord) -> tuple[BackupExecutor, Launches, Backup]:
        backup = record.resource()
        check(isinstance(backup, Backup), "a keeper of backups")
        if self.executor is None or self.launches is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run reports the problem")
        return self.executor, self.launches, backup  # type: ignore[return-value]  # as was checked

    def _desired(
        self, executor: BackupExecutor, launches: Launches, backup: Backup, record: ResourceRecord
    ) -> DesiredBackup:
        """Raises `BadResource`, and the errors of an observation if the spec names no account."""
        named_account = backup.spec.destination.account
        current_account = (
            ""
            if named_account
            else find_current_account(executor.observer, record.uid, record.places, ledger=record.ledger)
        )
        desired = resolve_backup(backup, launches.accounts.listed, current_account=current_account)
        return replace(desired, name="/".join(filter(None, (self.namespace, record.name))))

    def _is_unchanged(self, unchanged: _UnchangedBackup, record: ResourceRecord, backup: Backup) -> bool:
        is_young = 0 <= self.clock.now_ms() - unchanged.at_ms < RECHECK_MS
        agents = self.agents.observe(record.uid)
        is_same = agents.configured is not None and agents.ready >= backup.spec.agents.replicas
        return is_young and is_same and unchanged.record == record

    def _stopped(self, executor: BackupExecutor, backup: Backup, record: ResourceRecord) -> ObservedBackup | None:
        """Return all backups of the resource, if no backup is live or in the hands of an agent; otherwise take one step
        towards that state."""
        observed = observe_backup(executor.observer, record.uid, record.places, ledger=record.ledger)
        if observed.live is not None or unsealed(observed) is not None:
            place = (observed.live or observed.backups[-1]).place
            desired = resolve_stopped_backup(backup, place, observed.agents.configured)
            if desired.identity:
                desired = replace(desired, word=_alone(executor, record, place).generation)
            observed = reconcile(executor, desired, record.places).observed
        if observed.live is not None:
            return None
        self.agents.configure(record.uid, None)
        return None if any(low.is_copied for low in observed.backups) else observed

    def _forget(self, executor: BackupExecutor, record: ResourceRecord) -> None:
        self.agents.configure(record.uid, None)
        executor.slots.give(record.uid)

    def _failing(self, uid: str) -> list[Condition]:
        job = self.jobs.job(uid)
        if job is None or job.is_deletion or job.failures < FAILING_FROM:
            return []
        message = f"its last {job.failures} expiry jobs failed, so nothing of it is deleted: {job.failure}"
        return [Condition(type=EXPIRY_FAILING, message=message)]

    def _ask_for_expiry(
        self, record: ResourceRecord, backup: Backup, observed: ObservedBackup, *, may_go: bool
    ) -> None:
        """Request an expiry job if there may be data to delete: old restore points, replaced backups, or objects that
        came back into a removed backup."""
        if not may_go:
            self.expiry_requests.pop(record.uid, None)
            self.jobs.stop_other(record.uid, "nothing may go")
            return
        may_return = self.clock.now_ms() - observed.removed_ms < 2 * KEPT_MS
        if backup.spec.expiry.maximum_retention or len(observed.backups) > 1 or may_return:
            launch = self._launch(record, backup)
            words = _words(backup)
            self.expiry_requests[record.uid] = QueuedExpiry(
                launch=launch, is_deletion=False, words=words, namespace=self.namespace
            )
        else:
            self.expiry_requests.pop(record.uid, None)

    def _launch(
        self, record: ResourceRecord, backup: Backup, *, is_deletion: bool = False
    ) -> Callable[[], ProcessLaunch]:
        _, launches, _ = self._parts(record)
        launch = partial(launches.expiry, record.uid, record.places, backup.spec.expiry, is_deletion=is_deletion)
        return partial(launch, identity=record.identity)


def _among_others(executor: BackupExecutor, desired: DesiredBackup) -> tuple[DesiredBackup, Standing, list[JsonValue]]:
    """Return the desired state of a shared backup, after entering news of this resource; the standing; and the
    sharers."""
    history = enter_news(executor, desired)
    present = list_present(executor.observer.open_store(desired.place), history)
    shared = decide_standing(desired, history.members, present)
    desired = replace(desired, word=history.generation, stands_by=shared.stands_by)
    own = member_id(desired.ledger, desired.uid)
    return desired, shared, describe_members(present, member_in_force(history.members), own=own)


def _let_go_of_shared(executor: BackupExecutor, launches: Launches, record: ResourceRecord) -> str:
    """Enter the end of the sharing of the resource. Return why its deletion does not delete the backup; empty: the last
    sharer. Raises `AccountClosed` if the account no longer lists the identity: the sharers are unknown."""
    sharers = list[str]()
    for place in record.places:
        account = launches.accounts.account(place) or Account(name="", endpoint="")
        if problem := foreign_identity(record.identity, account):
            raise AccountClosed(f"backup {record.name}: {problem}")
        history = leave(executor.observer, record.ledger, record.uid, place)
        sharers += map(str, list_present(executor.observer.open_store(place), history))
        if find_member(history.members, member_id(record.ledger, record.uid)) is None:
            sharers.append("it never joined")
    return named(sharers, most=_NAMED_MAX)


def _alone(executor: BackupExecutor, record: ResourceRecord, place: RepositoryPlace) -> DeclaredHistory:
    """Return the state in which no resource shares the backup any more. Raises `ResourceConflict` if a resource shares
    the backup again."""
    store = executor.observer.open_store(place)
    history = read_history(store, record.ledger)
    if list_present(store, history):
        raise ResourceConflict(f"others share the backup of {record.name} again", hint="try again")
    return history


def _words(backup: Backup) -> str:
    """The retention of an expiry job, as text."""
    expiry = backup.spec.expiry
    return f"maximumRetention={expiry.maximum_retention} minimumRestorable={expiry.minimum_restorable}"


def _going(message: str, observed: ObservedBackup | None) -> Reconciled:
    """The status of a resource whose deletion is not finished."""
    condition = Condition(type=ConditionType.INCORRECT_BACKUP_STATE.value, message=message)
    return Reconciled(
        conditions=[condition], status={"state": "deleting", "backups": describe_backups(observed) if observed else []}
    )


def _older_kept(
    executor: BackupExecutor, ledger: str, place: RepositoryPlace, observed: ObservedBackup
) -> Iterator[Condition]:
    """Report the backups that the last expiry job kept and that still exist: the repository holds more than declared,
    and nothing less."""
    present = {backup.low.beginning.backup for backup in observed.backups}
    lines = (
        get_kept_backups(executor.observer.open_store(place), DeclaredLayout(uid=ledger))
        if len(observed.backups) > 1
        else ()
    )
    reasons = [f"{line} ({line.repository})" for line in lines if line.backup in present]
    if reasons:
        hint = "the backup is deleted when the cause is fixed, or when a person releases it: offsite operator release"
        yield Condition(type=OLDER_KEPT, message=f"{named(reasons, most=_NAMED_MAX)}; {hint}", is_note=True)


def _told(conditions: tuple[BackupCondition, ...]) -> list[Condition]:
    return [Condition(type=condition.type.value, message=condition.message) for condition in conditions]
