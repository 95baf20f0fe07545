"""The word of an agent about its work, said in the repository: once in a while that it goes well, at once that it does
not, and why. Saying it never ends or delays the work."""

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
"""Between two words that it goes well: far less than an operator takes for silence."""
_NAMED_MAX = 5


@dataclass(slots=True)
class Voice:
    """Speaks only while this agent has a backup in hand: what a stand-by does proves nothing."""

    store: Store
    layout: DeclaredLayout
    clock: Clock
    _said: AgentWord = field(default=AgentWord(number=0))
    _said_s: float = -inf
    _number: int = 0
    _missing: str = ""
    _is_behind_a_round: bool = False

    def takes(self, number: int, term: int) -> None:
        """The low-level backup of that number is in hand, by that term. When it went well last is as agents before said
        it: whatever this one fails at first, it did go on until then."""
        self._number, before = number, self._said
        try:
            before = get_agent_word(self.store, self.layout) or before
        except OffsiteError as error:
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        before = before if before.number == number else AgentWord(number=number)
        self._missing, self._is_behind_a_round = before.missing, False
        self._said, self._said_s = AgentWord(number=number, term=term, well_ms=before.well_ms), -inf

    def rests(self) -> None:
        """None is in hand."""
        self._number = 0

    def works(self) -> None:
        """A round, or a commit in one, went well."""
        said = self._said
        is_news = not said.well_ms or bool(said.why) or said.missing != self._missing
        if self._number and (is_news or self.clock.monotonic_s() - self._said_s >= WELL_EVERY_S):
            self._say(why="")

    def begins_round(self) -> None:
        """Nothing but a commit shows now that it goes on."""
        self._is_behind_a_round = False

    def ended_round(self, missing: Sequence[str]) -> None:
        """A round went well, which found that topics are missing. What follows it may take long, and commit nothing:
        a roll-up, a collection."""
        self._missing, self._is_behind_a_round = named(missing, most=_NAMED_MAX)[:WHY_MAX], True
        self.works()

    def gets_on(self) -> None:
        """What follows a round gets on."""
        if self._is_behind_a_round and not self._said.why:
            self.works()

    def fails(self, error: OffsiteError) -> None:
        """It does not go on, and why."""
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
        except OffsiteError as error:  # it is said again
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        else:
            self._said, self._said_s = word, self.clock.monotonic_s()
