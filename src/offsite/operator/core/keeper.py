"""The port between a home and its reconcilers: a keeper per kind of resource, which reports what it did.

Keepers write notes about resources into repositories, for readers of a repository: news at once, and regularly a
sign of a running operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.core.records import ResourceRecord
from offsite.operator.core.status import Condition
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.world.observe import AgentRuntime, Observer
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.members import member_id
from offsite.repository.declared.notes import DeclaredNote, put_note

NOTE_EVERY_MS = 60_000
"""Time between two equal notes."""
REMEMBERED_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNote:
    """The note about one resource. `conditions`: (type, message). `member`: the id of the resource among the resources
    that share a backup."""

    kind: str
    name: str
    conditions: Sequence[tuple[str, str]]
    facts: Mapping[str, str] = field(default_factory=dict)
    member: str = ""


@dataclass(slots=True, kw_only=True)
class NoteWriter:
    """Writes notes. Notes are hints: a note that cannot be written is skipped."""

    clock: Clock
    _written: dict[tuple[str, RepositoryPlace, str], tuple[ResourceNote, int]] = field(default_factory=dict)

    def write(self, observer: Observer, uid: str, place: RepositoryPlace, note: ResourceNote) -> None:
        before, now_ms = self._written.get((uid, place, note.member)), self.clock.now_ms()
        if before is not None and before[0] == note and 0 <= now_ms - before[1] < NOTE_EVERY_MS:
            return
        declared_note = DeclaredNote(
            name=note.name,
            kind=note.kind,
            at_ms=now_ms,
            by=observer.identity.text,
            conditions=tuple(note.conditions),
            facts=tuple(note.facts.items()),
        )
        with suppress(OffsiteError):
            put_note(observer.open_store(place), DeclaredLayout(uid=uid), declared_note, member=note.member)
            self._written[uid, place, note.member] = (note, now_ms)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget deleted resources after a while: until then `forget` may be called."""
        since_ms = self.clock.now_ms() - REMEMBERED_MS
        self._written = {key: said for key, said in self._written.items() if key[0] in uids or said[1] > since_ms}

    def forget(self, observer: Observer, uid: str) -> None:
        """Delete the notes of a deleted resource that left nothing else in repositories."""
        for key in [written_key for written_key in self._written if written_key[0] == uid]:
            with suppress(OffsiteError):
                observer.open_store(key[1]).delete(DeclaredLayout(uid=uid).note_key(key[2]))
            del self._written[key]


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


class TendedAgents(AgentRuntime, Protocol):
    """The agents of a home."""

    def alive(self, uid: str) -> int:
        """Return the number of existing agents, ready or not."""

    def unseen(self, uid: str) -> int:
        """Return the number of agents that may run out of sight."""

    def problem(self, uid: str) -> str:
        """Return why agents do not run, as far as known; empty: no problem."""


def make_note(
    record: ResourceRecord, conditions: Sequence[Condition], fields: Mapping[str, JsonValue] | None = None
) -> ResourceNote:
    """Make the note about a resource for its repository: the conditions, and the status fields with a single word."""
    facts = {name: str(value) for name, value in (fields or {}).items() if isinstance(value, str | int)}
    rows = [(condition.type, condition.message) for condition in conditions]
    member = member_id(record.identity, record.uid) if record.identity else ""
    return ResourceNote(kind=record.kind, name=record.name, conditions=rows, facts=facts, member=member)
