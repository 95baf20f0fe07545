"""The sum of a ledger: the low-level backups of one resource, and their order. Pure. Forbidden entries are refused.

At most one low-level backup runs or is paused. The writer of an entry must have read every earlier entry (entry numbers
are dense and create-only), must hold a lock not older than the lock of the last entry, and must know the newest
generation of the resource. Hence an operator decides nothing after a stop of an hour. In one ledger the numbers give
the order, never clocks. A backup that starts names all existing low-level backups, in any repository, by the `word` of
their `started` entries. So the order is known across ledgers, and in a copy of a repository. A backup without such a
relation to another backup is neither older nor newer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from offsite.repository.declared.entry import (
    BackupSettings,
    BackupStart,
    DeclaredEntry,
    DeclaredEntryKind,
    Origin,
    Release,
)
from offsite.repository.declared.members import BackupMember, members_after
from offsite.stores.numbered_log import EntryRefusedError, LedgerEntryInfo


class BackupPhase(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    REMOVING = "removing"
    REMOVED = "removed"

    @property
    def is_live(self) -> bool:
        """Whether commits may be added to the backup, now or after a resume."""
        return self in {BackupPhase.RUNNING, BackupPhase.PAUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLevelBackup:
    """One low-level backup. Times: epoch ms by the store's clock, 0: never. `running_ms`: time of the last start or
    resume. `chosen_ms`: time of the last change of topics. `is_sealed`: no process can add a commit to the stopped
    backup. `word`: random value of the `started` entry. `origin`: history before the backup; None if an earlier version
    started the backup. `release`: a person's permission to delete the backup, given by the entry `released`."""

    number: int
    beginning: BackupStart
    settings: BackupSettings
    phase: BackupPhase
    started_ms: int
    running_ms: int = 0
    chosen_ms: int = 0
    stopped_ms: int = 0
    removed_ms: int = 0
    is_sealed: bool = False
    word: str = ""
    origin: Origin | None = None
    release: Release | None = None
    released: LedgerEntryInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredHistory:
    """The state after entry `seq`, whose hash is `head`. `generation` and `fence` are the highest values so far.
    `members`: the resources that share the backup, in the ledger of an identity; in such a ledger `generation` counts
    the statements of members."""

    uid: str
    seq: int = 0
    head: str = ""
    generation: int = 0
    fence: int = 0
    backups: tuple[LowLevelBackup, ...] = ()
    members: tuple[BackupMember, ...] = ()

    @property
    def live(self) -> LowLevelBackup | None:
        """The low-level backup that runs or is paused."""
        return next((backup for backup in self.backups if backup.phase.is_live), None)

    @property
    def remaining(self) -> tuple[LowLevelBackup, ...]:
        """The low-level backups with objects left, oldest first."""
        return tuple(backup for backup in self.backups if backup.phase is not BackupPhase.REMOVED)


def apply_entry(history: DeclaredHistory, entry: DeclaredEntry, *, head: str) -> DeclaredHistory:
    """Return the state after an entry whose hash is `head`. Raises `EntryRefusedError`."""
    if (entry.seq, entry.previous) != (history.seq + 1, history.head):
        raise EntryRefusedError(f"entry {entry.seq} does not follow entry {history.seq}")
    if entry.fence < history.fence:
        raise EntryRefusedError(
            f"entry {entry.seq} was written under lock {entry.fence}, but lock {history.fence} is newer"
        )
    if entry.generation < history.generation:
        raise EntryRefusedError(f"entry {entry.seq} has generation {entry.generation}, older than {history.generation}")
    word = LedgerEntryInfo(hash=head, by=entry.by, at_ms=entry.at_ms)
    if (history.members or entry.member is not None) and entry.generation > history.generation + 1:
        raise EntryRefusedError(
            f"entry {entry.seq} has statement {entry.generation}, but the ledger has {history.generation}"
        )
    if entry.kind in {DeclaredEntryKind.JOINED, DeclaredEntryKind.DECLARED, DeclaredEntryKind.LEFT}:
        if history.backups and not history.members:
            raise EntryRefusedError("the ledger belongs to a resource that does not share its backup")
        changed = replace(history, members=members_after(history.members, entry, word, uid=history.uid))
    else:
        changed = _APPLIED[entry.kind](history, entry)
    if entry.kind is DeclaredEntryKind.RELEASED:
        changed = _with(changed, replace(_named_backup(changed, entry), released=word))
    return replace(changed, seq=entry.seq, head=head, generation=entry.generation, fence=entry.fence)


