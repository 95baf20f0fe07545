"""The note of an operator about a resource, for people who read the repository: a hint, overwritten, never trusted."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.size import MIB
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

_BYTES_MAX = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTold:
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


def put_told(store: Store, layout: DeclaredLayout, told: DeclaredTold, *, member: str = "") -> None:
    """`member`: of which resource, where several share a backup. Raises what the store raises."""
    fields = {
        "format": FORMAT,
        "name": told.name,
        "kind": told.kind,
        "facts": dict(told.facts),
        "at_ms": told.at_ms,
        "by": told.by,
        "conditions": dict(told.conditions),
        "queue": told.queue,
    }
    store.put_overwrite(layout.told_key(member), encode_object(fields))  # type: ignore[arg-type]  # texts and numbers alone


def get_told(store: Store, layout: DeclaredLayout, *, member: str = "") -> DeclaredTold | None:
    """Return the note; None if no note exists or the note cannot be read. Raises the errors of the store."""
    return get_hint(store, layout.told_key(member), _told, bytes_max=_BYTES_MAX, uid=layout.uid)


def _told(item: JsonObject) -> DeclaredTold:
    return DeclaredTold(
        name=item.text("name"),
        kind=item.optional_text("kind") or "Backup",
        facts=item.text_map("facts") if "facts" in item.fields else (),
        at_ms=item.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        by=item.text("by"),
        conditions=item.text_map("conditions"),
        queue=item.count("queue"),
    )
