"""The word of an agent about its work, said in the repository: once in a while that it goes well, at once that it does
not, and why. Saying it never ends or delays the work."""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.declared.agent_word import AgentWord, put_agent_word
from offsite.repository.declared.layout import DeclaredLayout
from offsite.stores.store import Store

WELL_EVERY_S = 60.0
"""Between two words that it goes well: far less than an operator takes for silence."""


@dataclass(slots=True)
class Voice:
    """Speaks only while this agent has a backup in hand: what a stand-by does proves nothing."""

    store: Store
    layout: DeclaredLayout
    clock: Clock
    _said: AgentWord = field(default=AgentWord(number=0))
    _said_s: float = 0.0
    _number: int = 0

    def takes(self, number: int) -> None:
        """The low-level backup of that number is in hand."""
        self._number = number
        if self._said.number != number:
            self._said = AgentWord(number=number)

    def rests(self) -> None:
        """None is in hand."""
        self._number = 0

    def works(self) -> None:
        """A round, or a commit in one, went well."""
        is_news = not self._said.well_ms or bool(self._said.why)
        if self._number and (is_news or self.clock.monotonic_s() - self._said_s >= WELL_EVERY_S):
            self._say(why="")

    def fails(self, error: OffsiteError) -> None:
        """It does not go on, and why."""
        why = f"{error.id}: {error.message}"
        if self._number and why != self._said.why:
            self._say(why=why)

    def _say(self, *, why: str) -> None:
        try:
            well_ms = self._said.well_ms if why else self.store.now_ms()
            word = AgentWord(number=self._number, well_ms=well_ms, why=why)
            put_agent_word(self.store, self.layout, word)
        except OffsiteError as error:  # it is said again
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        else:
            self._said, self._said_s = word, self.clock.monotonic_s()
