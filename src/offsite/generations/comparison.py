"""What one generation lacks of another: compared, noted for people, and perhaps accepted by a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsite.generations.removals import doubt_of
from offsite.generations.target import GenerationTarget, RoundResult, lacking
from offsite.model.names import named
from offsite.repository.generation_sets.generation_set import GenerationSet
from offsite.repository.generation_sets.ledger import KeptGeneration, SetLayout, SetLedger, put_kept

COMPARED_AGAIN_AFTER = 60
"""Rounds after which two generations, one lacking something, are read and compared again, key by key."""
_NAMED_MAX = 3


class Comparisons:
    """The comparisons of a process. `read` returns the newest state of the set. `is_behind`: the last round ended where
    the active generation reaches farther."""

    def __init__(self, ledger: SetLedger, target: GenerationTarget, *, read: Callable[[], GenerationSet]) -> None:
        self._ledger, self._target, self._read = ledger, target, read
        self.is_behind = False
        self._behind_before: Sequence[str] = ()
        self._comparison = _LastComparison()
        self._kept: KeptGeneration | None = None

    def why_no_switch(self, number: int, copied: RoundResult) -> str:
        """Why a generation does not take over after a round; empty where it may, or is not at its end."""
        why = self._why_behind(number, self._behind(number, copied) if copied.at_end else ())
        return why or (self._lost_by_switch(number, copied) if copied.at_end else "")

    def _behind(self, number: int, copied: RoundResult) -> Sequence[str]:
        """The partitions in which the active generation reaches farther: a process stopped between both readings has
        seen an outdated end. Records gone from the source cannot be read again, and keep the old generation."""
        active = self._read().active
        ends = {} if active == number else self._target.ends(active)
        return lacking(
            copied.ends, {partition: end for partition, end in ends.items() if partition[:2] in copied.topics}
        )

    def _why_behind(self, number: int, behind: Sequence[str]) -> str:
        """Why a generation that is `behind` at the end of its topics does not take over. The active generation may have
        read on meanwhile. A difference that remains a round later can no longer be read: the difference is noted for
        people, and a person may have agreed to the loss."""
        state, is_lasting = self._read(), behind == self._behind_before
        self.is_behind, self._behind_before = bool(behind), behind
        if not behind or (is_lasting and self._is_let_go(state.active, number)):
            return ""
        if is_lasting:
            self._note_kept((state.active, number), lacks(number, behind))
        return lacks(number, behind)

    def _lost_by_switch(self, number: int, copied: RoundResult) -> str:
        """Why generation `number` must not take over although it reaches as far: an emptied source keeps its ends. A
        key once held stays held: later rounds need no further comparison."""
        state = self._read()
        active = state.active_generation
        if active is None or active.number == number or self._is_let_go(active.number, number):
            return ""
        pair = active.number, number
        return self._compared(pair, lambda: self._target.lost(*pair, copied.topics), again=False)

    def why_it_stays(self, number: int) -> str:
        """Why generation `number` stays: records missing in the active generation, a pinned point, or a reader. Empty
        when the generation may go."""
        state, target = self._read(), self._target
        if target.is_pinned(number):
            return "one of its restore points is pinned"
        if target.is_read(number):
            return "a restore reads it"
        if self._is_let_go(number, state.active):
            return target.disputed_pin(number)
        if missing := lacking(target.ends(state.active), target.ends(number)):
            self._note_kept((number, state.active), lacks(state.active, missing))
            return lacks(state.active, missing)
        pair = number, state.active
        return self._compared(pair, lambda: target.lost(*pair), again=True) or target.disputed_pin(number)

    def _is_let_go(self, number: int, successor: int) -> bool:
        """Whether a person has agreed that a generation may go although its successor may lack something."""
        generation, ledger = self._read().generation(number), self._ledger
        if generation is None or generation.released is None or doubt_of(ledger, generation.released):
            return False
        self._note_kept((number, successor), "")
        return True

    def _compared(self, pair: tuple[int, int], lost: Callable[[], Sequence[str]], *, again: bool) -> str:
        """What the second generation of `pair` lacks of the first, in words; noted for people."""
        why = self._comparison.of(pair, lambda: lacks(pair[1], lost_keys) if (lost_keys := lost()) else "", again=again)
        if why or self._kept is not None:
            self._note_kept(pair, why)
        return why

    def _note_kept(self, pair: tuple[int, int], why: str) -> None:
        state, ledger = self._read(), self._ledger
        old = state.generation(pair[0])
        word = old.released if old is not None and why else None
        if word is not None:
            why = f"{why}; {doubt_of(ledger, word)}"
        kept_generation = KeptGeneration(
            generation=pair[0], successor=pair[1], why=why, release=word.hash if word else ""
        )
        if kept_generation != self._kept:
            put_kept(ledger.store, SetLayout(name=state.name), kept_generation)
            self._kept = kept_generation


@dataclass(slots=True)
class _LastComparison:
    """The last comparison of two generations. A comparison with differences is repeated after some rounds, a comparison
    without differences only on request."""

    pair: tuple[int, int] = (0, 0)
    why: str = ""
    _rounds: int = 0

    def of(self, pair: tuple[int, int], why: Callable[[], str], *, again: bool) -> str:
        self._rounds += 1
        is_old = again if not self.why else self._rounds >= COMPARED_AGAIN_AFTER
        if pair != self.pair or is_old:
            self.why = why()
            self.pair, self._rounds = pair, 0
        return self.why


def lacks(generation: int, lost: Sequence[str]) -> str:
    return f"generation {generation} lacks {named(lost, most=_NAMED_MAX)}"
