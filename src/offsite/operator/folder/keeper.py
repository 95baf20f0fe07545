"""What looks after the resources of one kind: the port between a home and its reconcilers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.model.errors import ResourceConflict
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.wanted import Place
from offsite.operator.folder.records import Edit, Record
from offsite.operator.folder.status import Told
from offsite.operator.world.ports import Agents
from offsite.operator.world.telling import Saying
from offsite.repository.declared.members import member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How a resource is after a look. `told`: what is not as declared; `fields`: what else its status tells,
    None where nothing newer is known."""

    told: Sequence[Told] = ()
    fields: Mapping[str, JsonValue] | None = None

    @property
    def is_as_declared(self) -> bool:
        return all(each.is_note for each in self.told)


class Keeper(Protocol):
    """Looks are many, and each may be the last one of its process: all that counts lies in repositories and records."""

    def keep(self, record: Record) -> Kept:
        """One step towards what is declared. Raises what cannot be told as a condition."""

    def let_go(self, record: Record) -> Kept | None:
        """One step towards the deletion that was asked for; None when nothing is left, and the record may go."""


class Changes(Protocol):
    """Where records are kept."""

    def change(self, kind: str, name: str, edit: Edit) -> Record | None:
        """The record as `edit` makes it; nothing that another one adds to it meanwhile is lost."""

    def find(self, kind: str, name: str) -> Record | None:
        """The record of that name, in the namespace of the one that is looked at; None where there is none."""

    def uids(self) -> Collection[str]:
        """Those of all resources that there are, as they were minutes ago at most."""


class TendedAgents(Agents, Protocol):
    """Agents of a home."""

    def alive(self, uid: str) -> int:
        """How many there are, however they do."""

    def unseen(self, uid: str) -> int:
        """How many may run where they cannot be seen from here."""

    def problem(self, uid: str) -> str:
        """Why they do not run, as far as it is known; empty: nothing is wrong."""


def with_place(records: Changes, record: Record, place: Place, *, among: Sequence[Place] | None = None) -> Record:
    """The record as it is now, with the place noted before anything begins there: nothing that is begun is ever lost
    sight of. `among`: what is left of the places of `record` and this one without other spellings. Raises
    `ResourceConflict` where the resource goes: nothing may be begun for it any more."""

    def edit(now: Record | None) -> Record | None:
        if now is None or now.uid != record.uid or now.is_deleted:
            return now
        spelt_otherwise = set(record.places) - set(among) if among is not None else set()
        kept = tuple(each for each in now.places if each not in spelt_otherwise)
        return replace(now, places=kept if place in kept else (*kept, place))

    now = records.change(record.kind, record.name, edit)
    if now is None or now.uid != record.uid or now.is_deleted:
        raise ResourceConflict(f"{record.kind} {record.name} is being deleted", hint="look again")
    return now


def saying_of(record: Record, told: Sequence[Told], fields: Mapping[str, JsonValue] | None = None) -> Saying:
    """What is told of a resource in its repository: the conditions, and of the fields those that are one word."""
    facts = {name: str(value) for name, value in (fields or {}).items() if isinstance(value, str | int)}
    conditions = [(each.type, each.message) for each in told]
    member = member_id(record.identity, record.uid) if record.identity else ""
    return Saying(kind=record.kind, name=record.name, conditions=conditions, facts=facts, member=member)
