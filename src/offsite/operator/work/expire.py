"""A job of the expiry queue: lets old data of one declared backup go, or all of it.

The retention is applied to the last low-level backup. When one can restore from that, and it has the least that is to
be restorable, all older ones are deleted whole. A resource that is deleted has all of its backups stopped and deleted.
One such job of a backup runs at a time, whoever operates: a lease in each repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import BackupNotFound, ExpiryNotDone
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.operator.work.beating import beating
from offsite.operator.work.returned import sweep_removed
from offsite.repository.backup import Backup
from offsite.repository.declared.entry import Entry, Kind
from offsite.repository.declared.history import LowLevel, Phase
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.generations.removal import remove_backup, unopened
from offsite.repository.layout import BackupLayout
from offsite.repository.leftovers import living_since_ms
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import LeaseLayout
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.services.retention.apply import apply_retention, plan_retention
from offsite.services.retention.pins import pinned_points
from offsite.services.retention.policy import RetentionPolicy
from offsite.services.seal import seal_backup

BY = "expiry"
_TRIES = 20
"""Operators may be faster so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is asked of a job. `policy`: what the retention keeps of the last backup, None for all; `minimum_ms`: how
    much must be restorable of it before older ones go; `is_deletion`: all go."""

    uid: str
    repositories: Sequence[Repository]
    policy: RetentionPolicy | None
    minimum_ms: int
    is_deletion: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What a job did. `points`: restore points let go of the last backup; `removed`: names of the backups that were
    deleted as a whole; `kept`: of older ones that stay, and why."""

    uid: str
    points: int = 0
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Low:
    """`is_continued`: a later one goes on in the same place, for their names hold no time: what lies there is that
    one's."""

    repository: Repository
    low: LowLevel
    is_continued: bool = False

    @property
    def name(self) -> str:
        return self.low.beginning.backup


def expire(asked: Expiry, *, clock: Clock) -> Expired:
    """Do one job. Raises `RestoreRunning` while another one of this backup runs, `ExpiryNotDone` where a backup that is
    to go is still read or copied, and what the retention and the stores raise."""
    layout = DeclaredLayout(uid=asked.uid)
    with ExitStack() as held:
        for repository in asked.repositories:
            held.enter_context(_alone(repository, layout.expiry))
        done = _delete(asked) if asked.is_deletion else _expire(asked, clock)
        for store in {each.store.url: each.store for each in asked.repositories}.values():
            sweep_removed(store, by=BY)
        return done


def _delete(asked: Expiry) -> Expired:
    return Expired(uid=asked.uid, removed=tuple(_remove(asked.uid, each) for each in _lows(asked)))


def _expire(asked: Expiry, clock: Clock) -> Expired:
    lows = _lows(asked)
    for each in lows:
        if each.is_continued:
            _forget(asked.uid, each)
    return _expire_old(asked, [each for each in lows if not each.is_continued], clock)


def _expire_old(asked: Expiry, lows: Sequence[_Low], clock: Clock) -> Expired:
    if not lows:
        return Expired(uid=asked.uid)
    *older, last = lows
    backup = _opened(last)
    points = 0 if backup is None or asked.policy is None else _let_go(backup, asked.policy, clock)
    why = _why_not(backup, asked.minimum_ms) if older else ""
    judged = [(each, f"{last.name} {why}" if why else _why_kept(each)) for each in older]
    return Expired(
        uid=asked.uid,
        points=points,
        removed=tuple(_remove(asked.uid, each) for each, kept in judged if not kept),
        kept=tuple(f"{each.name}: {kept}" for each, kept in judged if kept),
    )


def _let_go(backup: Backup, policy: RetentionPolicy, clock: Clock) -> int:
    """Apply the retention with its guards: how many restore points went."""
    plan = plan_retention(backup, policy, clock=clock)
    return apply_retention(backup, plan, clock=clock).plan.points


def _why_not(last: Backup | None, minimum_ms: int) -> str:
    """Why older backups stay; empty: the last one has all that is asked of it."""
    state = None if last is None else last.sound_state()
    if last is None or state is None or not state.completed_at_ms:
        return "has not copied everything once"
    if not state.positions:  # as when the source was emptied, or its topics were misspelt
        return "holds no topic"
    if state.completed_at_ms - _oldest_ms(last, state) < minimum_ms:
        return "does not reach back far enough yet"
    return ""


def _why_kept(older: _Low) -> str:
    """Why an older backup stays whatever the last one has; empty: it may go."""
    if older.low.phase.is_live:  # the clocks of two stores differ
        return "it is not stopped"
    backup = _opened(older)
    if backup is not None and any(pin.holds for pin in pinned_points(backup)):
        return "a restore point of it is pinned"
    return ""


