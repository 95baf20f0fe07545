"""A job of the expiry queue: deletes old data of one declared backup, or all of its data.

The retention applies to the last low-level backup. An older backup is deleted as a whole after the last backup was
compared with it, holds all of its data, was read completely, and reaches back as far as `minimumRestorable` (see
`decide.succession`); or after a person released the older backup (see `work.release`). Ledgers tell which backup is the
last. All backups of a deleted resource are stopped and deleted. A backup that a restore reads, or with a pinned point,
stays in either case, and is reported.

One such job of a backup runs at a time, over all operators: a lease in every repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import (
    BadOption,
    DamagedObject,
    ExpiryNotDone,
    FormatTooNew,
    LeaseHeld,
)
from offsite.model.journal import decided, warned
from offsite.model.names import amount
from offsite.model.units import parse_duration_s
from offsite.operator.decide.desired import expiry_fields
from offsite.operator.resources.backup import expiry_contradiction
from offsite.operator.work.comparison import ResumableRead
from offsite.operator.work.removed_backups import sweep_removed
from offsite.operator.work.replacement import ExpiringBackup, Replacement, why_in_use
from offsite.operator.world.membership import list_present
from offsite.repository.backup import Backup, seal_backup
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.declared.history import (
    BackupPhase,
    DeclaredHistory,
    find_last,
    rank,
)
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import ProposedEntry, declared_ledger, enter, is_begun_by, owner_of
from offsite.repository.declared.members import differing, find_member, member_id
from offsite.repository.declared.notes import KeptBackup, put_kept_backups
from offsite.repository.heads import RememberedHead
from offsite.repository.lease import ProcessIdentity
from offsite.repository.removal import (
    begin_removal,
    remove_backup,
    was_brought_back,
    withdraw_removal,
)
from offsite.repository.repository import Repository
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.stores.store import Store
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy

BY = "expiry"
_NOT_OURS = (
    "the ledger names the backup, but it does not belong to this resource: the entry is from somebody else, or the "
    "claim of its name or its backup.json is missing or unreadable"
)
_BROUGHT_BACK = "somebody restored the backup, or its removal was interrupted at the start: jobs no longer touch it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRequest:
    """The request of a job. `policy`: the retention of the last backup; None keeps everything. `minimum_ms`: the time
    span that must be restorable from the last backup before older backups are deleted. `is_deletion`: delete all
    backups. `member`: the uid of the deleted resource, if other resources may share the backup: nothing is deleted
    while another member exists. `declared`: a hash of each part of the declared expiry."""

    uid: str
    repositories: Sequence[Repository]
    policy: RetentionPolicy | None
    minimum_ms: int
    is_deletion: bool
    member: str = ""
    declared: tuple[tuple[str, str], ...] = ()


def make_expiry_request(  # noqa: PLR0913  # as its process is told
    uid: str,
    repositories: Sequence[Repository],
    *,
    maximum_retention: str | None,
    minimum_restorable: str | None,
    is_deletion: bool,
    member: str = "",
) -> ExpiryRequest:
    """Make the request of an expiry job from the options of its process. Raises `BadOption`."""
    if not repositories:
        raise BadOption("an expiry job needs a repository", hint="give each repository with --place")
    return ExpiryRequest(
        uid=uid,
        repositories=repositories,
        policy=expiry_policy(maximum_retention, minimum_restorable),
        minimum_ms=int(parse_duration_s(minimum_restorable) * 1000) if minimum_restorable else 0,
        is_deletion=is_deletion,
        member=member,
        declared=expiry_fields(maximum_retention or "", minimum_restorable or ""),
    )


def expiry_policy(maximum_retention: str | None, minimum_restorable: str | None) -> RetentionPolicy | None:
    """Return the retention policy; None: no data expire by age. Raises `BadOption`."""
    if not maximum_retention:
        return None
    if problem := expiry_contradiction(maximum_retention, minimum_restorable or ""):
        raise BadOption(problem, hint="fix the resource; until then it deletes nothing")
    return parse_policy(keep_age=maximum_retention, floor=minimum_restorable or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """The result of a job. `points`: number of restore points deleted from the last backup. `removed`: names of the
    completely deleted backups. `kept`: kept older backups, with the reasons. `left_to`: the other running job of the
    backup, which does the work."""

    uid: str
    points: int = 0
    removed: tuple[str, ...] = ()
    kept: tuple[KeptBackup, ...] = ()
    left_to: str = ""


def expire(request: ExpiryRequest, *, clock: Clock) -> ExpiryResult:
    """Do one job, and record the kept backups in the repositories. If another job of this backup runs, that job does
    the work; for a deletion this raises `LeaseHeld`, because every deletion must be tried again. Raises
    `ExpiryNotDone` if a backup to delete is still read, copied or pinned, or if a member declares another expiry;
    `CommitsGone` if the last backup lacks commits that this machine saw before; and the errors of the retention and of
    the stores."""
    layout = DeclaredLayout(uid=request.uid)
    with ExitStack() as stack:
        try:
            for repository in request.repositories:
                stack.enter_context(layout.expiry(repository.store).renewed(ProcessIdentity.current()))
        except LeaseHeld as error:
            if request.is_deletion:
                raise
            return ExpiryResult(uid=request.uid, left_to=error.message)
        result = _delete(request, clock) if request.is_deletion else _expire(request, clock)
        stores = [repository.store for repository in request.repositories]
        for store in stores:
            put_kept_backups(store, layout, result.kept)
        if request.is_deletion and result.kept:
            reasons = "; ".join(map(str, result.kept))
            raise ExpiryNotDone(f"not all may be deleted yet: {reasons}", hint="the operator tries again")
        for store in stores:
            sweep_removed(store, by=BY)
        return result


def _delete(request: ExpiryRequest, clock: Clock) -> ExpiryResult:
    """Delete all backups, except pinned or read ones."""
    removed, kept_backups = list[str](), list[KeptBackup]()
    for low in _lows(request):
        if not low.is_ours:
            warned("left_alone", why=_NOT_OURS, uid=request.uid, backup=low.name)
            continue
        in_use = "" if low.is_continued else why_in_use(request.uid, low, clock)
        if why := in_use or _remove(request, low, clock):
            kept_backups.append(_kept(low, why))
        else:
            removed.append(low.name)
    return ExpiryResult(uid=request.uid, removed=tuple(removed), kept=tuple(kept_backups))


def _expire(request: ExpiryRequest, clock: Clock) -> ExpiryResult:
    for low in _lows(request):
        if low.is_continued and low.is_ours:
            _forget(request, low)
    listed = _lows(request)
    lows = [low for low in listed if low.is_ours]
    last = _last(lows)
    backup = last.opened() if last is not None else None
    if last is not None and backup is not None:
        RememberedHead(repository=last.repository, backup=last.name).check(backup, backup.sound_state())
    points = 0 if backup is None or request.policy is None else _let_go(backup, request.policy, clock)
    removed, kept_backups = list[str](), [_kept(low, _NOT_OURS) for low in listed if not low.is_ours]
    for low in lows:
        if low is last:
            continue
        if why := Replacement(
            uid=request.uid,
            policy=request.policy,
            minimum_ms=request.minimum_ms,
            clock=clock,
            older=low,
            last=last,
            lows=lows,
        ).why_kept():
            if low.low.phase is not BackupPhase.REMOVING:
                withdraw_removal(low.store, low.layout)
        else:
            why = _remove(request, low, clock)
        if why:
            kept_backups.append(_kept(low, why))
        else:
            removed.append(low.name)
    if last is not None and not kept_backups:
        ResumableRead(store=last.store, uid=request.uid, number=last.low.number).forget()
    return ExpiryResult(uid=request.uid, points=points, removed=tuple(removed), kept=tuple(kept_backups))


def _let_go(backup: Backup, policy: RetentionPolicy, clock: Clock) -> int:
    """Apply the retention with its guards; return the number of expired restore points."""
    plan = plan_retention(backup, policy, clock=clock)
    return apply_retention(backup, plan, clock=clock).plan.points


def _kept(low: ExpiringBackup, why: str) -> KeptBackup:
    return KeptBackup(backup=low.name, repository=low.store.url, reason=why)


def _last(lows: Sequence[ExpiringBackup]) -> ExpiringBackup | None:
    located = tuple(low.located for low in lows)
    last = find_last(located)
    return None if last is None else next(low for low in lows if low.located == last)


def _lows(request: ExpiryRequest) -> list[ExpiringBackup]:
    """All that is left of the resource's backups, older ones first. Raises as `_check_members`."""
    lows = [low for place in range(len(request.repositories)) for low in _lows_in(request, place)]
    located = tuple(low.located for low in lows)
    return sorted(lows, key=lambda low: rank(low.located, located))


