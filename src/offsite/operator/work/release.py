"""A person lets a low-level backup go that no comparison lets go: what is entered in its ledger, and when it counts.

A release is for what lies there when it is shown: with one more commit, or another copy in its place, it says nothing.
Given on another machine it counts some days later (see `services.releases`): whoever may create objects can write one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.model.errors import BackupNotFound, BadOption, Damaged, PlanChanged, ResourceConflict
from offsite.model.journal import decided, warned
from offsite.model.named import named
from offsite.operator.world.entering import Said, enter
from offsite.repository.declared.entry import REASON_MAX, Kind, LastCommit, Release
from offsite.repository.declared.history import LowLevel, Phase
from offsite.repository.declared.kept import get_kept
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger, owner_of
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.restores.readers import readers_of
from offsite.repository.state import BackupState
from offsite.services.releases import ReleaseMemory
from offsite.services.retention.pins import pinned_points
from offsite.services.seal import seal_backup
from offsite.stores.store import Store

_NAMED_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan:
    """What would be let go. `commit`, `hash`: the newest commit; `oldest_ms`, `newest_ms`: the times of its restore
    points (epoch ms, 0: none); `kept`: why the last expiry job kept it; `problem`: why what it holds cannot be told.
    `pins` and `restores` go with it, but for a restore that runs: that is waited for. `released`: its ledger says that
    it is let go; `doubt`: why that does not count on this machine, or not yet."""

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


def is_released(repository: Repository, uid: str, low: LowLevel) -> bool:
    """Whether a person let it go as it lies there now. Raises what the store raises."""
    return _is_said(low, _lies_there(repository, low.beginning.backup)[0]) and not _doubt(repository.store, uid, low)


def release_doubt(repository: Repository, uid: str, low: LowLevel) -> str:
    """Why a release of what lies there does not count, or not yet; empty where it does, or there is none. Raises what
    the store raises."""
    is_said = _is_said(low, _lies_there(repository, low.beginning.backup)[0])
    return _doubt(repository.store, uid, low) if is_said else ""


def _is_said(low: LowLevel, last: LastCommit) -> bool:
    return low.release is not None and low.release.last == last


def _doubt(store: Store, uid: str, low: LowLevel) -> str:
    return "" if low.released is None else _memory(store, uid).doubt(low.released)


def _memory(store: Store, uid: str) -> ReleaseMemory:
    return ReleaseMemory(store=store, prefix=DeclaredLayout(uid=uid).ledger_prefix)


def plan_release(repository: Repository, backup: str) -> ReleasePlan:
    """What a release would let go. Seals what was stopped, and changes nothing else. Raises `BackupNotFound` for one
    that no resource declared, or that is removed, `ResourceConflict` for one that is not stopped."""
    uid, low = _find(repository, backup)
    if not low.is_sealed:
        _seal(repository, uid, low)
    last, state, problem = _lies_there(repository, backup)
    why = next(
        (line.reason for line in get_kept(repository.store, DeclaredLayout(uid=uid)) if line.backup == backup), ""
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
    """Enter that it may go, as it was shown. Raises `BadOption` for a reason that is empty or too long, `PlanChanged`
    where something else lies there by now, `RestoreRunning` while an operator holds the lock."""
    if not reason.strip() or len(reason) > REASON_MAX:
        raise BadOption(f"the reason of a release has 1 to {REASON_MAX} characters, this one {len(reason)}")
    now = plan_release(repository, plan.backup)
    if (now.uid, now.number, now.commit, now.hash) != (plan.uid, plan.number, plan.commit, plan.hash):
        raise PlanChanged(f"{plan.backup} is not what was shown any more", hint="run the same command again")
    last = LastCommit(commit=plan.commit, hash=plan.hash)
    said = Said(kind=Kind.RELEASED, number=plan.number, release=Release(last=last, reason=reason))
    after = enter(repository.store, plan.uid, lambda _: said, by=ProcessIdentity.mine())
    if (word := after.backups[plan.number - 1].released) is not None:
        _memory(repository.store, plan.uid).note_given(word)
    decided("released", why=reason, uid=plan.uid, backup=plan.backup)
    return plan_release(repository, plan.backup)


def refuse_release(repository: Repository, backup: str) -> ReleasePlan:
    """Never let it go on this machine by the release that its ledger has: nobody gave that. Raises as `plan_release`,
    and `BadOption` where there is none."""
    uid, low = _find(repository, backup)
    if low.released is None:
        raise BadOption(f"nobody released {backup}", hint="see: offsite operator describe")
    _memory(repository.store, uid).note_refused(low.released)
    warned("release_refused", uid=uid, backup=backup, who=low.released.by, why="a person said so")
    return plan_release(repository, backup)


def _find(repository: Repository, backup: str) -> tuple[str, LowLevel]:
    uid = owner_of(repository.store, backup)
    if uid is None:
        raise BackupNotFound(
            f"no resource declared a backup {backup!r} in {repository.store.url}", hint="see: offsite list"
        )
    ledger = DeclaredLedger(store=repository.store, layout=DeclaredLayout(uid=uid)).read()
    low = next((each for each in reversed(ledger.there) if each.beginning.backup == backup), None)
    if low is None or low.phase is Phase.REMOVING:
        raise BackupNotFound(f"{backup} is removed already, or is being removed", hint="see: offsite operator describe")
    if low.phase is not Phase.STOPPED:
        raise ResourceConflict(
            f"{backup} is {low.phase}: only what another backup took the place of is released",
            hint="to be rid of all of a resource: offsite operator delete",
        )
    return uid, low


def _seal(repository: Repository, uid: str, low: LowLevel) -> None:
    try:
        seal_backup(repository.backup(low.beginning.backup))
    except (BackupNotFound, Damaged):  # nothing can be added to it
        return
    said = Said(kind=Kind.SEALED, number=low.number)
    enter(repository.store, uid, lambda _: said, by=ProcessIdentity.mine())


def _lies_there(repository: Repository, backup: str) -> tuple[LastCommit, BackupState | None, str]:
    """The newest commit, the state there, and why that cannot be told."""
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
