"""A person releases a low-level backup for deletion that no comparison releases: the ledger entry, and when the entry
counts.

A release is valid for the backup as shown to the person: after one more commit, or for another copy at the place, the
release is void. A release given on another machine counts some days later (see `ReleaseMemory`): any process that
can create objects can write a release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.model.errors import BackupNotFound, BadOption, Damaged, PlanChanged, ResourceConflict
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.repository.backup import seal_backup
from offsite.repository.declared.entry import REASON_MAX, DeclaredEntryKind, LastCommit, Release
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import ProposedEntry, declared_ledger, enter, owner_of
from offsite.repository.declared.notes import get_kept_backups
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.leftovers import readers_of
from offsite.repository.local_memory import ReleaseMemory
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from offsite.upkeep.retention.pins import pinned_points

_NAMED_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan:
    """The backup to release. `commit`, `hash`: newest commit. `oldest_ms`, `newest_ms`: times of its restore points
    (epoch ms, 0: none). `kept`: why the last expiry job kept the backup. `problem`: why its content cannot be read.
    `pins` and `restores` are deleted with the backup, except a running restore, which is awaited. `released`: the
    ledger has a valid release. `doubt`: why the release does not count on the local machine, or not yet."""

    backup: str
    repository: str
    uid: str
    number: int
    commit: int
    hash: str
    topics: str = ""
    points: int = 0
    records: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0
    pins: tuple[str, ...] = ()
    restores: tuple[str, ...] = ()
    kept: str = ""
    problem: str = ""
    released: bool = False
    doubt: str = ""


def is_released(repository: Repository, uid: str, low: LowLevelBackup) -> bool:
    """Whether a person released the backup as the backup is now. Raises the errors of the store."""
    return _is_said(low, _lies_there(repository, low.beginning.backup)[0]) and not _doubt(repository.store, uid, low)


def release_doubt(repository: Repository, uid: str, low: LowLevelBackup) -> str:
    """Return why a release of the present backup does not count, or not yet; empty: the release counts, or none exists.
    Raises the errors of the store."""
    is_said = _is_said(low, _lies_there(repository, low.beginning.backup)[0])
    return _doubt(repository.store, uid, low) if is_said else ""


def _is_said(low: LowLevelBackup, last: LastCommit) -> bool:
    return low.release is not None and low.release.last == last


def _doubt(store: Store, uid: str, low: LowLevelBackup) -> str:
    return "" if low.released is None else _memory(store, uid).doubt(low.released)


def _memory(store: Store, uid: str) -> ReleaseMemory:
    return ReleaseMemory(store=store, prefix=DeclaredLayout(uid=uid).ledger_prefix)


def plan_release(repository: Repository, backup: str) -> ReleasePlan:
    """Return the effect of a release. Seals a stopped backup, and changes nothing else. Raises `BackupNotFound` for a
    backup without a declaring resource, or a removed backup; `ResourceConflict` for a backup that is not stopped."""
    uid, low = _find(repository, backup)
    if not low.is_sealed:
        _seal(repository, uid, low)
    last, state, problem = _lies_there(repository, backup)
    why = next(
        (line.reason for line in get_kept_backups(repository.store, DeclaredLayout(uid=uid)) if line.backup == backup),
        "",
    )
    plan = ReleasePlan(
        backup=backup,
        repository=repository.store.url,
        uid=uid,
        number=low.number,
        commit=last.commit,
        hash=last.hash,
        restores=tuple(map(str, readers_of(repository.store, BackupLayout(backup=backup)))) if not problem else (),
        kept=why,
        problem=problem,
        released=_is_said(low, last),
        doubt=_doubt(repository.store, uid, low) if _is_said(low, last) else "",
    )
    return plan if state is None else _with_content(plan, repository, state)


def release(repository: Repository, plan: ReleasePlan, *, reason: str) -> ReleasePlan:
    """Enter the release of the backup as shown. Raises `BadOption` for an empty or too long reason, `PlanChanged` if
    the backup changed since, `LeaseHeld` while an operator holds the lock."""
    if not reason.strip() or len(reason) > REASON_MAX:
        raise BadOption(
            f"the reason of a release must have 1 to {REASON_MAX} characters; this reason has {len(reason)}"
        )
    now = plan_release(repository, plan.backup)
    if (now.uid, now.number, now.commit, now.hash) != (plan.uid, plan.number, plan.commit, plan.hash):
        raise PlanChanged(f"{plan.backup} has changed since it was shown", hint="run the same command again")
    last = LastCommit(commit=plan.commit, hash=plan.hash)
    said = ProposedEntry(kind=DeclaredEntryKind.RELEASED, number=plan.number, release=Release(last=last, reason=reason))
    after = enter(repository.store, plan.uid, lambda _: said, by=ProcessIdentity.current())
    if (word := after.backups[plan.number - 1].released) is not None:
        _memory(repository.store, plan.uid).note_given(word)
    decided("released", why=reason, uid=plan.uid, backup=plan.backup)
    return plan_release(repository, plan.backup)


def refuse_release(repository: Repository, backup: str) -> ReleasePlan:
    """Record that the release in the ledger never counts on the local machine, because no authorized person gave the
    release. Raises the errors of `plan_release`, and `BadOption` without a release."""
    uid, low = _find(repository, backup)
    if low.released is None:
        raise BadOption(f"nobody released {backup}", hint="see: offsite operator describe")
    _memory(repository.store, uid).note_refused(low.released)
    warned("release_refused", uid=uid, backup=backup, who=low.released.by, why="a person said so")
    return plan_release(repository, backup)


def _find(repository: Repository, backup: str) -> tuple[str, LowLevelBackup]:
    uid = owner_of(repository.store, backup)
    if uid is None:
        raise BackupNotFound(
            f"no resource declared a backup {backup!r} in {repository.store.url}", hint="see: offsite list"
        )
    ledger = declared_ledger(repository.store, uid).read()
    low = next((candidate for candidate in reversed(ledger.remaining) if candidate.beginning.backup == backup), None)
    if low is None or low.phase is BackupPhase.REMOVING:
        raise BackupNotFound(f"{backup} is already removed, or is being removed", hint="see: offsite operator describe")
    if low.phase is not BackupPhase.STOPPED:
        raise ResourceConflict(
            f"{backup} is {low.phase}: only a backup that was replaced by another one can be released",
            hint="to delete a resource with all backups: offsite operator delete",
        )
    return uid, low


def _seal(repository: Repository, uid: str, low: LowLevelBackup) -> None:
    try:
        seal_backup(repository.backup(low.beginning.backup))
    except (BackupNotFound, Damaged):  # no commit can be added
        return
    said = ProposedEntry(kind=DeclaredEntryKind.SEALED, number=low.number)
    enter(repository.store, uid, lambda _: said, by=ProcessIdentity.current())


def _lies_there(repository: Repository, backup: str) -> tuple[LastCommit, BackupState | None, str]:
    """Return the newest commit, the state, and why the state cannot be read."""
    try:
        state = repository.backup(backup).sound_state()
    except BackupNotFound:
        return LastCommit(), None, "nothing is there"
    except Damaged as error:
        return LastCommit(), None, error.message
    return LastCommit(commit=state.seq, hash=state.head_hash), state, state.unreadable


def _with_content(plan: ReleasePlan, repository: Repository, state: BackupState) -> ReleasePlan:
    backup = repository.backup(plan.backup)
    segments = tuple(state.all_segments())
    pins = (pin for pin in pinned_points(backup) if pin.holds)
    return replace(
        plan,
        topics=named(sorted({incarnation.topic for incarnation in state.topics}), most=_NAMED_MAX, of="topics"),
        points=len(state.history),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.stored_bytes for segment in segments),
        oldest_ms=state.history.first_ms,
        newest_ms=state.committed_at_ms,
        pins=tuple(f"commit {pin.commit}: {pin.reason}" for pin in pins),
    )
