"""What a resource does and tells that shares its backup with others: who says something new is heard, and what was said
last counts. Pure.

An operator acts for a resource only while that declares what counts. Who declares otherwise stands by, and says so: of
two that differ one acts, so none undoes what the other one does. Only a change of its own makes the word of a resource
count, once for each change. Old data goes only where all agree: nobody knows which of them is the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.named import named
from offsite.model.time import format_time
from offsite.operator.decide.wanted import MAXIMUM_RETENTION, MINIMUM_RESTORABLE, Wanted
from offsite.repository.declared.entry import Kind, Membership
from offsite.repository.declared.members import Member, in_force, member_id, member_of

_NAMED_MAX = 5
_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of a resource among those that share its backup. `stands_by`: what another one declares counts; `copies`: whether
    its agents may copy; `lets_go`: whether old data may go. `problem`: in what it differs from what counts; `note`: who
    differs from it, while it counts; empty for nothing."""

    stands_by: bool
    copies: bool
    lets_go: bool
    problem: str
    note: str


def word_of(wanted: Wanted) -> Membership:
    """What the resource says of itself. Its uid is not among it: that is the proof with which it lets go."""
    return Membership(
        id=member_id(wanted.ledger, wanted.uid),
        name=wanted.name,
        generation=wanted.generation,
        fields=wanted.shared,
    )


def next_word(wanted: Wanted, members: Sequence[Member]) -> Kind | None:
    """What it has to say: that it joins, or that something that all share was changed in it. None: nothing. An operator
    that has seen an older spec than another one says nothing."""
    word = word_of(wanted)
    mine = member_of(members, word.id)
    if mine is None or mine.dismissed is not None:
        return Kind.JOINED
    is_news = bool(_differing(mine.fields, word.fields)) and word.generation > mine.generation
    return Kind.DECLARED if is_news and not mine.is_gone else None


def standing(wanted: Wanted, members: Sequence[Member], there: Sequence[Member]) -> Standing:
    """`members`: all of the ledger; `there`: those that have not let go, as far as is shown or believed."""
    mine, counts = wanted.shared, in_force(members)
    differs = _differing(mine, counts.fields) if counts is not None else ()
    others = {member: parts for member in there if (parts := _differing(mine, member.fields))}
    lets_go = not any({*parts} & {MAXIMUM_RETENTION, MINIMUM_RESTORABLE} for parts in others.values())
    kept = "" if lets_go else "no old data goes until all declare the same expiry"
    problem = note = ""
    if differs and counts is not None:
        problem = "; ".join(filter(None, (_problem(counts, differs), kept)))
    elif others:
        note = "; ".join(filter(None, (_note(others), kept)))
    return Standing(
        stands_by=bool(differs),
        copies=_CLUSTER not in differs,
        lets_go=lets_go and not differs,
        problem=problem,
        note=note,
    )


def _problem(counts: Member, differs: Sequence[str]) -> str:
    return (
        f"what {counts} declared counts, since {format_time(counts.at_ms)}, and this resource declares otherwise: "
        f"{', '.join(differs)}. Declare the same in both; what is changed last counts"
    )


def _note(others: Mapping[Member, Sequence[str]]) -> str:
    who = named(list(map(str, others)), most=_NAMED_MAX)
    parts = sorted({part for differs in others.values() for part in differs})
    return f"what this resource declares counts; {who} declared otherwise: {', '.join(parts)}"


def _differing(one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The parts that are not alike. What one of the two does not know, for it is of another version, is no difference:
    an upgrade would let all stand by."""
    mine, theirs = dict(one), dict(other)
    return tuple(part for part in sorted(mine.keys() & theirs.keys()) if mine[part] != theirs[part])
