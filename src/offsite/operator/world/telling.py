"""Writes notes about resources into repositories, for readers of a repository: news at once, and regularly a sign of a
running operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.operator.world.look import Observer
from offsite.repository.declared.layout import DeclaredLayout
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
