"""Decides the statements and reports of a resource with a shared backup. A new statement is entered, and the newest
statement is in force. Pure.

An operator acts for a resource only while the spec of the resource is in force. A resource with a different spec stands
by, and reports the difference: of two different specs one acts, and neither undoes the other. Only a change of its spec
puts the statement of a resource in force, once per change. Old data are deleted only if all resources agree, because
nobody knows the mistaken spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.names import named
from offsite.model.units import format_time
from offsite.operator.decide.wanted import MAXIMUM_RETENTION, MINIMUM_RESTORABLE, DesiredBackup
from offsite.repository.declared.entry import DeclaredEntryKind, MemberStatement
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.members import BackupMember, differing, find_member, member_id, member_in_force

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