def _lows_in(request: ExpiryRequest, place: int) -> Iterator[ExpiringBackup]:
    repository = request.repositories[place]
    ledger = declared_ledger(repository.store, request.uid).read()
    _check_members(request, repository.store, ledger)
    newest = {low.beginning.backup: low.number for low in ledger.remaining}
    for low in ledger.remaining:
        yield ExpiringBackup(
            place=place,
            repository=repository,
            low=low,
            ledger=ledger,
            is_continued=low.number != newest[low.beginning.backup],
            is_ours=_is_ours(repository.store, low.beginning.backup, request.uid),
        )


def _is_ours(store: Store, backup: str, uid: str) -> bool:
    try:
        return owner_of(store, backup) == uid and is_begun_by(store, backup, uid)
    except (DamagedObject, FormatTooNew) as error:
        warned("left_alone", why=f"its owner is unknown: {error.message}", uid=uid, backup=backup)
        return False


def _check_members(asked: ExpiryRequest, store: Store, history: DeclaredHistory) -> None:
    """Check the members of a shared backup. For a deletion, the resource itself and all other members must have left.
    Otherwise all members must declare the expiry of this job, also members that joined after the start of the job.
    Raises `ExpiryNotDone`, and the errors of the store."""
    if not asked.is_deletion:
        others = [other for other in list_present(store, history) if differing(other.fields, asked.declared)]
        if others:
            raise ExpiryNotDone(
                f"{others[0]} declares another expiry", hint="expiry continues when all declare the same"
            )
        return
    if not asked.member:
        return
    mine = find_member(history.members, member_id(asked.uid, asked.member))
    if mine is None or not mine.is_gone:
        raise ExpiryNotDone(
            f"this resource has not left the shared backup {asked.uid}",
            hint="see who shares it: offsite operator members",
        )
    if others := list_present(store, history):
        raise ExpiryNotDone(f"{amount(len(others), 'other shares', 'others share')} {asked.uid}, as {others[0]}")


