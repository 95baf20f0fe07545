"""Looks at a set from outside, while its instances live and die: what could be restored now, and was it ever more?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.model.errors import OffsiteError
from offsite.repository.generation_sets.generation_set import Generation, GenerationPhase, GenerationSet
from offsite.repository.generation_sets.ledger import set_ledger
from offsite.repository.repository import Repository
from tests.worlds.generations.judge import need
from tests.worlds.generations.process import SET
from tests.worlds.generations.sights import Sight, State

Ends = tuple[str, Mapping[int, int]]


@dataclass
class Truth:
    """What was written: by partition, in the order of offsets, each with key and value."""

    written: dict[int, list[tuple[int, bytes, bytes]]] = field(default_factory=dict)

    def take(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        self.written.setdefault(partition, []).append((offset, key, value))

    def state(self, partition: int, end: int) -> State:
        return {key: value for offset, key, value in sorted(self.written.get(partition, [])) if offset < end}


@dataclass
class RealJudge:
    repository: Repository
    sight: Sight
    truth: Truth
    best: dict[int, int] = field(default_factory=dict)
    sealed: dict[int, str] = field(default_factory=dict)
    looks: int = 0
    contents: int = 0

    @property
    def state(self) -> GenerationSet:
        return set_ledger(self.repository.store, SET).read()

    def look(self, *, deeply: bool = False) -> GenerationSet:
        """Raises `BrokenPromise`. What goes away while it is read is looked at once more."""
        while True:
            before = self.state
            found = {each.number: self._ends_of(each) for each in before.generations if each.is_whole}
            after = self.state
            if [each.phase for each in before.generations] == [each.phase for each in after.generations]:
                break
        self.looks += 1
        need(
            sum(each.phase is GenerationPhase.COMPLETE for each in before.generations) <= 1,
            "two generations are active",
        )
        for number, ends in found.items():
            need(not isinstance(ends, OffsiteError), f"generation {number} is called complete: {ends}")
        self._judge_held(before, {number: each for number, each in found.items() if not isinstance(each, OffsiteError)})
        if deeply and (newest := before.restorable) is not None:
            self._judge_content(newest)
        return before

    def _judge_held(self, state: GenerationSet, found: Mapping[int, Ends]) -> None:
        need(found or not any(each.complete_ms for each in state.generations), "no complete generation is left")
        now: dict[int, int] = {}
        for number, (head, ends) in found.items():
            for partition, end in ends.items():
                now[partition] = max(now.get(partition, 0), end)
            generation = state.generation(number)
            if generation is not None and generation.phase is GenerationPhase.SEALED:
                need(
                    head == self.sealed.setdefault(number, head), f"generation {number} was written to behind its seal"
                )
        need(all(now.get(n, 0) >= end for n, end in self.best.items()), f"restorable to {self.best}, now to {now}")
        self.best = now

    def _judge_content(self, newest: Generation) -> None:
        try:
            held = self.sight.content(newest.number)
        except OffsiteError as error:
            need(self.state.restorable != newest, f"generation {newest.number} cannot be read: {error}")
            return
        if self.state.restorable != newest:
            return  # it began to go while it was read
        self.contents += 1
        for partition, (end, found) in held.items():
            truth = self.truth.state(partition, end)
            need(found == truth, f"generation {newest.number} holds another state of partition {partition}")

    def _ends_of(self, generation: Generation) -> Ends | OffsiteError:
        try:
            return self.sight.ends(generation.number)
        except OffsiteError as error:
            return error