def _oldest_ms(backup: Backup, state: BackupState) -> int:
    """The time of the oldest point that one can restore everything to."""
    for line in state.history:
        stored = backup.log.get(line.seq)
        if stored is not None and not stored.commit.changes.incomplete:
            return line.committed_at_ms
    return state.completed_at_ms


def _opened(low: _Low) -> Backup | None:
    try:
        return low.repository.backup(low.name)
    except BackupNotFound:
        return None


def _lows(asked: Expiry) -> list[_Low]:
    """All that is left of the resource's backups, the oldest first; one that is live is the last, whatever the clocks
    of the stores say."""
    found = [each for repository in asked.repositories for each in _lows_in(repository, asked.uid)]
    return sorted(found, key=lambda each: (each.low.phase.is_live, each.low.started_ms))


def _lows_in(repository: Repository, uid: str) -> Iterator[_Low]:
    there = DeclaredLedger(store=repository.store, layout=DeclaredLayout(uid=uid)).read().there
    newest = {low.beginning.backup: low.number for low in there}
    for low in there:
        yield _Low(repository=repository, low=low, is_continued=low.number != newest[low.beginning.backup])


def _forget(uid: str, low: _Low) -> None:
    """Enter that nothing is left of it for itself. Nothing is deleted."""
    if low.low.phase is Phase.STOPPED:
        _decide(uid, low, Kind.REMOVING)
    _decide(uid, low, Kind.REMOVED)
    decided("expired", why="a later one goes on in its place", uid=uid, backup=low.name, number=low.low.number)


def _remove(uid: str, low: _Low) -> str:
    """Stop it where it runs, seal it, and delete it as a whole. Its name."""
    if low.is_continued:
        _forget(uid, low)
        return low.name
    phase = low.low.phase
    if phase.is_live:
        _decide(uid, low, Kind.STOPPED)
        phase = Phase.STOPPED
    if phase is Phase.STOPPED:
        if not low.low.is_sealed and (backup := _opened(low)) is not None:
            seal_backup(backup)
        _check_idle(uid, low)
        _decide(uid, low, Kind.REMOVING)
    layout = BackupLayout(backup=low.name)
    if not remove_backup(low.repository.store, layout, is_read=lambda: _is_read(low), announce=_announced(uid, low)):
        raise ExpiryNotDone(f"{low.name} is being read by a restore", hint="it is tried again")
    _decide(uid, low, Kind.REMOVED)
    decided("expired", why="an older backup, or a resource that is deleted", uid=uid, backup=low.name)
    return low.name


def _check_idle(uid: str, low: _Low) -> None:
    """An agent that copies hears of the stop within seconds."""
    terms = LeaseTerms(store=low.repository.store, lease=DeclaredLayout(uid=uid).agent)
    newest = DeclaredLedger(store=low.repository.store, layout=DeclaredLayout(uid=uid)).read().backups[-1].number
    if low.low.number == newest and terms.holder(asking=ProcessIdentity.mine()) is not None:
        raise ExpiryNotDone(f"an agent still has {low.name} in hand", hint="it is tried again")


def _is_read(low: _Low) -> bool:
    """Whether a restore reads it; its descriptor is gone by then."""
    return living_since_ms(unopened(low.repository.store, BackupLayout(backup=low.name))) is not None


def _announced(uid: str, low: _Low) -> Callable[[int], None]:
    """What is going to be deleted is written down before."""
    layout, store = DeclaredLayout(uid=uid), low.repository.store

    def announce(size_bytes: int) -> None:
        line = Deletion(kind=GENERATION, what=low.name, rule="a newer backup has all that is asked", bytes=size_bytes)
        seq = DeclaredLedger(store=store, layout=layout).read().seq
        note_deletions(store, layout, [line], by=BY, commit=seq)

    return announce


def _decide(uid: str, low: _Low, kind: Kind) -> None:
    """Enter what happens to a backup, under the lock. Raises `RestoreRunning` while an operator holds it."""
    layout, store = DeclaredLayout(uid=uid), low.repository.store
    ledger, mine = DeclaredLedger(store=store, layout=layout), ProcessIdentity.mine()
    with LeaseTerms(store=store, lease=layout.lock).held(mine) as claim:
        for _ in range(_TRIES):
            history = ledger.read()
            entry = Entry(
                seq=history.seq + 1,
                previous=history.head,
                kind=kind,
                generation=history.generation,
                fence=claim.term,
                word=random_id(16),
                at_ms=store.now_ms(),
                number=low.low.number,
                by=mine.text,
            )
            if ledger.append(entry, to=history) is not None:
                return
        raise ExpiryNotDone(f"others decide about {low.name} all the time", hint="it is tried again")


@contextmanager
def _alone(repository: Repository, lease: LeaseLayout) -> Iterator[None]:
    terms = LeaseTerms(store=repository.store, lease=lease)
    with terms.held(ProcessIdentity.mine()) as claim, beating(terms, claim):
        yield