def _started(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
    if history.live is not None:
        raise EntryRefusedError("a backup begins while another one runs")
    if entry.beginning is None or entry.settings is None or entry.number != len(history.backups) + 1:
        raise EntryRefusedError("a backup begins without its name and settings, or under another number")
    if any(
        low.beginning.backup == entry.beginning.backup and low.phase is BackupPhase.REMOVING
        for low in history.remaining
    ):
        raise EntryRefusedError("a backup begins where one is being deleted")
    backup = LowLevelBackup(
        number=entry.number,
        beginning=entry.beginning,
        settings=entry.settings,
        phase=BackupPhase.RUNNING,
        started_ms=entry.at_ms,
        running_ms=entry.at_ms,
        word=entry.word,
        origin=entry.origin,
    )
    return replace(history, backups=(*history.backups, backup))


def _turned(before: BackupPhase, then: BackupPhase) -> Callable[[DeclaredHistory, DeclaredEntry], DeclaredHistory]:
    def apply(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
        backup = _named_backup(history, entry)
        if backup.phase is not before:
            raise EntryRefusedError(f"backup {entry.number} is {backup.phase}, and cannot be {then}")
        running_ms = entry.at_ms if then is BackupPhase.RUNNING else backup.running_ms
        removed_ms = entry.at_ms if then is BackupPhase.REMOVED else 0
        return _with(history, replace(backup, phase=then, running_ms=running_ms, removed_ms=removed_ms))

    return apply


def _modified(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
    backup = _named_backup(history, entry)
    if not backup.phase.is_live or entry.settings is None:
        raise EntryRefusedError(f"backup {entry.number} is {backup.phase}, and gets no settings")
    changed = replace(backup, settings=entry.settings)
    if entry.chosen is not None and entry.chosen.topics:
        beginning = replace(backup.beginning, topics=entry.chosen.topics, exclude=entry.chosen.exclude)
        changed = replace(changed, beginning=beginning, chosen_ms=entry.at_ms)
    return _with(history, changed)


def _stopped(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
    backup = _named_backup(history, entry)
    if not backup.phase.is_live:
        raise EntryRefusedError(f"backup {entry.number} is {backup.phase}, and cannot be stopped")
    return _with(history, replace(backup, phase=BackupPhase.STOPPED, stopped_ms=entry.at_ms))


def _sealed(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
    backup = _named_backup(history, entry)
    if backup.phase is not BackupPhase.STOPPED:
        raise EntryRefusedError(f"backup {entry.number} is {backup.phase}, and cannot be sealed")
    return _with(history, replace(backup, is_sealed=True))


def _released(history: DeclaredHistory, entry: DeclaredEntry) -> DeclaredHistory:
    backup = _named_backup(history, entry)
    if backup.phase is not BackupPhase.STOPPED or entry.release is None:
        raise EntryRefusedError(f"backup {entry.number} is {backup.phase}, and cannot be released")
    return _with(history, replace(backup, release=entry.release))


def _named_backup(history: DeclaredHistory, entry: DeclaredEntry) -> LowLevelBackup:
    if not 1 <= entry.number <= len(history.backups):
        raise EntryRefusedError(f"there is no backup {entry.number}")
    return history.backups[entry.number - 1]


def _with(history: DeclaredHistory, changed: LowLevelBackup) -> DeclaredHistory:
    backups = list(history.backups)
    backups[changed.number - 1] = changed
    return replace(history, backups=tuple(backups))


_APPLIED: Mapping[DeclaredEntryKind, Callable[[DeclaredHistory, DeclaredEntry], DeclaredHistory]] = {
    DeclaredEntryKind.STARTED: _started,
    DeclaredEntryKind.PAUSED: _turned(BackupPhase.RUNNING, BackupPhase.PAUSED),
    DeclaredEntryKind.RESUMED: _turned(BackupPhase.PAUSED, BackupPhase.RUNNING),
    DeclaredEntryKind.MODIFIED: _modified,
    DeclaredEntryKind.STOPPED: _stopped,
    DeclaredEntryKind.SEALED: _sealed,
    DeclaredEntryKind.REMOVING: _turned(BackupPhase.STOPPED, BackupPhase.REMOVING),
    DeclaredEntryKind.REMOVED: _turned(BackupPhase.REMOVING, BackupPhase.REMOVED),
    DeclaredEntryKind.RELEASED: _released,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A low-level backup. `ledger`: a text that identifies the ledger, such as the URL of its store."""

    ledger: str
    low: LowLevelBackup

    @property
    def place(self) -> tuple[str, int]:
        return self.ledger, self.low.number


def is_older(older: Located, newer: Located, among: Sequence[Located]) -> bool:
    """Whether `newer` started after `older`, by the records of `among`. Two backups that name each other are
    unrelated."""
    return _reaches(older, newer, among) and not _reaches(newer, older, among)


def find_last(among: Sequence[Located]) -> Located | None:
    """Return the last backup: the live backup, or else the only backup without a newer one. None if the records do not
    tell."""
    newest = [candidate for candidate in among if not any(_reaches(candidate, other, among) for other in among)]
    live = [candidate for candidate in among if candidate.low.phase.is_live]
    if live:
        return live[0] if len(live) == 1 and live[0] in newest else None
    return newest[0] if len(newest) == 1 else None


def rank(backup: Located, among: Sequence[Located]) -> tuple[int, bool, int]:
    """Sort key: older backups before newer ones. Of unrelated backups the live one is later. The clock orders the rest
    for people, and decides nothing."""
    older = sum(is_older(other, backup, among) for other in among)
    return older, backup.low.phase.is_live, backup.low.started_ms


def _reaches(older: Located, newer: Located, among: Sequence[Located]) -> bool:
    reached, ends = {older.place}, [older]
    while ends:
        start = ends.pop()
        for candidate in among:
            if candidate.place not in reached and _is_named(start, candidate):
                if candidate.place == newer.place:
                    return True
                reached.add(candidate.place)
                ends.append(candidate)
    return False


def _is_named(older: Located, newer: Located) -> bool:
    """Whether the records of `newer` say that `newer` started after `older`."""
    if older.ledger == newer.ledger:
        return older.low.number < newer.low.number
    origin = newer.low.origin
    return (
        bool(older.low.word)
        and origin is not None
        and older.low.word in {predecessor.word for predecessor in origin.predecessors}
    )
