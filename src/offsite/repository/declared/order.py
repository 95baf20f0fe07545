"""The order of the low-level backups of a resource: by ledgers, never by clocks. Pure.

In one ledger the numbers give the order. A backup that starts names all existing low-level backups, in any repository,
by the `word` of their `started` entries. So the order is known across ledgers, and in a copy of a repository. A backup
without such a relation to another backup is neither older nor newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.repository.declared.history import LowLevelBackup


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
