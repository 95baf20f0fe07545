"""The port between a home and its reconcilers: a keeper per kind of resource."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.model.errors import ResourceConflict
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.operator.folder.records import Edit, ResourceRecord
from offsite.operator.folder.status import Condition
from offsite.operator.world.ports import AgentRuntime
from offsite.operator.world.telling import ResourceNote
from offsite.repository.declared.members import member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """The state of a resource after a reconciliation. `conditions`: differences from the spec. `status`: other status
    fields; None if nothing newer is known."""

    conditions: Sequence[Condition] = ()
    status: Mapping[str, JsonValue] | None = None

    @property
    def is_as_declared(self) -> bool:
        return all(condition.is_note for condition in self.conditions)


class Keeper(Protocol):
    """A keeper runs many times, and may be killed at any time: all state is in repositories and records."""

    def keep(self, record: ResourceRecord) -> Reconciled:
        """Take one step towards the spec. Raises errors that no condition can express."""

    def let_go(self, record: ResourceRecord) -> Reconciled | None:
        """Take one step towards the requested deletion; None: nothing is left, and the record may be deleted."""


class RecordStore(Protocol):
    """The store of records."""

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        """Return the record as changed by `edit`; concurrent changes are not lost."""

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        """Return the record of that name, in the namespace of the current resource; None if it does not exist."""

    def uids(self) -> Collection[str]:
        """Return the uids of all existing resources, at most minutes old."""


class TendedAgents(AgentRuntime, Protocol):
    """The agents of a home."""

    def alive(self, uid: str) -> int:
        """Return the number of existing agents, ready or not."""

    def unseen(self, uid: str) -> int:
        """Return the number of agents that may run out of sight."""

    def problem(self, uid: str) -> str:
        """Return why agents do not run, as far as known; empty: no problem."""


def add_place(
    records: RecordStore,
    record: ResourceRecord,
    place: RepositoryPlace,
    *,
    among: Sequence[RepositoryPlace] | None = None,
) -> ResourceRecord:
    """Return the current record, with the place recorded before anything starts there: nothing that started is ever
    lost. `among`: the places of `record` and `place` without aliases. Raises `ResourceConflict` if the resource is
    being deleted: nothing may start for the resource."""

    def edit(now: ResourceRecord | None) -> ResourceRecord | None:
        if now is None or now.uid != record.uid or now.is_deleted:
            return now
        spelt_otherwise = set(record.places) - set(among) if among is not None else set()
        places = tuple(noted_place for noted_place in now.places if noted_place not in spelt_otherwise)
        return replace(now, places=places if place in places else (*places, place))

    now = records.change(record.kind, record.name, edit)
    if now is None or now.uid != record.uid or now.is_deleted:
        raise ResourceConflict(f"{record.kind} {record.name} is being deleted", hint="try again")
    return now


def make_note(
    record: ResourceRecord, conditions: Sequence[Condition], fields: Mapping[str, JsonValue] | None = None
) -> ResourceNote:
    """Make the note about a resource for its repository: the conditions, and the status fields with a single word."""
    facts = {name: str(value) for name, value in (fields or {}).items() if isinstance(value, str | int)}
    rows = [(condition.type, condition.message) for condition in conditions]
    member = member_id(record.identity, record.uid) if record.identity else ""
    return ResourceNote(kind=record.kind, name=record.name, conditions=rows, facts=facts, member=member)
