"""The resources that share one declared backup: which there are, whose word counts, and who let go. Pure.

Each of them says in the ledger that it shares the backup, what it declares, and that it lets go. The newest word that
was entered counts: by the order of entries, never by a clock. A resource that only joins changes nothing.

That a resource let go is shown by its uid. The ledger has a hash of it until then, so nobody else can say so, but
whoever may read the resource. Without the uid it is the word of a person, and may be made up.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offsite.repository.declared.entry import NAME_MAX, Entry, Kind, Membership, NotAllowedError
from offsite.stores.numbered_log import LedgerWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One resource. `by`: the process that entered its newest word, at `at_ms` by the store's clock; `joined`,
    `declared`: numbers of entries, 0 for what it never changed. `is_gone`: it let go, and showed it; `dismissed`: a
    person said that it is gone."""

    id: str
    name: str
    by: str
    at_ms: int
    generation: int
    fields: tuple[tuple[str, str], ...]
    joined: int
    declared: int = 0
    is_gone: bool = False
    dismissed: LedgerWord | None = None
    reason: str = ""

    @property
    def has_word(self) -> bool:
        """Whether what it declares may count."""
        return not self.is_gone and self.dismissed is None

    def __str__(self) -> str:
        return f"{self.name} ({self.by[:NAME_MAX]})"


def member_id(ledger: str, uid: str) -> str:
    """The id of the resource with that uid in the ledger of an identity."""
    return hashlib.sha256(f"{ledger} {uid}".encode()).hexdigest()[:32]


def member_of(members: Sequence[Member], wanted: str) -> Member | None:
    """The one with that id."""
    return next((member for member in members if member.id == wanted), None)


def in_force(members: Sequence[Member]) -> Member | None:
    """Whose word counts: who changed something last, of those that have a word; the one that joined first where nobody
    did. None: there is nobody."""
    speaking = [member for member in members if member.has_word]
    return max(speaking, key=lambda member: (member.declared, -member.joined), default=None)


def members_after(members: tuple[Member, ...], entry: Entry, word: LedgerWord, *, uid: str) -> tuple[Member, ...]:
    """The members behind an entry of one of them. Raises `NotAllowedError`."""
    said = entry.member
    if said is None:
        raise NotAllowedError(f"entry {entry.seq} does not say whose word it is")
    before = member_of(members, said.id)
    if entry.kind is Kind.JOINED:
        return _joined(members, before, entry, said)
    if before is None or before.is_gone:
        raise NotAllowedError(f"entry {entry.seq} is of a resource that does not share the backup")
    after = replace(before, by=entry.by, at_ms=entry.at_ms)
    if entry.kind is Kind.DECLARED:
        if not before.has_word or said.generation <= before.generation:
            raise NotAllowedError(f"entry {entry.seq} is by generation {said.generation}, not by {before.generation}")
        after = replace(after, generation=said.generation, fields=said.fields, declared=entry.seq)
    elif said.proof and hmac.compare_digest(member_id(uid, said.proof), said.id):
        after = replace(after, is_gone=True)
    else:
        after = replace(after, dismissed=word, reason=said.reason)
    return tuple(after if member is before else member for member in members)


def _joined(members: tuple[Member, ...], before: Member | None, entry: Entry, said: Membership) -> tuple[Member, ...]:
    """It may join again where a person was wrong."""
    if before is not None and (before.is_gone or before.dismissed is None):
        raise NotAllowedError(f"entry {entry.seq} is of a resource that joined before")
    new = Member(
        id=said.id,
        name=said.name,
        by=entry.by,
        at_ms=entry.at_ms,
        generation=said.generation,
        fields=said.fields,
        joined=entry.seq,
    )
    return (*(member for member in members if member is not before), new)
