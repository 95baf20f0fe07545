"""Writes the report of an agent into the repository: success regularly, failures at once with the reason. Writing the
report never ends or delays the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.model.named import named
from offsite.repository.declared.agent_word import WHY_MAX, AgentWord, get_agent_word, put_agent_word
from offsite.repository.declared.layout import DeclaredLayout
from offsite.stores.store import Store

WELL_EVERY_S = 60.0
"""Time between two reports of success: far less than the silence that an operator tolerates."""
_NAMED_MAX = 5


@dataclass(slots=True)
class Voice:
    """Reports only while this agent holds a backup: the activity of a stand-by proves nothing."""

    store: Store
    layout: DeclaredLayout
    clock: Clock
    _said: AgentWord = field(default=AgentWord(number=0))
    _said_s: float = -inf
    _number: int = 0
    _missing: str = ""
    _is_behind_a_round: bool = False

    def takes(self, number: int, term: int) -> None:
        """The agent holds the low-level backup `number`, by the lease term `term`. The time of the last success comes
        from the reports of earlier agents: until then the backup made progress, even if this agent fails at first."""
        self._number, before = number, self._said
        try:
            before = get_agent_word(self.store, self.layout) or before
        except OffsiteError as error:
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        before = before if before.number == number else AgentWord(number=number)
        self._missing, self._is_behind_a_round = before.missing, False
        self._said, self._said_s = AgentWord(number=number, term=term, well_ms=before.well_ms), -inf

    def rests(self) -> None:
        """The agent holds no backup."""
        self._number = 0

    def works(self) -> None:
        """A round, or a commit in a round, succeeded."""
        said = self._said
        is_news = not said.well_ms or bool(said.why) or said.missing != self._missing
        if self._number and (is_news or self.clock.monotonic_s() - self._said_s >= WELL_EVERY_S):
            self._say(why="")

    def begins_round(self) -> None:
        """A round starts: only a commit shows progress now."""
        self._is_behind_a_round = False

    def ended_round(self, missing: Sequence[str]) -> None:
        """A round succeeded. `missing`: topics that the round did not find. Later work (a roll-up, a collection) may
        take long, and commit nothing."""
        self._missing, self._is_behind_a_round = named(missing, most=_NAMED_MAX)[:WHY_MAX], True
        self.works()

    def gets_on(self) -> None:
        """The work after a round makes progress."""
        if self._is_behind_a_round and not self._said.why:
            self.works()

    def fails(self, error: OffsiteError) -> None:
        """The work stopped with an error."""
        why = f"{error.id}: {error.message}"
        if self._number and why != self._said.why:
            self._say(why=why)

    def _say(self, *, why: str) -> None:
        try:
            well_ms = now_ms = self.store.now_ms()
            if why:
                well_ms = self._said.well_ms if self._said.well_ms - now_ms <= MOST_APART_MS else 0
            word = AgentWord(number=self._number, term=self._said.term, well_ms=well_ms, why=why, missing=self._missing)
            put_agent_word(self.store, self.layout, word)
        except OffsiteError as error:  # the report is repeated
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        else:
            self._said, self._said_s = word, self.clock.monotonic_s()
