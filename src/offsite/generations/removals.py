"""The audit of removed generations: a line for every removal, beside the ledger, before anything is deleted.

The ledger says that a generation goes, and by which process. The line says what the promise on deletions demands: why,
and how many bytes. After a crash between the line and the deletion the next process writes another line.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from offsite.repository.generation_sets.generation_set import GenerationSet
from offsite.repository.generation_sets.ledger import SetLayout, SetLedger
from offsite.repository.local_memory import ReleaseMemory
from offsite.repository.snapshots.audit_record import (
    GENERATION,
    AuditLine,
    Deletion,
    UnreadableLine,
    note_deletions,
    read_audit,
)
from offsite.stores.numbered_log import LedgerEntryInfo
from offsite.stores.store import Store

BY = "generations"
RELEASED = "released by a person"
RETURNED = "it came back after it was removed"

_SHOWN = 10
"""Removals in a report: the rest is in the repository."""


def switched_to(generation: int) -> str:
    """The rule by which the previous generation goes."""
    return f"the switch to generation {generation} was committed"


def doubt_of(ledger: SetLedger, release: LedgerEntryInfo) -> str:
    """Why a release does not count on the local machine, or not yet; empty if it counts. Raises the errors of the
    store."""
    return ReleaseMemory(store=ledger.store, prefix=ledger.prefix).doubt(release)


class RemovalAudit:
    """The audit lines of a process, noted under the newest entry of the ledger that the process has read."""

    def __init__(self, ledger: SetLedger) -> None:
        self._ledger = ledger
        self._noted = set[int]()

    def note_removal(self, state: GenerationSet, number: int, size_bytes: int) -> None:
        """Note a removal, once per generation: a removal that waits for a restore begins again in every step. Raises
        the errors of the store: nothing may be deleted after an error."""
        if number in self._noted:
            return
        generation = state.generation(number)
        word = generation.released if generation is not None else None
        is_released = word is not None and not doubt_of(self._ledger, word)
        self._note(state, number, RELEASED if is_released else switched_to(number + 1), size_bytes)
        self._noted.add(number)

    def note_return(self, state: GenerationSet, number: int, size_bytes: int) -> None:
        """Note returned objects of a generation, each time they are deleted."""
        self._note(state, number, RETURNED, size_bytes)

    def _note(self, state: GenerationSet, number: int, rule: str, size_bytes: int) -> None:
        store, layout = self._ledger.store, SetLayout(name=state.name)
        line = Deletion(kind=GENERATION, what=layout.backup_name(number), rule=rule, bytes=size_bytes)
        note_deletions(store, layout, [line], by=BY, commit=state.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRemoval:
    """A removed generation, as noted before the removal: time (epoch ms, the store's clock), process, reason, and bytes
    in the store. `problem`: why the line cannot be read; `generation` is the line's name in such a case, and all
    further fields are empty."""

    generation: str
    at_ms: int = 0
    who: str = ""
    why: str = ""
    bytes: int = 0
    problem: str = ""


def last_removals(store: Store, layout: SetLayout) -> tuple[GenerationRemoval, ...]:
    """The last 10 removals of a set, oldest first."""
    return tuple(_removal(line) for line in deque(read_audit(store, layout), maxlen=_SHOWN))


def _removal(line: AuditLine | UnreadableLine) -> GenerationRemoval:
    if isinstance(line, UnreadableLine):
        return GenerationRemoval(generation=line.key, problem=line.problem)
    deletion = line.deletion
    return GenerationRemoval(
        generation=deletion.what, at_ms=line.at_ms, who=line.who, why=deletion.rule, bytes=deletion.bytes
    )
