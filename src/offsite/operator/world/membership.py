"""The resources that share a backup: decides the next statement of a resource, and enters it into the ledger of the
identity. The newest statement is in force.

An operator acts for a resource only while the spec of the resource is in force. A resource with a different spec
stands by, and reports the difference: of two different specs one acts, and neither undoes the other. Only a change
of its spec puts the statement of a resource in force, once per change. Old data are deleted only if all resources
agree, because nobody knows the mistaken spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.errors import BadOption, ResourceConflict, ResourceNotFound
from offsite.model.journal import decided
from offsite.model.names import named
from offsite.model.units import format_time
from offsite.operator.decide.desired import MAXIMUM_RETENTION, MINIMUM_RESTORABLE, DesiredBackup, RepositoryPlace
from offsite.operator.world.backups import BackupExecutor
from offsite.operator.world.observe import Observer, read_history
from offsite.repository.declared.entry import REASON_MAX, DeclaredEntryKind, MemberStatement
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import Propose, ProposedEntry, enter
from offsite.repository.declared.members import BackupMember, differing, find_member, member_id, member_in_force
from offsite.repository.lease import ProcessIdentity
from offsite.repository.local_memory import ReleaseMemory
from offsite.stores.store import Store

_NAMED_MAX = 5
_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The standing of a resource among the resources that share its backup. `stands_by`: a different spec of another
    resource is in force. `lets_go`: old data may be deleted. `problem`: the differences from the spec in force. `note`:
    the resources with other specs, if the spec of this resource is in force. Both are empty without differences."""

    stands_by: bool
    lets_go: bool
    problem: str
    note: str


def statement_of(desired: DesiredBackup) -> MemberStatement:
    """Return the statement of the resource. The statement has no uid: the uid is the proof with which the resource
    leaves."""
    return MemberStatement(
        id=member_id(desired.ledger, desired.uid),
        name=desired.name,
        generation=desired.generation,
        fields=desired.shared,
    )


def next_statement(desired: DesiredBackup, members: Sequence[BackupMember]) -> DeclaredEntryKind | None:
    """Return the kind of the next statement of the resource: it joins, or it declares changed common parts. None: no
    statement is due."""
    statement = statement_of(desired)
    mine = find_member(members, statement.id)
    if mine is None or mine.dismissed is not None:
        return DeclaredEntryKind.JOINED
    is_news = not mine.is_gone and mine.is_news(statement.generation, statement.fields)
    return DeclaredEntryKind.DECLARED if is_news else None


def refusal_to_join(wanted: DesiredBackup, history: DeclaredHistory) -> tuple[str, str] | None:
    """Return why the resource cannot share the ledger, and the next step; None if it can or does. While a backup of
    the ledger is left, all backups of the ledger have one source cluster: data of another cluster could not be
    distinguished."""
    mine, another = (
        find_member(history.members, statement_of(wanted).id),
        "declare another Backup, with another identity",
    )
    if mine is not None and mine.is_gone:
        again = (
            "declare a new resource under another name; when the new resource shares the backup, delete this one: "
            "the backup stays"
        )
        return "this resource has left the backup, and cannot join it again", again
    if history.backups and not history.members:
        return "a resource owns the backup and does not share it", another
    if mine is not None:
        return None
    sources, counts = {low.beginning.cluster for low in history.remaining}, member_in_force(history.members)
    if sources and wanted.beginning.cluster not in sources:
        names = named(sorted(sources), most=_NAMED_MAX)
        return (
            f"its backups belong to cluster {names}, but this resource belongs to {wanted.beginning.cluster}",
            another,
        )
    if not sources and counts is not None and _CLUSTER in differing(counts.fields, wanted.shared):
        return f"{counts} declares another cluster than {wanted.beginning.cluster}", another
    return None


def decide_standing(
    desired: DesiredBackup, members: Sequence[BackupMember], present: Sequence[BackupMember]
) -> Standing:
    """Return the standing. `members`: all members of the ledger. `present`: members that have not left, as far as shown
    or believed."""
    mine, counts = desired.shared, member_in_force(members)
    differs = differing(mine, counts.fields) if counts is not None else ()
    others = {member: parts for member in present if (parts := differing(mine, member.fields))}
    lets_go = not any({*parts} & {MAXIMUM_RETENTION, MINIMUM_RESTORABLE} for parts in others.values())
    hold_note = "" if lets_go else "no old data is deleted until all declare the same expiry"
    problem = note = ""
    if differs and counts is not None:
        problem = "; ".join(filter(None, (_problem(desired, counts, differs), hold_note)))
    elif others:
        note = "; ".join(filter(None, (_note(others), hold_note)))
    return Standing(
        stands_by=bool(differs),
        lets_go=lets_go and not differs,
        problem=problem,
        note=note,
    )


def _problem(wanted: DesiredBackup, counts: BackupMember, differs: Sequence[str]) -> str:
    since, parts = format_time(counts.at_ms), ", ".join(differs)
    if counts.id == statement_of(wanted).id:
        return (
            f"an earlier statement of this resource is in force since {since}, and the resource now declares other "
            f"values: {parts}. Its cluster was restored to an older state, or somebody else wrote in its name "
            f"({counts}). Change one of these parts to make the declared values count again"
        )
    place = f"{wanted.identity} --repo {wanted.place.repository}"
    gone = f"offsite operator members {place} --gone {counts.id} --reason WHY"
    return (
        f"the values of {counts} are in force since {since}, and this resource declares other values: {parts}. "
        f"Declare the same values in both; the last change counts. If that resource is gone permanently, run: {gone}"
    )


def _note(differing: Mapping[BackupMember, Sequence[str]]) -> str:
    who = named(list(map(str, differing)), most=_NAMED_MAX)
    parts = sorted({part for differs in differing.values() for part in differs})
    return f"the values of this resource are in force; {who} declared other values: {', '.join(parts)}"


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
    or cannot share the ledger, `LeaseHeld` while another operator holds the lock, and the errors of `enter`."""
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
    or the reason is empty or too long; `LeaseHeld` while an operator holds the lock."""
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
