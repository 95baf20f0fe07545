"""The note of an operator about a resource, for people who read the repository: a hint, overwritten, never trusted."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

_BYTES_MAX = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredNote:
    """`name`: name of the resource. `conditions`: (type, message) of every difference from the spec. `queue`: position
    in the expiry queue, from 1; 0: not queued. `at_ms`: time of the note, by the store's clock. `by`: the operator.
    `facts`: other fields of the status, as text."""

    name: str
    at_ms: int
    by: str
    kind: str = "Backup"
    facts: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    queue: int = 0


def put_note(store: Store, layout: DeclaredLayout, note: DeclaredNote, *, member: str = "") -> None:
    """`member`: of which resource, where several share a backup. Raises what the store raises."""
    fields = {
        "format": FORMAT,
        "name": note.name,
        "kind": note.kind,
        "facts": dict(note.facts),
        "at_ms": note.at_ms,
        "by": note.by,
        "conditions": dict(note.conditions),
        "queue": note.queue,
    }
    store.put_overwrite(layout.note_key(member), encode_object(fields))  # type: ignore[arg-type]  # texts and numbers alone


def get_note(store: Store, layout: DeclaredLayout, *, member: str = "") -> DeclaredNote | None:
    """Return the note; None if no note exists or the note cannot be read. Raises the errors of the store."""
    return get_hint(store, layout.note_key(member), _note, bytes_max=_BYTES_MAX, uid=layout.uid)


def _note(document: JsonObject) -> DeclaredNote:
    return DeclaredNote(
        name=document.text("name"),
        kind=document.optional_text("kind") or "Backup",
        facts=document.text_map("facts") if "facts" in document.fields else (),
        at_ms=document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        by=document.text("by"),
        conditions=document.text_map("conditions"),
        queue=document.count("queue"),
    )
