"""The report of the agent that copies a backup: time of the last success, and reason for a stop. Overwritten.

Silence proves nothing. A running process proves nothing. Only a report or a commit shows that a backup makes progress.
The report is a hint for people: nothing is copied, removed or fenced by a report. A report dated in the future shows
nothing, because a dead backup would look healthy until that date.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

WHY_MAX = 500
_BYTES_MAX = 64 * 1024


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
