"""Am I safe? The answer for every backup, from its commits and from recorded checks and restores. Reads no data; needs
no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.model.units import format_time
from offsite.overview.comparison import SourceComparison
from offsite.overview.judgement import STALE_AFTER_S, age_s, notes_on, problems_of
from offsite.points.point_cut import DefaultPoint, default_point
from offsite.repository.backup import Backup
from offsite.repository.descriptor import import_origin
from offsite.repository.generation_sets.ledger import SetLayout, set_of_backup
from offsite.repository.heads import RememberedHead, find_vanished
from offsite.repository.removal import KEPT_MS, RemovedBackup
from offsite.repository.repository import Repository, describe_strangers, strangers_around, strangers_in
from offsite.repository.state import BackupState
from offsite.restore.unfinished_aside import unfinished_asides, unreadable_restores
from offsite.stores.store import Store
from offsite.stores.wrapped_store import display_now_ms
from offsite.upkeep.retention.missing_points import PointsLetGo, note_look, since_look
from offsite.upkeep.retention.report import RetentionOutlook, retention_outlook
from offsite.upkeep.verification.last_checks import LastChecks, read_last_checks

ReadT = TypeVar("ReadT")

_STRANGERS_MAX = 1000
_LOOKED_AT_MAX = 5000
"""At most so many names of a backup are examined for foreign objects, five requests to an object store. A verification
examines all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """Whether a backup is safe to rely on. `safe`: the answer; `problems`: the reasons for no. `notes`: harmless facts,
    such as unfinished restores. A restore without a commit goes to `default_commit`, and brings back everything that
    the source held at `restorable_to_ms`. `age_s`: negative for a commit dated in the future. `damaged`: stored objects
    differ from the written objects, or are gone. `head_commit` and `head_hash`: the newest usable commit.
    `completed_ms`: when a pass was last complete, with everything of the source backed up or named (epoch ms by the
    store's clock, 0: never or unknown). `retention`: what is kept and what goes next; None where nothing ever went and
    nothing is pinned. `let_go`: restore points that went since somebody last looked on the local machine, and by whom;
    an unknown originator is a problem. `proven`: this installation verified the backup as sound, or proved it by a
    drill; without either, `safe` rests on what the commits say. `source`: the backup beside its living source; None
    where no cluster was named."""

    backup: str
    safe: bool
    problems: tuple[str, ...]
    restorable_from_ms: int
    restorable_to_ms: int
    age_s: int
    notes: tuple[str, ...] = ()
    damaged: bool = False
    head_commit: int = 0
    head_hash: str = ""
    checks: LastChecks | None = None
    completed_ms: int = 0
    retention: RetentionOutlook | None = None
    default_commit: int = 0
    let_go: tuple[PointsLetGo, ...] = ()
    proven: bool = False
    source: SourceComparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`safe`: of the backups; losses at their sources do not count. `removed`: backups that the local machine saw in
    the repository and that were removed on purpose within the last 30 days: by whom, and why. `notes`: foreign objects
    beside the backups."""

    repository: str
    safe: bool
    backups: tuple[BackupStatus, ...]
    removed: tuple[RemovedBackup, ...] = ()
    notes: tuple[str, ...] = ()

    def beside(self, find_source: Callable[[str], SourceComparison | None]) -> Status:
        """The status with the comparison of each backup with its living source."""
        backups = (replace(backup, source=find_source(backup.backup)) for backup in self.backups)
        return replace(self, backups=tuple(backups))


def read_status(repository: Repository, *, stale_after_s: int = STALE_AFTER_S, looks: bool = False) -> Status:
    """Is every backup safe to rely on? An unreadable backup is a problem, not an error. A backup that the local machine
    saw before and that is gone is a problem too, unless the repository records its removal. `looks`: the answer is
    shown to a person of the local machine, and restore points gone up to now need not be reported again, unless nobody
    left a line about them. Raises as `Backup.with_records_at` if records lie elsewhere."""
    now_ms, names = display_now_ms(repository.store), repository.backups()
    statuses = (_status(repository, name, now_ms, stale_after_s, looks=looks) for name in names)
    absent = [(head, head.removal()) for head in find_vanished(repository, names)]
    backups = (*statuses, *(_gone(head, now_ms) for head, removal in absent if removal is None))
    removed = (removal for _, removal in absent if removal is not None)
    return Status(
        repository=repository.store.url,
        safe=bool(backups) and all(backup.safe for backup in backups),
        backups=backups,
        removed=tuple(removal for removal in removed if now_ms - removal.at_ms < KEPT_MS),
        notes=tuple(_strangers(repository.store, strangers_around(repository.store))),
    )


def _strangers(store: Store, keys: Iterator[str]) -> Iterator[str]:
    """Report foreign objects in a line. A denied listing is only logged: foreign objects harm nothing."""
    try:
        if foreign_keys := tuple(islice(keys, _STRANGERS_MAX)):
            yield describe_strangers(foreign_keys)
    except OffsiteError as error:
        warned("strangers", why=error.message, store=store.url)


def _status(repository: Repository, name: str, now_ms: int, stale_after_s: int, *, looks: bool) -> BackupStatus:
    try:
        backup = replace(repository, records_at=None).backup(name)
        state = backup.readable_state()
    except OffsiteError as error:
        unread = _judged(name, [f"{error.id}: {error.message}"], BackupState(backup=name), now_ms)
        return replace(unread, damaged=isinstance(error, Damaged))
    if repository.records_at is not None:  # problems of that place say nothing of the backup
        backup = backup.with_records_at(repository.records_at)
    default, torn, unseen = _default(backup, state)
    fresh_for_s = None if import_origin(backup.descriptor) else stale_after_s  # an archive may have any age
    damage = [*_damage(repository, backup, state), *torn]
    checks, unchecked = _read(lambda: read_last_checks(backup, now_ms=now_ms), "the last checks")
    points_let_go, uncounted = _read(lambda: since_look(backup, state), "the deletions since you last looked")
    let_go = points_let_go or ()
    retention, untold = _read(lambda: retention_outlook(backup, state), "the next deletions")
    unclaimed = [str(loss) for loss in let_go if not loss.is_claimed]
    if looks and not unclaimed:
        note_look(backup, state)
    problems = [
        *damage,
        *unclaimed,
        *unseen,
        *_lacks(backup),
        *_found_by(checks),
        *problems_of(state, now_ms, fresh_for_s),
    ]
    status = _judged(name, problems, state, now_ms, default)
    unchecked = unchecked if checks is None else checks.problems
    notes = (*notes_on(state, now_ms), *_left_aside(default), *_notes(backup), *unchecked, *untold, *uncounted)
    strangers = _strangers(backup.store, strangers_in(backup.store, name, most=_LOOKED_AT_MAX))
    notes = (*(str(loss) for loss in let_go if loss.is_claimed), *notes, *strangers)
    return replace(
        status,
        notes=notes,
        damaged=bool(damage),
        checks=checks,
        retention=retention,
        let_go=let_go,
        proven=checks is not None and checks.is_proof,
    )


def _default(backup: Backup, state: BackupState) -> tuple[DefaultPoint, tuple[str, ...], tuple[str, ...]]:
    """The commit that a restore without a commit goes to; and damage or unreadability of its cut, which would stop the
    restore."""
    try:
        return default_point(backup.store, state), (), ()
    except OffsiteError as error:
        cut = "the consistent cut for restores"
        if isinstance(error, Damaged):
            return DefaultPoint.newest(state), (f"{cut} is damaged: {error.message}",), ()
        return DefaultPoint.newest(state), (), (f"{cut} cannot be read: {error.message}",)


def _left_aside(default: DefaultPoint) -> Iterable[str]:
    if default.newer is not None:
        yield f"a restore uses commit {default.commit}, the newest with a consistent cut; {default.newer}"


def _gone(head: RememberedHead, now_ms: int) -> BackupStatus:
    problems = [head.absent(), head.forgotten_by()]
    return replace(_judged(head.backup, problems, BackupState(backup=head.backup), now_ms), damaged=True)


def _damage(repository: Repository, backup: Backup, state: BackupState) -> Iterable[str]:
    if state.unreadable:
        yield f"no commit after {state.seq} can be used: {state.unreadable}"
    elif lost := backup.lost_commit(state):
        seal = backup.layout.seal_key(lost)
        yield f"commits {state.seq + 1} to {lost} are missing, but their catalog exists: {seal}"
    if gone := RememberedHead(repository=repository, backup=state.backup).problem(backup, state):
        yield gone


def _lacks(backup: Backup) -> Iterable[str]:
    """What a generation lacks of the previous one: a person has to look at the source."""
    if (named := set_of_backup(backup.descriptor.name)) is None:
        return
    from offsite.repository.generation_sets.ledger import why_kept  # reads a ledger, of generations alone

    try:
        why = why_kept(backup.store, SetLayout(name=named[0]), successor=named[1])
    except OffsiteError as error:
        why = f"its generations cannot be read: {error.message}"
    if why:
        yield why


def _notes(backup: Backup) -> Iterable[str]:
    try:
        yield from map(str, unfinished_asides(backup))
        yield from unreadable_restores(backup)
    except OffsiteError as error:
        yield f"unfinished restores cannot be read: {error.message}"


def _read(read: Callable[[], ReadT], what: str) -> tuple[ReadT | None, tuple[str, ...]]:
    """What `read` returns; after an error None, with a note that `what` cannot be read."""
    try:
        return read(), ()
    except OffsiteError as error:
        return None, (f"{what} cannot be read: {error.message}",)


def _found_by(checks: LastChecks | None) -> Iterable[str]:
    for record in checks.damage if checks is not None else ():
        damage = f"{amount(record.damaged, 'object')} damaged or missing"
        check = f"the {record.depth} check of {format_time(record.verified_at_ms)}"
        is_claimed = record in checks.claimed if checks is not None else False
        claim = f", as {record.by or 'a record without a name'} claims: check with offsite verify --deep"
        yield f"{check} found {damage}{claim if is_claimed else ''}"


def _judged(
    name: str, problems: list[str], state: BackupState, now_ms: int, default: DefaultPoint | None = None
) -> BackupStatus:
    default = default or DefaultPoint.newest(state)
    return BackupStatus(
        backup=name,
        safe=not problems,
        problems=tuple(problems),
        restorable_from_ms=state.history.first_ms,
        restorable_to_ms=default.complete_ms,
        age_s=age_s(default.complete_ms, now_ms),
        head_commit=state.seq,
        head_hash=state.head_hash,
        completed_ms=state.completed_at_ms,
        default_commit=default.commit,
    )