def _forget(request: ExpiryRequest, low: ExpiringBackup) -> None:
    """Record that a continued backup has no data of its own. Deletes nothing."""
    if low.low.phase is BackupPhase.STOPPED:
        _decide(request, low, DeclaredEntryKind.REMOVING)
    _decide(request, low, DeclaredEntryKind.REMOVED)
    decided(
        "expired", why="a later backup continues in its place", uid=request.uid, backup=low.name, number=low.low.number
    )


def _remove(request: ExpiryRequest, low: ExpiringBackup, clock: Clock) -> str:
    """Stop and seal the backup, and delete the backup as a whole; or return why the backup stays. Readers are checked
    while no process can start to read, and pins right before the ledger entry `removing`; after that entry the deletion
    is final."""
    if low.is_continued:
        _forget(request, low)
        return ""
    phase, uid = low.low.phase, request.uid
    if phase is BackupPhase.REMOVING and was_brought_back(low.store, low.layout):
        _decide(request, low, DeclaredEntryKind.REMOVED)
        warned("left_alone", why=_BROUGHT_BACK, uid=uid, backup=low.name)
        return _BROUGHT_BACK
    if phase.is_live:
        _decide(request, low, DeclaredEntryKind.STOPPED)
        phase = BackupPhase.STOPPED
    if phase is BackupPhase.STOPPED and not low.low.is_sealed and (backup := low.opened()) is not None:
        seal_backup(backup)
    if phase is BackupPhase.STOPPED:
        _check_idle(uid, low)
    why = list[str]()

    def is_used() -> bool:
        why.extend(filter(None, [why_in_use(uid, low, clock)]))
        return bool(why)

    if not begin_removal(low.store, low.layout, is_read=is_used, is_decided=phase is BackupPhase.REMOVING):
        return why[0]
    if phase is BackupPhase.STOPPED:
        _decide(request, low, DeclaredEntryKind.REMOVING)
    announce = _announced(uid, low)
    if not remove_backup(low.store, low.layout, is_read=is_used, announce=announce, is_decided=True):
        return why[0] if why else _BROUGHT_BACK
    _decide(request, low, DeclaredEntryKind.REMOVED)
    decided("expired", why="an older backup, or a resource that is deleted", uid=uid, backup=low.name)
    return ""


def _check_idle(uid: str, low: ExpiringBackup) -> None:
    """Refuse while an agent still holds the backup: an agent reads a stop within seconds."""
    terms = DeclaredLayout(uid=uid).agent(low.store)
    newest = declared_ledger(low.store, uid).read().backups[-1].number
    if low.low.number == newest and terms.holder(asking=ProcessIdentity.current()) is not None:
        raise ExpiryNotDone(f"an agent still works on {low.name}", hint="the operator tries again")


def _announced(uid: str, low: ExpiringBackup) -> Callable[[int], None]:
    """Return a function that records the deletion in advance."""
    layout, store = DeclaredLayout(uid=uid), low.store

    def announce(size_bytes: int) -> None:
        line = Deletion(
            kind=GENERATION,
            what=low.name,
            rule="a newer backup was compared with it, or a person said so",
            bytes=size_bytes,
        )
        seq = declared_ledger(store, layout.uid).read().seq
        note_deletions(store, layout, [line], by=BY, commit=seq)

    return announce


def _decide(request: ExpiryRequest, low: ExpiringBackup, kind: DeclaredEntryKind) -> None:
    """Enter a decision about a backup. Raises `ExpiryNotDone` if another backup started at its place meanwhile."""

    def said(history: DeclaredHistory) -> ProposedEntry:
        _check_members(request, low.store, history)
        later = history.backups[low.low.number :]
        if not low.is_continued and any(newer.beginning.backup == low.name for newer in later):
            raise ExpiryNotDone(f"another backup began in the place of {low.name}", hint="the operator tries again")
        return ProposedEntry(kind=kind, number=low.low.number)

    enter(low.store, request.uid, said, by=ProcessIdentity.current())
