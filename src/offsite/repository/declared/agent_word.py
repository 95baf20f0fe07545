"""What the agent that copies says of its work: when it went well last, and why it does not go on. Overwritten.

Silence proves nothing, and neither does a process that runs: only what is said here, or a commit, shows that a backup
goes on. It is a hint to people, by which nothing is copied, removed or fenced. What is dated in the future shows
nothing: it would keep a backup that has died quiet until then.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

WHY_MAX = 500
_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWord:
    """`number`: of the low-level backup; `term`: of the agents' lease, in which it was said; `well_ms`: when a round or
    a commit of it went well last, by the store's clock, 0: not yet; `why`: the error that it waits out since then,
    empty for none; `missing`: topics that the source does not have."""

    number: int
    term: int = 0
    well_ms: int = 0
    why: str = ""
    missing: str = ""


def put_agent_word(store: Store, layout: DeclaredLayout, word: AgentWord) -> None:
    """Raises what the store raises."""
    fields = {
        "format": FORMAT,
        "number": word.number,
        "term": word.term,
        "well_ms": word.well_ms,
        "why": word.why[:WHY_MAX],
        "missing": word.missing[:WHY_MAX],
    }
    store.put_overwrite(layout.agent_word_key, encode_object(fields))  # type: ignore[arg-type]  # texts and numbers


def get_agent_word(store: Store, layout: DeclaredLayout) -> AgentWord | None:
    """None where nothing was said, or it cannot be read. Raises what the store raises."""
    return get_hint(store, layout.agent_word_key, _word, bytes_max=_BYTES_MAX, uid=layout.uid)


def _word(item: JsonObject) -> AgentWord:
    return AgentWord(
        number=item.count("number"),
        term=item.count("term"),
        well_ms=item.integer("well_ms", least=0, most=MAX_COMMIT_TIME_MS),
        why=item.text("why")[:WHY_MAX],
        missing=item.text("missing")[:WHY_MAX],
    )
