"""The sum of a ledger: the low-level backups of one resource. Pure. Forbidden entries are refused.

At most one low-level backup runs or is paused. The writer of an entry must have read every earlier entry (entry numbers
are dense and create-only), must hold a lock not older than the lock of the last entry, and must know the newest
generation of the resource. Hence an operator decides nothing after a stop of an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from offsite.repository.declared.entry import Beginning, Entry, Kind, NotAllowedError, Origin, Release, Settings
from offsite.repository.declared.members import Member, members_after
from offsite.stores.numbered_log import LedgerWord


class Phase(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    REMOVING = "removing"
    REMOVED = "removed"

    @property
    def is_live(self) -> bool:
        """Whether commits may be added to the backup, now or after a resume."""
        return self in {Phase.RUNNING, Phase.PAUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLevel:
    """One low-level backup. Times: epoch ms by the store's clock, 0: never. `running_ms`: time of the last start or
    resume. `chosen_ms`: time of the last change of topics. `is_sealed`: no process can add a commit to the stopped
    backup. `word`: random value of the `started` entry. `origin`: history before the backup; None if an earlier version
    started the backup. `release`: a person's permission to delete the backup, given by the entry `released`."""

    number: int
    beginning: Beginning
    settings: Settings
    phase: Phase
    started_ms: int
    running_ms: int = 0
    chosen_ms: int = 0
    stopped_ms: int = 0
    removed_ms: int = 0
    is_sealed: bool = False
    word: str = ""
    origin: Origin | None = None
    release: Release | None = None
    released: LedgerWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The state after entry `seq`, whose hash is `head`. `generation` and `fence` are the highest values so far.
    `members`: the resources that share the backup, in the ledger of an identity; in such a ledger `generation` counts
    the statements of members."""

    uid: str
    seq: int = 0
    head: str = ""
    generation: int = 0
    fence: int = 0
    backups: tuple[LowLevel, ...] = ()
    members: tuple[Member, ...] = ()

    @property
    def live(self) -> LowLevel | None:
        """The low-level backup that runs or is paused."""
        return next((each for each in self.backups if each.phase.is_live), None)

    @property
    def there(self) -> tuple[LowLevel, ...]:
        """The low-level backups with objects left, oldest first."""
        return tuple(each for each in self.backups if each.phase is not Phase.REMOVED)


def after(history: History, entry: Entry, *, head: str) -> History:
    """Return the state after an entry whose hash is `head`. Raises `EntryRefusedError`."""
    if (entry.seq, entry.previous) != (history.seq + 1, history.head):
        raise NotAllowedError(f"entry {entry.seq} does not follow entry {history.seq}")
    if entry.fence < history.fence:
        raise NotAllowedError(f"entry {entry.seq} is by lock {entry.fence}, which lock {history.fence} has followed")
    if entry.generation < history.generation:
        raise NotAllowedError(f"entry {entry.seq} is by generation {entry.generation}, not by {history.generation}")
    word = LedgerWord(hash=head, by=entry.by, at_ms=entry.at_ms)
    if (history.members or entry.member is not None) and entry.generation > history.generation + 1:
        raise NotAllowedError(f"entry {entry.seq} is by word {entry.generation}, and there were {history.generation}")
    if entry.kind in {Kind.JOINED, Kind.DECLARED, Kind.LEFT}:
        if history.backups and not history.members:
            raise NotAllowedError("it is the ledger of a resource that shares it with nobody")
        changed = replace(history, members=members_after(history.members, entry, word, uid=history.uid))
    else:
        changed = _APPLIED[entry.kind](history, entry)
    if entry.kind is Kind.RELEASED:
        changed = _with(changed, replace(_found(changed, entry), released=word))
    return replace(changed, seq=entry.seq, head=head, generation=entry.generation, fence=entry.fence)


def _started(history: History, entry: Entry) -> History:
    if history.live is not None:
        raise NotAllowedError("a backup begins while another one runs")
    if entry.beginning is None or entry.settings is None or entry.number != len(history.backups) + 1:
        raise NotAllowedError("a backup begins without its name and settings, or under another number")
    if any(each.beginning.backup == entry.beginning.backup and each.phase is Phase.REMOVING for each in history.there):
        raise NotAllowedError("a backup begins where one is being deleted")
    begun = LowLevel(
        number=entry.number,
        beginning=entry.beginning,
        settings=entry.settings,
        phase=Phase.RUNNING,
        started_ms=entry.at_ms,
        running_ms=entry.at_ms,
        word=entry.word,
        origin=entry.origin,
    )
    return replace(history, backups=(*history.backups, begun))


def _turned(before: Phase, then: Phase) -> Callable[[History, Entry], History]:
    def apply(history: History, entry: Entry) -> History:
        found = _found(history, entry)
        if found.phase is not before:
            raise NotAllowedError(f"backup {entry.number} is {found.phase}, and cannot be {then}")
        running_ms = entry.at_ms if then is Phase.RUNNING else found.running_ms
        removed_ms = entry.at_ms if then is Phase.REMOVED else 0
        return _with(history, replace(found, phase=then, running_ms=running_ms, removed_ms=removed_ms))

    return apply


def _modified(history: History, entry: Entry) -> History:
    found = _found(history, entry)
    if not found.phase.is_live or entry.settings is None:
        raise NotAllowedError(f"backup {entry.number} is {found.phase}, and gets no settings")
    changed = replace(found, settings=entry.settings)
    if entry.topics:
        beginning = replace(found.beginning, topics=entry.topics, exclude=entry.exclude)
        changed = replace(changed, beginning=beginning, chosen_ms=entry.at_ms)
    return _with(history, changed)


def _stopped(history: History, entry: Entry) -> History:
    found = _found(history, entry)
    if not found.phase.is_live:
        raise NotAllowedError(f"backup {entry.number} is {found.phase}, and cannot be stopped")
    return _with(history, replace(found, phase=Phase.STOPPED, stopped_ms=entry.at_ms))


def _sealed(history: History, entry: Entry) -> History:
    found = _found(history, entry)
    if found.phase is not Phase.STOPPED:
        raise NotAllowedError(f"backup {entry.number} is {found.phase}, and cannot be sealed")
    return _with(history, replace(found, is_sealed=True))


def _released(history: History, entry: Entry) -> History:
    found = _found(history, entry)
    if found.phase is not Phase.STOPPED or entry.release is None:
        raise NotAllowedError(f"backup {entry.number} is {found.phase}, and cannot be released")
    return _with(history, replace(found, release=entry.release))


def _found(history: History, entry: Entry) -> LowLevel:
    if not 1 <= entry.number <= len(history.backups):
        raise NotAllowedError(f"there is no backup {entry.number}")
    return history.backups[entry.number - 1]


def _with(history: History, changed: LowLevel) -> History:
    rest = list(history.backups)
    rest[changed.number - 1] = changed
    return replace(history, backups=tuple(rest))


_APPLIED: Mapping[Kind, Callable[[History, Entry], History]] = {
    Kind.STARTED: _started,
    Kind.PAUSED: _turned(Phase.RUNNING, Phase.PAUSED),
    Kind.RESUMED: _turned(Phase.PAUSED, Phase.RUNNING),
    Kind.MODIFIED: _modified,
    Kind.STOPPED: _stopped,
    Kind.SEALED: _sealed,
    Kind.REMOVING: _turned(Phase.STOPPED, Phase.REMOVING),
    Kind.REMOVED: _turned(Phase.REMOVING, Phase.REMOVED),
    Kind.RELEASED: _released,
}
