"""Notes about a declared backup for people: overwritten, never trusted, readable or not. Nothing is decided by them.

Three notes: the operator's note about a resource; the backups that the last expiry job kept, with reasons; and the
report of the agent that copies: time of the last success, and reason for a stop. Silence proves nothing. A running
process proves nothing. Only a report or a commit shows that a backup makes progress. A report dated in the future shows
nothing, because a dead backup would look healthy until that date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import warned
from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import Store

T = TypeVar("T")
WHY_MAX = 500
_BYTES_MAX = 64 * 1024
REASON_MAX = 1_000
_KEPT_BYTES_MAX = MIB
_NOTE_BYTES_MAX = MIB


def get_hint(store: Store, key: str, decode: Callable[[JsonObject], T], *, bytes_max: int, uid: str) -> T | None:
    """Read and decode a hint; None if no hint exists or the hint cannot be read. Raises the errors of the store."""
    data = store.get_range(key, 0, bytes_max + 1)
    if data is None:
        return None
    try:
        if len(data) > bytes_max:
            raise DamagedObject(f"{key} is too large for a hint")
        return decode(parse_json_object(data, source=key, damaged=DamagedObject))
    except OffsiteError as error:
        warned("hint", why=error.message, uid=uid)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """`number`: number of the low-level backup. `term`: term of the agent lease at the time of the report. `well_ms`:
    time of the last successful round or commit, by the store's clock; 0: none yet. `why`: error that the agent has
    waited out since `well_ms`; empty: none. `missing`: declared topics that the source does not have."""

    number: int
    term: int = 0
    well_ms: int = 0
    why: str = ""
    missing: str = ""


def put_agent_report(store: Store, layout: DeclaredLayout, word: AgentReport) -> None:
    """Overwrite the report. Raises the errors of the store."""
    fields = {
        "format": FORMAT,
        "number": word.number,
        "term": word.term,
        "well_ms": word.well_ms,
        "why": word.why[:WHY_MAX],
        "missing": word.missing[:WHY_MAX],
    }
    store.put_overwrite(layout.agent_report_key, encode_object(fields))  # type: ignore[arg-type]  # texts and numbers


def get_agent_report(store: Store, layout: DeclaredLayout) -> AgentReport | None:
    """Return the report; None if no report exists or the report cannot be read. Raises the errors of the store."""
    return get_hint(store, layout.agent_report_key, _report, bytes_max=_BYTES_MAX, uid=layout.uid)


def _report(document: JsonObject) -> AgentReport:
    return AgentReport(
        number=document.count("number"),
        term=document.count("term"),
        well_ms=document.integer("well_ms", least=0, most=MAX_COMMIT_TIME_MS),
        why=document.text("why")[:WHY_MAX],
        missing=document.text("missing")[:WHY_MAX],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """An older backup that stays: name, repository, and reason."""

    backup: str
    repository: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backup}: {self.reason}"


def put_kept_backups(store: Store, layout: DeclaredLayout, backups: Sequence[KeptBackup]) -> None:
    """Overwrite the list. Raises the errors of the store."""
    lines = [
        {"backup": line.backup, "repository": line.repository, "reason": line.reason[:REASON_MAX]} for line in backups
    ]
    store.put_overwrite(layout.kept_key, encode_object({"format": FORMAT, "kept": lines}))


def get_kept_backups(store: Store, layout: DeclaredLayout) -> tuple[KeptBackup, ...]:
    """Return the list; empty if the last job kept nothing, no job ended yet, or the list cannot be read. Raises the
    errors of the store."""
    return get_hint(store, layout.kept_key, _kept, bytes_max=_KEPT_BYTES_MAX, uid=layout.uid) or ()


def _kept(document: JsonObject) -> tuple[KeptBackup, ...]:
    return tuple(
        KeptBackup(backup=line.text("backup"), repository=line.text("repository"), reason=line.text("reason"))
        for line in document.children("kept")
    )


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
    return get_hint(store, layout.note_key(member), _note, bytes_max=_NOTE_BYTES_MAX, uid=layout.uid)


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
