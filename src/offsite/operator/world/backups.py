"""Brings a declared backup one step nearer to its spec, and reports the new state. A step is executed under the lock
of the backup; the number of the lock goes into the ledger entry, and fences.

Several operators may manage one backup. Every operator takes the lock in the repository before a decision there,
and releases the lock afterwards. An operator that is stopped while holding the lock falls silent, and another
operator takes the lock with a higher number. When the first operator wakes up, its entry no longer follows the
ledger, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from offsite.model.errors import BackupNotFound, LeaseHeld, ListenerNotReady, OffsiteError, ResourceConflict
from offsite.model.journal import decided
from offsite.operator.decide.backup import (
    BackupCondition,
    ChangePhase,
    ConditionType,
    ConfigureAgents,
    GiveSlot,
    Modify,
    SealStep,
    Start,
    Step,
    TakeSlot,
    check,
    decide,
)
from offsite.operator.decide.desired import DesiredBackup, RepositoryPlace
from offsite.operator.decide.observed import ObservedBackup, ObservedLowLevel
from offsite.operator.world.claims import Slots
from offsite.operator.world.observe import Observer, observe_backup, prove_writable, read_history
from offsite.repository.backup import seal_backup
from offsite.repository.declared.entry import (
    BackupStart,
    DeclaredEntryKind,
    LastCommit,
    Origin,
    Predecessor,
    TopicChoice,
)
from offsite.repository.declared.history import BackupPhase, DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import (
    ProposedEntry,
    claim_name,
    declared_ledger,
    enter_once,
    is_begun_by,
    may_claim,
    owner_of,
)
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import is_name_free
from offsite.repository.repository import Repository
from offsite.stores.store import Store

_TURNS = {
    BackupPhase.STOPPED: DeclaredEntryKind.STOPPED,
    BackupPhase.PAUSED: DeclaredEntryKind.PAUSED,
    BackupPhase.RUNNING: DeclaredEntryKind.RESUMED,
}

SealBackup = Callable[[Store, str], None]
"""Seal the backup of that name: no process can add a commit any more."""

IsInForce = Callable[[DesiredBackup, DeclaredEntryKind], bool]
"""Whether the desired state is still in force, so that an entry of that kind may be written."""


def _always(desired: DesiredBackup, kind: DeclaredEntryKind) -> bool:  # noqa: ARG001  # as `IsInForce`
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupExecutor:
    """The means to execute a step. `in_force` is asked under the lock: the ledger shows a later spec only after an
    entry of that spec."""

    observer: Observer
    slots: Slots
    seal: SealBackup
    in_force: IsInForce = _always

    def carry_out(self, desired: DesiredBackup, step: Step, *, observed: ObservedBackup) -> None:
        """`seen`: what the step was decided by. Raises `LeaseHeld` while another operator holds the lock,
        `ResourceConflict` where a name is somebody else's, `DamagedObject` where nothing can follow in the ledger, and
        what the store raises. What another operator did meanwhile is left to the next look."""
        match step:
            case ConfigureAgents():
                self.observer.agents.configure(desired.uid, step.agents)
            case TakeSlot():
                if step.then is not None:
                    self._try_start(desired, step.then, claims=False)
                self.slots.take(desired.uid)
            case GiveSlot():
                self.slots.give(desired.uid)
            case Start():
                self._start(desired, step, observed)
            case ChangePhase():
                self._turn(desired, step)
            case SealStep():
                self._seal(desired, step)
            case Modify():
                chosen = TopicChoice(topics=step.topics, exclude=step.exclude) if step.topics else None
                modified = ProposedEntry(
                    kind=DeclaredEntryKind.MODIFIED, number=step.number, settings=step.settings, chosen=chosen
                )
                self._append(desired, step.place, modified)
            case _:
                assert_never(step)

    def _try_start(self, desired: DesiredBackup, start: Start, *, claims: bool) -> BackupStart:
        """Return the start values, after all preconditions hold: the repository accepts writes, and the backup name
        is free or owned by the resource; with `claims` the name is claimed. Otherwise release the slot for another
        backup."""
        try:
            store, layout = self.observer.open_store(start.place), DeclaredLayout(uid=desired.ledger)
            beginning = replace(start.beginning, backup=desired.name_at(store.now_ms()))
            name = beginning.backup
            self._check_place(store, desired.ledger, beginning)
            prove_writable(store, layout)
            owner = desired.ledger
            if not may_claim(store, name, owner) or (claims and claim_name(store, name, owner) != owner):
                raise ResourceConflict(
                    f"the backup {name} in {store.url} belongs to another resource with uid {owner_of(store, name)}",
                    hint="choose another path, or a timestamp format that keeps the names different",
                )
            self._check_place(store, desired.ledger, beginning)  # somebody may have made it before the name was claimed
        except OffsiteError:
            self.slots.give(desired.uid)
            raise
        return beginning

    def _start(self, desired: DesiredBackup, step: Start, observed: ObservedBackup) -> None:
        beginning, store = self._try_start(desired, step, claims=True), self.observer.open_store(step.place)
        last = last_commit(store, beginning.backup)
        origin = Origin(last=last, predecessors=tuple(map(self._predecessor, observed.backups)))
        started = ProposedEntry(
            kind=DeclaredEntryKind.STARTED, beginning=beginning, settings=step.settings, origin=origin
        )
        self._append(desired, step.place, started)

    def _predecessor(self, observed: ObservedLowLevel) -> Predecessor:
        """Name a low-level backup as predecessor. An unreadable backup is named, too: its content is compared before
        its deletion."""
        backup, last = observed.low.beginning.backup, LastCommit()
        with suppress(OffsiteError):
            last = last_commit(self.observer.open_store(observed.place), backup)
        return Predecessor(backup=backup, word=observed.low.word, last=last)

    def _check_place(self, store: Store, uid: str, beginning: BackupStart) -> None:
        """Check that the data at the name belong to this resource and to the same source. Raises `ResourceConflict`."""
        backups = declared_ledger(store, uid).read().remaining
        mine = [low.beginning for low in backups if low.beginning.backup == beginning.backup]
        is_there = store.head(BackupLayout(backup=beginning.backup).descriptor_key) is not None
        if is_there and not (mine and is_begun_by(store, beginning.backup, uid)):
            raise ResourceConflict(
                f"the backup {beginning.backup} in {store.url} was created by somebody else, and would be deleted "
                "with this resource",
                hint="choose another path, or a timestamp format",
            )
        if not is_name_free(store, BackupLayout(backup=beginning.backup)):
            raise ResourceConflict(
                f"a backup {beginning.backup} in {store.url} was removed recently: late objects of the old backup "
                "would be mixed into the new one",
                hint="choose another path, or a timestamp format; the name is free 30 days after the removal",
            )
        if mine and mine[-1].cluster != beginning.cluster:
            raise ResourceConflict(
                f"the backup {beginning.backup} in {store.url} belongs to another cluster",
                hint="choose another path, or a timestamp format that keeps the names different",
            )

    def _turn(self, desired: DesiredBackup, step: ChangePhase) -> None:
        if step.then is not None:  # without a time in it, it is the name that it will have
            self._try_start(desired, step.then, claims=not desired.timestamp_format)
        history = self._append(desired, step.place, ProposedEntry(kind=_TURNS[step.to], number=step.number))
        if history is not None and step.to is BackupPhase.STOPPED:  # at once; the next look does what fails here
            self._seal(desired, SealStep(place=step.place, number=step.number))

    def _seal(self, desired: DesiredBackup, step: SealStep) -> None:
        store = self.observer.open_store(step.place)
        low = read_history(store, desired.ledger).backups[step.number - 1]
        self.seal(store, low.beginning.backup)
        self._append(desired, step.place, ProposedEntry(kind=DeclaredEntryKind.SEALED, number=step.number))

    def _append(self, desired: DesiredBackup, place: RepositoryPlace, entry: ProposedEntry) -> DeclaredHistory | None:
        """Append an entry of this spec and return the new state; None if another operator was first, or the decision no
        longer fits. An entry without a number is about a backup after all the others."""
        store, kind = self.observer.open_store(place), entry.kind

        def propose(history: DeclaredHistory) -> ProposedEntry | None:
            why = ""
            if not self.in_force(desired, kind):
                why = "another spec is in force"
            elif entry.beginning and not is_name_free(store, BackupLayout(backup=entry.beginning.backup)):
                why = "it was removed meanwhile"
            if why:
                decided("not_any_more", why=why, uid=desired.uid, what=kind.value)
                return None
            return replace(
                entry,
                generation=desired.word if desired.identity else desired.generation,
                number=entry.number or len(history.backups) + 1,
            )

        after = enter_once(store, desired.ledger, propose, by=self.observer.identity)
        if after is not None:
            number = entry.number or len(after.backups)
            decided("declared", why=kind.value, uid=desired.uid, number=number, fence=after.fence)
        return after


def last_commit(store: Store, backup: str) -> LastCommit:
    """Return the newest commit at the place of a backup. Raises the errors of the repository."""
    try:
        state = Repository.open(store).backup(backup).state()
    except BackupNotFound:
        return LastCommit()
    return LastCommit(commit=state.seq, hash=state.head_hash)


def seal(store: Store, name: str) -> None:
    """Seal a backup in a repository (see `SealBackup`)."""
    with suppress(BackupNotFound):  # nothing was added to it yet: whoever makes it asks the ledger first
        seal_backup(Repository.open(store).backup(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledBackup:
    """The state after one reconciliation. Without conditions the backup is as declared."""

    observed: ObservedBackup
    conditions: tuple[BackupCondition, ...]


def reconcile(executor: BackupExecutor, desired: DesiredBackup, places: Iterable[RepositoryPlace]) -> ReconciledBackup:
    """Observe, execute the decided steps, observe again. `places`: all places in which the resource may have backups.
    Raises the errors of an observation: then nothing was decided."""
    everywhere = (*places, desired.place)
    observed, slot = (
        observe_backup(executor.observer, desired.uid, everywhere, ledger=desired.ledger),
        executor.slots.availability(desired.uid),
    )
    problems = []
    for step in decide(desired, observed, slot).steps:
        try:
            executor.carry_out(desired, step, observed=observed)
        except LeaseHeld as error:
            problems.append(BackupCondition(type=ConditionType.INCORRECT_BACKUP_STATE, message=error.message))
        except OffsiteError as error:
            said = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
            passes = isinstance(error, ListenerNotReady)
            kind = ConditionType.INCORRECT_DEPLOYMENT if passes else ConditionType.MISCONFIGURED_BACKUP
            problems.append(BackupCondition(type=kind, message=said))
    observed, slot = (
        observe_backup(executor.observer, desired.uid, everywhere, ledger=desired.ledger),
        executor.slots.availability(desired.uid),
    )
    return ReconciledBackup(observed=observed, conditions=_merged(problems, check(desired, observed, slot)))


def _merged(problems: Iterable[BackupCondition], conditions: Iterable[BackupCondition]) -> tuple[BackupCondition, ...]:
    """Keep one condition of every type: a failed step says more than an unfinished one."""
    by_type = {condition.type: condition for condition in conditions} | {
        condition.type: condition for condition in problems
    }
    return tuple(by_type[kind] for kind in ConditionType if kind in by_type)
