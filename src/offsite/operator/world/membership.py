"""Enters statements of a resource into the ledger of an identity, and lists the other resources that share the
backup."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadOption, ResourceConflict, ResourceNotFound
from offsite.model.journal import decided
from offsite.operator.decide.membership import next_statement, refusal_to_join, statement_of
from offsite.operator.decide.wanted import DesiredBackup, RepositoryPlace
from offsite.operator.world.act import BackupExecutor
from offsite.operator.world.entering import Propose, ProposedEntry, enter
from offsite.operator.world.look import Observer, read_history
from offsite.repository.declared.entry import REASON_MAX, DeclaredEntryKind, MemberStatement
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import BackupMember, find_member, member_id, member_in_force
from offsite.repository.local_memory import ReleaseMemory
from offsite.repository.restores.lease import ProcessIdentity
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLine:
    """One resource that shares or shared a backup. `operator`: process that entered the newest statement, at `at_ms` by
    the store's clock. `counts`: the spec of the resource is in force. `gone`: the resource left, with proof.
    `dismissed`: a person's reason for reporting the resource as gone; empty: no report. `believed`: whether the report
    already counts on the local machine."""

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


def enter_news(hands: BackupExecutor, desired: DesiredBackup) -> DeclaredHistory:
    """Enter the news of the resource, and return the resulting state. Under the lock the resource is read again: a
    resource that was deleted meanwhile would stay a member for ever. Raises `ResourceConflict` if the resource changed
    or cannot share the ledger, `RestoreRunning` while another operator holds the lock, and the errors of `enter`."""
    store = hands.observer.open_store(desired.place)

    def news(now: DeclaredHistory) -> ProposedEntry | None:
        if refused := refusal_to_join(desired, now):
            why, hint = refused
            raise ResourceConflict(f"the identity {desired.identity} in {store.url}: {why}", hint=hint)
        kind = next_statement(desired, now.members)
        return None if kind is None else ProposedEntry(kind=kind, member=statement_of(desired))

    def make_statement(now: DeclaredHistory) -> ProposedEntry | None:
        statement = news(now)
        if statement is not None and not hands.in_force(desired, statement.kind):
            raise ResourceConflict(f"{desired.name} was changed or deleted in the meantime", hint="try again")
        return statement

    history = read_history(store, desired.ledger)
    return (
        history if news(history) is None else _enter(store, desired.ledger, make_statement, by=hands.observer.identity)
    )


def leave(observer: Observer, ledger: str, uid: str, place: RepositoryPlace) -> DeclaredHistory:
    """Enter that a resource leaves, if the resource ever joined, and return the new state. Raises the errors of
    `enter_news`."""
    store, mine = observer.open_store(place), member_id(ledger, uid)

    def make_statement(now: DeclaredHistory) -> ProposedEntry | None:
        before = find_member(now.members, mine)
        is_there = before is not None and not before.is_gone
        return (
            ProposedEntry(kind=DeclaredEntryKind.LEFT, member=MemberStatement(id=mine, proof=uid)) if is_there else None
        )

    history = read_history(store, ledger)
    return history if make_statement(history) is None else _enter(store, ledger, make_statement, by=observer.identity)


def list_present(store: Store, history: DeclaredHistory) -> list[BackupMember]:
    """Return the members that have not left: neither proven nor reported by a person who is believed on the local
    machine (see `local_memory`). Raises the errors of the store."""
    memory = _memory(store, history.uid)
    return [
        member
        for member in history.members
        if not member.is_gone and (member.dismissed is None or memory.doubt(member.dismissed))
    ]


def list_members(store: Store, identity: str) -> MemberList:
    """List all resources that ever shared the backup. Raises `BadName` for an invalid identity, `ResourceNotFound` for
    an identity without a ledger, and the errors of the store."""
    history = read_history(store, identity)
    if not history.seq:
        raise ResourceNotFound(
            f"no ledger in {store.url} knows the identity {identity}",
            hint="give the value of spec.identity, and the repository of the backup",
        )
    memory, counts = _memory(store, identity), member_in_force(history.members)
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


def dismiss(store: Store, identity: str, member: str, *, reason: str, refuse: bool = False) -> BackupMember:
    """Report as a person that a resource is gone and can no longer report it; or, with `refuse`, record that such a
    report never counts on the local machine. Raises `BadOption` if no such resource exists, the resource left itself,
    or the reason is empty or too long; `RestoreRunning` while an operator holds the lock."""
    before = _dismissible(read_history(store, identity), member)
    memory = _memory(store, identity)
    if refuse:
        if before.dismissed is None:
            raise BadOption(f"nobody said that {before} is gone", hint="see: offsite operator members")
        memory.note_refused(before.dismissed)
        return before
    if not reason.strip() or len(reason) > REASON_MAX:
        raise BadOption(
            f"the reason must have 1 to {REASON_MAX} characters; this reason has {len(reason)}", hint="give --reason"
        )

    def make_statement(now: DeclaredHistory) -> ProposedEntry:
        return ProposedEntry(
            kind=DeclaredEntryKind.LEFT, member=MemberStatement(id=_dismissible(now, member).id, reason=reason)
        )

    after = find_member(_enter(store, identity, make_statement, by=ProcessIdentity.current()).members, before.id)
    if after is not None and after.dismissed is not None:
        memory.note_given(after.dismissed)
    return after or before


def _memory(store: Store, ledger: str) -> ReleaseMemory:
    return ReleaseMemory(store=store, prefix=DeclaredLayout(uid=ledger).ledger_prefix)


def _dismissible(history: DeclaredHistory, member: str) -> BackupMember:
    candidates = [
        candidate for candidate in history.members if candidate.id.startswith(member) and not candidate.is_gone
    ]
    if len(candidates) != 1 or not member:
        raise BadOption(
            f"{member or 'nothing'} matches {len(candidates)} of the resources that share the backup {history.uid}",
            hint="see: offsite operator members",
        )
    return candidates[0]


def _enter(store: Store, ledger: str, say: Propose, *, by: ProcessIdentity) -> DeclaredHistory:
    """Append the statement, and return the new state. A decision at the same time uses the state before or after the
    entry. A statement raises the generation of the ledger: decisions of the generation before are refused."""
    after = enter(store, ledger, say, by=by)
    decided(
        "declared",
        why="a resource that shares it declared values",
        ledger=ledger,
        word=after.generation,
        fence=after.fence,
    )
    return after
