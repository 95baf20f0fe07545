"""The order of the low-level backups of a resource: by ledgers, never by clocks. Pure.

In one ledger the numbers give the order. A backup that starts names all existing low-level backups, in any repository,
by the `word` of their `started` entries. So the order is known across ledgers, and in a copy of a repository. A backup
without such a relation to another backup is neither older nor newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.repository.declared.history import LowLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A low-level backup. `ledger`: a text that identifies the ledger, such as the URL of its store."""

    ledger: str
    low: LowLevel

    @property
    def place(self) -> tuple[str, int]:
        return self.ledger, self.low.number


def is_older(one: Located, other: Located, among: Sequence[Located]) -> bool:
    """Whether `newer` started after `older`, by the records of `among`. Two backups that name each other are
    unrelated."""
    return _reaches(one, other, among) and not _reaches(other, one, among)


def last_of(among: Sequence[Located]) -> Located | None:
    """Return the last backup: the live backup, or else the only backup without a newer one. None if the records do not
    tell."""
    newest = [each for each in among if not any(_reaches(each, other, among) for other in among)]
    live = [each for each in among if each.low.phase.is_live]
    if live:
        return live[0] if len(live) == 1 and live[0] in newest else None
    return newest[0] if len(newest) == 1 else None


def rank(one: Located, among: Sequence[Located]) -> tuple[int, bool, int]:
    """Sort key: older backups before newer ones. Of unrelated backups the live one is later. The clock orders the rest
    for people, and decides nothing."""
    older = sum(is_older(other, one, among) for other in among)
    return older, one.low.phase.is_live, one.low.started_ms


def _reaches(one: Located, other: Located, among: Sequence[Located]) -> bool:
    reached, ends = {one.place}, [one]
    while ends:
        start = ends.pop()
        for each in among:
            if each.place not in reached and _is_named(start, each):
                if each.place == other.place:
                    return True
                reached.add(each.place)
                ends.append(each)
    return False


def _is_named(one: Located, other: Located) -> bool:
    """Whether the records of `newer` say that `newer` started after `older`."""
    if one.ledger == other.ledger:
        return one.low.number < other.low.number
    origin = other.low.origin
    return bool(one.low.word) and origin is not None and one.low.word in {each.word for each in origin.predecessors}
