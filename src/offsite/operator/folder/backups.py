"""Keeps the `Backup` resources of a home: reconciles, reports, and moves them through the expiry queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.model.check import check
from offsite.model.clock import Clock
from offsite.model.errors import AccountClosed, BadResource, OffsiteError, ResourceConflict
from offsite.model.journal import decided, warned
from offsite.model.named import named
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.backup import QUIET_MS, Condition, ConditionType, Slot
from offsite.operator.decide.backup import seal as unsealed
from offsite.operator.decide.membership import Standing, standing
from offsite.operator.decide.seen import BackupSeen
from offsite.operator.decide.wanted import Account, Place, Wanted, foreign_identity, refusal, stopping, wanted_of
from offsite.operator.folder.expiry_jobs import Asked, ExpiryJobs
from offsite.operator.folder.keeper import Changes, Kept, TendedAgents, saying_of, with_place
from offsite.operator.folder.launches import Launches
from offsite.operator.folder.records import Record
from offsite.operator.folder.status import Told, backups_of, members_of
from offsite.operator.resources.backup import FINALIZER, Backup, BackupState
from offsite.operator.world.act import Hands
from offsite.operator.world.look import history_of, look
from offsite.operator.world.membership import leave, speak, still_there
from offsite.operator.world.places import Places, kept_account
from offsite.operator.world.processes import Launch
from offsite.operator.world.reconcile import reconcile
from offsite.operator.world.telling import Telling
from offsite.repository.declared.history import History
from offsite.repository.declared.kept import get_kept
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import in_force, member_id, member_of
from offsite.repository.generations.removal import KEPT_MS

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
CALM_MS = 10_000
"""Time between two observations of a reconciled backup: each costs requests to its repository."""


@dataclass(slots=True, kw_only=True)
class _Calm:
    """A reconciled backup, at a time."""

    record: Record
    kept: Kept
    at_ms: int


@dataclass(slots=True, kw_only=True)
class BackupKeeper:
    """`executor`, `launches` and `namespace` belong to the current round, with the current accounts. `expiry_requests`:
    entries for the expiry queue, collected in a round."""

    records: Changes
    agents: TendedAgents
    jobs: ExpiryJobs
    telling: Telling
    clock: Clock
    hands: Hands | None = None
    launches: Launches | None = None
    namespace: str = ""
    asked: dict[str, Asked] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    _calm: dict[str, _Calm] = field(default_factory=dict)
    _stuck_ms: dict[str, int] = field(default_factory=dict)

    def keep(self, record: Record) -> Kept:
        try:
            kept = self._kept(record)
        except OffsiteError:
            with suppress(OffsiteError):  # what is wrong with the resource says more
                self._let_others_copy(record)
            raise
        self._stuck_ms.pop(record.uid, None)
        return kept

    def _let_others_copy(self, record: Record) -> None:
        """Release the slot of a long unreadable backup, after its last agent ended: no agent starts without a slot.
        Copying agents keep the slot."""
        hands, now_ms = self.hands, self.clock.now_ms()
        is_due = now_ms - self._stuck_ms.setdefault(record.uid, now_ms) >= STUCK_MS
        if hands is None or not is_due or hands.slots.of(record.uid) is not Slot.HELD:
            return
        with suppress(OffsiteError):  # then nobody knows of one that copies
            live = look(hands.eyes, record.uid, record.places, ledger=record.ledger).live
            if live is not None and live.is_copied and live.quiet_ms <= QUIET_MS:
                return
        self.agents.configure(record.uid, None)
        if not self.agents.alive(record.uid) and not self.agents.unseen(record.uid):
            decided("slot_given", why="it cannot be looked at, and no agent of it is left", uid=record.uid)
            hands.slots.give(record.uid)

    def _kept(self, record: Record) -> Kept:
        hands, launches, backup = self._parts(record)
        calm = self._calm.get(record.uid)
        if calm is not None and self._is_calm(calm, record, backup):
            return calm.kept
        if not refusal(backup.spec):  # what is refused is not in force
            self.jobs.stop_other(record.uid, _words(backup))
        wanted = self._wanted(hands, launches, backup, record)
        launches.check(wanted.agents)
        if backup.spec.state is not BackupState.STOPPED:
            launches.properties(wanted.agents.cluster)
        hands.eyes.open_store(wanted.place)
        places = self.places.distinct(hands.eyes, record.ledger, (*record.places, wanted.place))
        if wanted.identity and len(places) > 1:
            raise BadResource(
                f"a backup with an identity stays where it is, in {places[0].repository}",
                hint="declare it there again; for another repository declare another Backup",
            )
        record = with_place(self.records, record, wanted.place, among=places)
        wanted, shared, members = _among_others(hands, wanted) if wanted.identity else (wanted, None, [])
        done = reconcile(hands, wanted, record.places)
        self._ask_for_expiry(record, backup, done.seen, may_go=shared is None or shared.lets_go)
        agents: dict[str, JsonValue] = {"replicas": wanted.agents.replicas, "ready": done.seen.agents.ready}
        if problem := self.agents.problem(record.uid):
            agents["problem"] = problem
        fields: dict[str, JsonValue] = {"state": backup.spec.state.value, "agents": agents}
        told = _told(done.conditions)
        told += _older_kept(hands, record.ledger, wanted.place, done.seen)
        told += self._failing(record.uid)
        if shared is not None and (message := shared.problem or shared.note):
            told.append(Told(type=DECLARED_OTHERWISE, message=message, is_note=not shared.problem))
        if members:
            fields["members"] = members
        kept = Kept(told=told, fields={**fields, "backups": backups_of(done.seen)})
        self.telling.tell(hands.eyes, record.ledger, wanted.place, saying_of(record, kept.told))
        self._calm.pop(record.uid, None)
        if kept.is_as_declared:
            self._calm[record.uid] = _Calm(record=record, kept=kept, at_ms=self.clock.now_ms())
        return kept

    def keep_only(self, uids: Collection[str]) -> None:
        for known in (self._calm, self._stuck_ms):
            for uid in known.keys() - set(uids):
                del known[uid]

    def let_go(self, record: Record) -> Kept | None:
        """Stop the live backup, then the agents, then delete the backups through the queue. Without the finalizer the
        deletion waits for nothing, and the backups stay."""
        hands, launches, backup = self._parts(record)
        record = replace(record, places=self.places.distinct(hands.eyes, record.ledger, record.places))
        self._calm.pop(record.uid, None)
        self.asked.pop(record.uid, None)
        if record.identity and (others := self._others(hands, launches, record)):
            decided("backup_stays", why="others share it, as far as is known", uid=record.uid, others=others)
            self._forget(hands, record)
            return None
        if FINALIZER not in record.finalizers:
            return self._leave(hands, backup, record)
        job = self.jobs.job(record.uid)
        if job is not None and job.has_deleted:
            self._forget(hands, record)
            return None
        seen = self._stopped(hands, backup, record)
        if not record.places and not self.agents.alive(record.uid):  # nothing was ever begun
            self._forget(hands, record)
            return None
        message = "what runs is stopped first" if seen is None else "its agents end first"
        if seen is not None and not self.agents.alive(record.uid):
            launch = self._launch(record, backup, is_deletion=True)
            self.asked[record.uid] = Asked(launch=launch, is_deletion=True, namespace=self.namespace)
            ended = f": {job.said}" if job is not None and job.is_deletion and job.ended_ms and job.said else ""
            message = f"its backups are deleted, in the order of the expiry queue{ended}"
        return _going(message, seen)

    def _others(self, hands: Hands, launches: Launches, record: Record) -> str:
        """Enter the end of the sharing of the resource; return the remaining sharers, empty: none. Without the
        finalizer a silent repository is awaited for a limited time: afterwards the backup stays for the unread
        sharers."""
        try:
            return _let_go_of_shared(hands, launches, record)
        except OffsiteError as error:
            if FINALIZER in record.finalizers or self.clock.now_ms() - record.deletion_ms < LEAVE_MAX_MS:
                raise
            warned("not_left", why=f"{error.id}: {error.message}", name=record.name, uid=record.uid)
            return error.message

    def _leave(self, hands: Hands, backup: Backup, record: Record) -> Kept | None:
        """Stop the live backup, and keep all backups. A lock of another operator, or a silent repository, is awaited
        for a limited time only: the agents end in any case."""
        why, seen = "what runs is stopped first", None
        try:
            seen = self._stopped(hands, backup, record)
        except OffsiteError as error:
            why = f"{error.id}: {error.message}"
        if seen is None or unsealed(seen) is not None:
            if self.clock.now_ms() - record.deletion_ms < LEAVE_MAX_MS:
                return _going(why, seen)
            warned("not_stopped", why=why, name=record.name, uid=record.uid)
            self._tell_left(hands, record, why)
        self._forget(hands, record)
        return None

    def _tell_left(self, hands: Hands, record: Record, why: str) -> None:
        """Explain a ledger that still says `running`."""
        message = f"its resource is gone, and it was not stopped: {why}"
        told = Told(type=ConditionType.INCORRECT_BACKUP_STATE.value, message=message)
        for place in record.places:
            self.telling.tell(hands.eyes, record.ledger, place, saying_of(record, [told]))

    def _parts(self, record: Record) -> tuple[Hands, Launches, Backup]:
        backup = record.resource()
        check(isinstance(backup, Backup), "a keeper of backups")
        if self.hands is None or self.launches is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run tells what is wrong with it")
        return self.hands, self.launches, backup  # type: ignore[return-value]  # as was checked

    def _wanted(self, hands: Hands, launches: Launches, backup: Backup, record: Record) -> Wanted:
        """Raises `BadResource`, and the errors of an observation if the spec names no account."""
        own = backup.spec.destination.account
        kept = "" if own else kept_account(hands.eyes, record.uid, record.places, ledger=record.ledger)
        wanted = wanted_of(backup, launches.accounts.known, kept=kept)
        return replace(wanted, name="/".join(filter(None, (self.namespace, record.name))))

    def _is_calm(self, calm: _Calm, record: Record, backup: Backup) -> bool:
        is_young = 0 <= self.clock.now_ms() - calm.at_ms < CALM_MS
        agents = self.agents.seen(record.uid)
        is_same = agents.configured is not None and agents.ready >= backup.spec.agents.replicas
        return is_young and is_same and calm.record == record

    def _stopped(self, hands: Hands, backup: Backup, record: Record) -> BackupSeen | None:
        """Return all backups of the resource, if no backup is live or in the hands of an agent; otherwise take one step
        towards that state."""
        seen = look(hands.eyes, record.uid, record.places, ledger=record.ledger)
        if seen.live is not None or unsealed(seen) is not None:
            place = (seen.live or seen.backups[-1]).place
            wanted = stopping(backup, place, seen.agents.configured)
            if wanted.identity:
                wanted = replace(wanted, word=_alone(hands, record, place).generation)
            seen = reconcile(hands, wanted, record.places).seen
        if seen.live is not None:
            return None
        self.agents.configure(record.uid, None)
        return None if any(each.is_copied for each in seen.backups) else seen

    def _forget(self, hands: Hands, record: Record) -> None:
        self.agents.configure(record.uid, None)
        hands.slots.give(record.uid)

    def _failing(self, uid: str) -> list[Told]:
        job = self.jobs.job(uid)
        if job is None or job.is_deletion or job.failures < FAILING_FROM:
            return []
        message = f"its last {job.failures} expiry jobs failed, so nothing of it may be let go: {job.failure}"
        return [Told(type=EXPIRY_FAILING, message=message)]

    def _ask_for_expiry(self, record: Record, backup: Backup, seen: BackupSeen, *, may_go: bool) -> None:
        """Request an expiry job if there may be data to delete: old restore points, replaced backups, or objects that
        came back into a removed backup."""
        if not may_go:
            self.asked.pop(record.uid, None)
            self.jobs.stop_other(record.uid, "nothing may go")
            return
        may_return = self.clock.now_ms() - seen.removed_ms < 2 * KEPT_MS
        if backup.spec.expiry.maximum_retention or len(seen.backups) > 1 or may_return:
            launch = self._launch(record, backup)
            words = _words(backup)
            self.asked[record.uid] = Asked(launch=launch, is_deletion=False, words=words, namespace=self.namespace)
        else:
            self.asked.pop(record.uid, None)

    def _launch(self, record: Record, backup: Backup, *, is_deletion: bool = False) -> Callable[[], Launch]:
        _, launches, _ = self._parts(record)
        asked = partial(launches.expiry, record.uid, record.places, backup.spec.expiry, is_deletion=is_deletion)
        return partial(asked, identity=record.identity)


def _among_others(hands: Hands, wanted: Wanted) -> tuple[Wanted, Standing, list[JsonValue]]:
    """Return the desired state of a shared backup, after entering news of this resource; the standing; and the
    sharers."""
    history = speak(hands, wanted)
    there = still_there(hands.eyes.open_store(wanted.place), history)
    shared = standing(wanted, history.members, there)
    wanted = replace(wanted, word=history.generation, stands_by=shared.stands_by)
    own = member_id(wanted.ledger, wanted.uid)
    return wanted, shared, members_of(there, in_force(history.members), own=own)


def _let_go_of_shared(hands: Hands, launches: Launches, record: Record) -> str:
    """Enter the end of the sharing of the resource. Return why its deletion does not delete the backup; empty: the last
    sharer. Raises `AccountClosed` if the account no longer lists the identity: the sharers are unknown."""
    others = list[str]()
    for place in record.places:
        account = launches.accounts.account(place) or Account(name="", endpoint="")
        if problem := foreign_identity(record.identity, account):
            raise AccountClosed(f"backup {record.name}: {problem}")
        history = leave(hands.eyes, record.ledger, record.uid, place)
        others += map(str, still_there(hands.eyes.open_store(place), history))
        if member_of(history.members, member_id(record.ledger, record.uid)) is None:
            others.append("it never joined")
    return named(others, most=_NAMED_MAX)


def _alone(hands: Hands, record: Record, place: Place) -> History:
    """Return the state in which no resource shares the backup any more. Raises `ResourceConflict` if a resource shares
    the backup again."""
    store = hands.eyes.open_store(place)
    history = history_of(store, record.ledger)
    if still_there(store, history):
        raise ResourceConflict(f"others share the backup of {record.name} again", hint="look again")
    return history


def _words(backup: Backup) -> str:
    """The retention of an expiry job, as text."""
    expiry = backup.spec.expiry
    return f"maximumRetention={expiry.maximum_retention} minimumRestorable={expiry.minimum_restorable}"


def _going(message: str, seen: BackupSeen | None) -> Kept:
    """The status of a resource whose deletion is not finished."""
    told = Told(type=ConditionType.INCORRECT_BACKUP_STATE.value, message=message)
    return Kept(told=[told], fields={"state": "deleting", "backups": backups_of(seen) if seen else []})


def _older_kept(hands: Hands, ledger: str, place: Place, seen: BackupSeen) -> Iterator[Told]:
    """Report the backups that the last expiry job kept and that still exist: the repository holds more than declared,
    and nothing less."""
    there = {each.low.beginning.backup for each in seen.backups}
    lines = get_kept(hands.eyes.open_store(place), DeclaredLayout(uid=ledger)) if len(seen.backups) > 1 else ()
    told = [f"{line} ({line.repository})" for line in lines if line.backup in there]
    if told:
        hint = "it goes when this is mended, or once a person lets it go: offsite operator release"
        yield Told(type=OLDER_KEPT, message=f"{named(told, most=_NAMED_MAX)}; {hint}", is_note=True)


def _told(conditions: tuple[Condition, ...]) -> list[Told]:
    return [Told(type=each.type.value, message=each.message) for each in conditions]
