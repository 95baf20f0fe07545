"""The resources that share one declared backup: the members, the member in force, and the members that left. Pure.

The ledger has three kinds of statements of a resource: it joins, it declares a spec, it leaves. The last declared spec
is in force, by the order of entries, never by a clock. A resource that only joins changes nothing.

A resource declares each of its specs once. The generation of the resource orders its specs, but only until the cluster
of the resource is restored to an older state, or another party writes in the name of the resource. Whether a spec is
new is therefore judged by all earlier statements of the resource, not by the generation alone.

The uid of a resource proves that the resource leaves. Until then the ledger has only a hash of the uid, so only a party
that may read the resource can enter the proof. Without the uid, the report of a person counts, and may be forged.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from offsite.model.untrusted.text import printable
from offsite.repository.declared.entry import DeclaredEntry, DeclaredEntryKind, MemberStatement
from offsite.stores.numbered_log import EntryRefusedError, LedgerEntryInfo

Fields = tuple[tuple[str, str], ...]
"""A hash of each part of the spec that must be equal in all members."""
_BY_MAX = 100
_ID_TOLD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMember:
    """One resource. `by`: the process that entered the newest statement, at `at_ms` by the store's clock. `said`: all
    declared specs with their generations, in the order of entries. `joined`, `declared`: numbers of the entries with
    the join and with the last declared spec; 0: none. `is_gone`: the resource left, with proof. `dismissed`: a person's
    report that the resource is gone."""

    id: str
    name: str
    by: str
    at_ms: int
    said: tuple[tuple[int, Fields], ...]
    joined: int
    declared: int = 0
    is_gone: bool = False
    dismissed: LedgerEntryInfo | None = None
    reason: str = ""

    @property
    def has_word(self) -> bool:
        """Whether the spec of the resource may be in force."""
        return not self.is_gone and self.dismissed is None

    @property
    def fields(self) -> Fields:
        """The last declared spec."""
        return self.said[-1][1]

    def is_news(self, generation: int, fields: Fields) -> bool:
        """Whether the spec is new, judged by the earlier statements: the resource did not declare the spec in this
        generation, and the spec differs from the last statement and from the newest statement up to this
        generation."""
        if any(said_of == generation and not differing(said, fields) for said_of, said in self.said):
            return False
        until_then = [word for word in reversed(self.said) if word[0] <= generation]
        before = max(until_then, key=itemgetter(0), default=None)
        return bool(differing(self.fields, fields)) and (before is None or bool(differing(before[1], fields)))

    def __str__(self) -> str:
        """The name with the beginning of the id: names are not unique, and every writer can choose a name."""
        return f"{self.name} (member {self.id[:_ID_TOLD]}, {printable(self.by[:_BY_MAX])})"


def differing(one: Fields, other: Fields) -> tuple[str, ...]:
    """The differing parts. A part that only one side has comes from another version, and is no difference: otherwise
    all members would stand by after an upgrade."""
    mine, theirs = dict(one), dict(other)
    return tuple(part for part in sorted(mine.keys() & theirs.keys()) if mine[part] != theirs[part])


def member_id(ledger: str, uid: str) -> str:
    """Return the id of the resource with that uid in the ledger of an identity."""
    return hashlib.sha256(f"{ledger} {uid}".encode()).hexdigest()[:32]


def find_member(members: Sequence[BackupMember], wanted_id: str) -> BackupMember | None:
    """Return the member with that id."""
    return next((member for member in members if member.id == wanted_id), None)


def member_in_force(members: Sequence[BackupMember]) -> BackupMember | None:
    """Return the member whose statement is in force: the member with the last change, among members that may be in
    force; without any change, the first member that joined. None: no such member."""
    speaking = [member for member in members if member.has_word]
    return max(speaking, key=lambda member: (member.declared, -member.joined), default=None)


def members_after(
    members: tuple[BackupMember, ...], entry: DeclaredEntry, word: LedgerEntryInfo, *, uid: str
) -> tuple[BackupMember, ...]:
    """Return the members after an entry of one member. Raises `EntryRefusedError`."""
    said = entry.member
    if said is None:
        raise EntryRefusedError(f"entry {entry.seq} does not name its author")
    before = find_member(members, said.id)
    if entry.kind is DeclaredEntryKind.JOINED:
        return _joined(members, before, entry, said)
    if before is None or before.is_gone:
        raise EntryRefusedError(f"entry {entry.seq} is of a resource that does not share the backup")
    after = replace(before, by=entry.by, at_ms=entry.at_ms)
    if entry.kind is DeclaredEntryKind.DECLARED:
        if not before.has_word or not before.is_news(said.generation, said.fields):
            raise EntryRefusedError(f"entry {entry.seq} repeats an earlier statement of its resource")
        after = replace(after, said=(*before.said, (said.generation, said.fields)), declared=entry.seq)
    elif said.proof and hmac.compare_digest(member_id(uid, said.proof), said.id):
        after = replace(after, is_gone=True)
    else:
        after = replace(after, dismissed=word, reason=said.reason)
    return tuple(after if member is before else member for member in members)


def _joined(
    members: tuple[BackupMember, ...], before: BackupMember | None, entry: DeclaredEntry, said: MemberStatement
) -> tuple[BackupMember, ...]:
    """Add the member. A member that a person dismissed by mistake may join again."""
    if before is not None and (before.is_gone or before.dismissed is None):
        raise EntryRefusedError(f"entry {entry.seq} is of a resource that joined before")
    new = BackupMember(
        id=said.id,
        name=said.name,
        by=entry.by,
        at_ms=entry.at_ms,
        said=(*(before.said if before is not None else ()), (said.generation, said.fields)),
        joined=entry.seq,
    )
    return (*(member for member in members if member is not before), new)
