"""Enters into the ledger of an identity what a resource says that shares the backup, and tells who else is there."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadOption, ResourceConflict
from offsite.model.journal import decided
from offsite.operator.decide.membership import next_word, refusal_to_join, word_of
from offsite.operator.decide.wanted import Place, Wanted
from offsite.operator.world.act import Hands
from offsite.operator.world.entering import Said, Say, enter
from offsite.operator.world.look import Eyes, history_of
from offsite.repository.declared.entry import REASON_MAX, Kind, Membership
from offsite.repository.declared.history import History
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import Member, in_force, member_id, member_of
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.releases import ReleaseMemory
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLine:
    """One resource that shares a backup, or did. `operator`: the process that spoke for it last, at `at_ms` by the
    store's clock; `counts`: what it declares does; `gone`: it let go, and showed it; `dismissed`: why a person said
    that it is gone, empty where nobody did; `believed`: whether that counts on this machine by now."""

    id: str
    name: str
    operator: str
    at_ms: int
    counts: bool
    gone: bool
    dismissed: str = ""
    believed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberList:
    identity: str
    repository: str
    members: tuple[MemberLine, ...]


def speak(hands: Hands, wanted: Wanted) -> History:
    """Say what is news of the resource; the state then. Under the lock it is asked whether that is still what the
    resource says: one that is deleted by now would be a member for ever. Raises `ResourceConflict` where it is not, or
    it cannot share the ledger, `RestoreRunning` while another operator holds the lock, and as `enter`."""
    store = hands.eyes.open_store(wanted.place)

    def news(now: History) -> Said | None:
        if refused := refusal_to_join(wanted, now):
            why, hint = refused
            raise ResourceConflict(f"the identity {wanted.identity} in {store.url}: {why}", hint=hint)
        kind = next_word(wanted, now.members)
        return None if kind is None else Said(kind=kind, member=word_of(wanted))

    def said(now: History) -> Said | None:
        found = news(now)
        if found is not None and not hands.in_force(wanted, found.kind):
            raise ResourceConflict(f"{wanted.name} was changed, or deleted, meanwhile", hint="look again")
        return found

    history = history_of(store, wanted.ledger)
    return history if news(history) is None else _enter(store, wanted.ledger, said, by=hands.eyes.identity)


def leave(eyes: Eyes, ledger: str, uid: str, place: Place) -> History:
    """Say that a resource lets go, if it ever joined; the state then. Raises as `speak`."""
    store, mine = eyes.open_store(place), member_id(ledger, uid)

    def said(now: History) -> Said | None:
        before = member_of(now.members, mine)
        is_there = before is not None and not before.is_gone
        return Said(kind=Kind.LEFT, member=Membership(id=mine, proof=uid)) if is_there else None

    history = history_of(store, ledger)
    return history if said(history) is None else _enter(store, ledger, said, by=eyes.identity)


def still_there(store: Store, history: History) -> list[Member]:
    """Those that have not let go: it was neither shown nor said by a person who is believed here (see `releases`).
    Raises what the store raises."""
    memory = _memory(store, history.uid)
    return [
        member
        for member in history.members
        if not member.is_gone and (member.dismissed is None or memory.doubt(member.dismissed))
    ]


def list_members(store: Store, identity: str) -> MemberList:
    """All resources that ever shared it. Raises `BadName` for what is no identity, and what the store raises."""
    history = history_of(store, identity)
    memory, counts = _memory(store, identity), in_force(history.members)
    lines = (
        MemberLine(
            id=member.id,
            name=member.name,
            operator=member.by,
            at_ms=member.at_ms,
            counts=member is counts,
            gone=member.is_gone,
            dismissed=(member.reason or "somebody said so") if member.dismissed is not None else "",
            believed=member.dismissed is not None and not memory.doubt(member.dismissed),
        )
        for member in history.members
    )
    return MemberList(identity=identity, repository=store.url, members=tuple(lines))


def dismiss(store: Store, identity: str, member: str, *, reason: str, refuse: bool = False) -> Member:
    """Say as a person that a resource is gone which cannot say so any more; or, to `refuse`, that it never counts on
    this machine that somebody said so. Raises `BadOption` where there is no such resource, it let go itself, or the
    reason is none; `RestoreRunning` while an operator holds the lock."""
    before = _dismissible(history_of(store, identity), member)
    memory = _memory(store, identity)
    if refuse:
        if before.dismissed is None:
            raise BadOption(f"nobody said that {before} is gone", hint="see: offsite operator members")
        memory.note_refused(before.dismissed)
        return before
    if not reason.strip() or len(reason) > REASON_MAX:
        raise BadOption(f"the reason has 1 to {REASON_MAX} characters, this one {len(reason)}", hint="give --reason")

    def said(now: History) -> Said:
        return Said(kind=Kind.LEFT, member=Membership(id=_dismissible(now, member).id, reason=reason))

    after = member_of(_enter(store, identity, said, by=ProcessIdentity.mine()).members, before.id)
    if after is not None and after.dismissed is not None:
        memory.note_given(after.dismissed)
    return after or before


def _memory(store: Store, ledger: str) -> ReleaseMemory:
    return ReleaseMemory(store=store, prefix=DeclaredLayout(uid=ledger).ledger_prefix)


def _dismissible(history: History, member: str) -> Member:
    there = [candidate for candidate in history.members if candidate.id.startswith(member) and not candidate.is_gone]
    if len(there) != 1 or not member:
        raise BadOption(
            f"{member or 'nothing'} names {len(there)} of the resources that share the backup {history.uid}",
            hint="see: offsite operator members",
        )
    return there[0]


def _enter(store: Store, ledger: str, say: Say, *, by: ProcessIdentity) -> History:
    """The state behind what was said: who decides at the same time, decides by the state before or by the one behind.
    Where the word of a resource changes, what counts has another number, and what was decided by the one before is
    refused."""
    after = enter(store, ledger, say, by=by)
    decided("declared", why="a resource that shares it spoke", ledger=ledger, word=after.generation, fence=after.fence)
    return after
