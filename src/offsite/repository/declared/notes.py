"""Notes about a declared backup for people: overwritten, never trusted, readable or not. Nothing is decided by them.

Three notes: the operator's note about a resource; the backups that the last expiry job kept, with reasons; and the
report of the agent that copies: time of the last success, and reason for a stop. Silence proves nothing. A running
process proves nothing. Only a report or a commit shows that a backup makes progress. A report dated in the future shows
nothing, because a dead backup would look healthy until that date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import warned
from offsite.model.units import MIB
from offsite.model.untrusted.json_codec import Count, Form, Later, TimeMs, text_up_to
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import StoredForm
from offsite.stores.store import Store

T = TypeVar("T")
WHY_MAX = 500
_BYTES_MAX = 64 * 1024
REASON_MAX = 1_000
_KEPT_BYTES_MAX = MIB
_NOTE_BYTES_MAX = MIB


def _get_hint(store: Store, key: str, form: StoredForm[T], *, bytes_max: int, uid: str) -> T | None:
    """Read a hint; None if no hint exists or the hint cannot be read. Raises the errors of the store."""
    data = store.get_range(key, 0, bytes_max + 1)
    if data is None:
        return None
    try:
        if len(data) > bytes_max:
            raise DamagedObject(f"{key} is too large for a hint")
        return form.decode(data, key=key)
    except OffsiteError as error:
        warned("hint", why=error.message, uid=uid)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """`number`: number of the low-level backup. `term`: term of the agent lease at the time of the report. `well_ms`:
    time of the last successful round or commit, by the store's clock; 0: none yet. `why`: error that the agent has
    waited out since `well_ms`; empty: none. `missing`: declared topics that the source does not have."""

    number: Count
    term: Count = 0
    well_ms: TimeMs = 0
    why: Annotated[str, text_up_to(WHY_MAX)] = ""
    missing: Annotated[str, text_up_to(WHY_MAX)] = ""


_REPORT = StoredForm(AgentReport)


def put_agent_report(store: Store, layout: DeclaredLayout, word: AgentReport) -> None:
    """Overwrite the report. Raises the errors of the store."""
    store.put_overwrite(layout.agent_report_key, _REPORT.encode(word))


def get_agent_report(store: Store, layout: DeclaredLayout) -> AgentReport | None:
    """Return the report; None if no report exists or the report cannot be read. Raises the errors of the store."""
    return _get_hint(store, layout.agent_report_key, _REPORT, bytes_max=_BYTES_MAX, uid=layout.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """An older backup that stays: name, repository, and reason."""

    backup: str
    repository: str
    reason: Annotated[str, text_up_to(REASON_MAX, on_read=False)]

    def __str__(self) -> str:
        return f"{self.backup}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptBackups:
    kept: tuple[KeptBackup, ...]


_KEPT = StoredForm(_KeptBackups)


def put_kept_backups(store: Store, layout: DeclaredLayout, backups: Sequence[KeptBackup]) -> None:
    """Overwrite the list. Raises the errors of the store."""
    store.put_overwrite(layout.kept_key, _KEPT.encode(_KeptBackups(kept=tuple(backups))))


def get_kept_backups(store: Store, layout: DeclaredLayout) -> tuple[KeptBackup, ...]:
    """Return the list; empty if the last job kept nothing, no job ended yet, or the list cannot be read. Raises the
    errors of the store."""
    hint = _get_hint(store, layout.kept_key, _KEPT, bytes_max=_KEPT_BYTES_MAX, uid=layout.uid)
    return () if hint is None else hint.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredNote:
    """`name`: name of the resource. `conditions`: (type, message) of every difference from the spec. `queue`: position
    in the expiry queue, from 1; 0: not queued. `at_ms`: time of the note, by the store's clock. `by`: the operator.
    `facts`: other fields of the status, as text."""

    name: str
    kind: Annotated[str, Form(lambda document, name: document.optional_text(name) or "Backup")] = "Backup"
    facts: Later[tuple[tuple[str, str], ...]] = ()
    at_ms: TimeMs
    by: str
    conditions: tuple[tuple[str, str], ...] = ()
    queue: Count = 0


_NOTE = StoredForm(DeclaredNote)


def put_note(store: Store, layout: DeclaredLayout, note: DeclaredNote, *, member: str = "") -> None:
    """`member`: of which resource, where several share a backup. Raises what the store raises."""
    store.put_overwrite(layout.note_key(member), _NOTE.encode(note))


def get_note(store: Store, layout: DeclaredLayout, *, member: str = "") -> DeclaredNote | None:
    """Return the note; None if no note exists or the note cannot be read. Raises the errors of the store."""
    return _get_hint(store, layout.note_key(member), _NOTE, bytes_max=_NOTE_BYTES_MAX, uid=layout.uid)
