"""Finds the greatest consistent cut at or below given ends.

If two cuts are consistent, their union, with the larger end in every partition, is consistent too: an effect in the
union is in one of the two cuts, with all causes. Hence a single greatest cut exists. Giving up only the effects
demanded by a rule finds the cut, in any order.

An effect is given up at most once, because lines only fall: an effect short of a cause stays short. A line keeps
waiting effects sorted by needed level: a falling line meets only the effects broken by the fall. The search takes O(n
log n) for n starts and needs of all effects, however long the chains are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from offsite.cut.coverage import refusals
from offsite.cut.cut import Cut, Hold, LeftOutSpan
from offsite.cut.effect import UNSEEN, Effect, EffectLine, Source, effects
from offsite.cut.group_offsets import group_offsets
from offsite.cut.topic_class import topic_classes
from offsite.cut.window import Ends, PartitionKey, TransactionSpan, Window


def greatest_cut(ends: Ends, window: Window) -> Cut:
    """Find the greatest consistent cut at or below `ends`: high watermarks read once, or chosen positions.

    C1, C2 and C2' leave transactions out. C3 and C7 move ends back. C5 and C6 are checked afterwards and can only
    refuse. Partitions outside of `ends` are taken as they are, and named. C4 clamps the offsets of plain groups.
    """
    all_effects = list(effects(window))
    descent = _Descent(ends, all_effects)
    descent.run()
    lowered_ends = {partition: descent.levels[EffectLine("end", partition)] for partition in ends}
    left_out = tuple(descent.left_out)
    cut = Cut(
        copied=dict(ends),
        ends=lowered_ends,
        groups=group_offsets(
            lowered_ends, window, kept_sources=descent.kept(), left_out=[omitted.span for omitted in left_out]
        ),
        classes=topic_classes(ends, window),
        left_out=left_out,
        holds=tuple(descent.holds),
        outside=frozenset(_named(all_effects)) - ends.keys(),
    )
    return replace(cut, refusals=tuple(refusals(cut, window)))


def _named(all_effects: Iterable[Effect]) -> Iterator[PartitionKey]:
    """The partitions that effects stand in or need."""
    for effect in all_effects:
        for line in chain(effect.starts, effect.needs):
            if isinstance(line.of, PartitionKey):
                yield line.of


class _Descent:
    """Lets lines fall until every effect is kept with its causes or given up.

    `_waiting`: by line, the levels that effects need, rising, so that the highest is popped first. `_lowered`: what
    every line fell for last.
    """

    def __init__(self, ends: Ends, all_effects: list[Effect]) -> None:
        self.levels = {
            line: end for key, end in ends.items() for line in (EffectLine("end", key), EffectLine("read", key))
        }
        self.left_out: list[LeftOutSpan] = []
        self.holds: list[Hold] = []
        self._lowered: dict[EffectLine, Source] = {}
        self._effects = all_effects
        self._given_up = bytearray(len(all_effects))
        self._waiting: defaultdict[EffectLine, list[tuple[int, int]]] = defaultdict(list)
        for number, effect in enumerate(all_effects):
            for line, needed in effect.needs.items():
                self._waiting[line].append((needed, number))
                if not isinstance(line.of, PartitionKey):
                    self.levels[line] = UNSEEN
        for waiting in self._waiting.values():
            waiting.sort()

    def run(self) -> None:
        # 1. Give up effects that no cut keeps. All lines are examined once.
        fallen = deque(self.levels)
        for number, effect in enumerate(self._effects):
            if not effect.is_decided:
                fallen.extend(self._give_up(number, short=None, needed=0))
        # 2. A fallen line breaks the effects that need more; their lines fall in turn.
        while fallen:
            fallen.extend(self._meet(fallen.popleft()))

    def kept(self) -> Iterator[Source]:
        """The effects with all of their causes."""
        return (effect.source for effect, is_lost in zip(self._effects, self._given_up, strict=True) if not is_lost)

    def _meet(self, line: EffectLine) -> list[EffectLine]:
        """Give up all effects that need more of a line than its level. Returns the lines that fell."""
        fallen: list[EffectLine] = []
        waiting = self._waiting[line]
        while waiting and waiting[-1][0] > self.levels[line]:
            needed, number = waiting.pop()
            fallen += self._give_up(number, short=line, needed=needed)
        return fallen

    def _give_up(self, number: int, *, short: EffectLine | None, needed: int) -> list[EffectLine]:
        if self._given_up[number]:  # an effect waits once for every needed level
            return []
        self._given_up[number] = True
        effect = self._effects[number]
        # 1. Record the loss: a transaction is left out, a single record moves its end back.
        cause = None if short is None else self._lowered.get(short)
        self._record(effect, short, needed, cause)
        # 2. Lower every line that the effect stands on, and remember the cause.
        # A partition that was not read has no level: nothing falls there.
        fallen = [line for line, start in effect.starts.items() if start < self.levels.get(line, 0)]
        for line in fallen:
            self.levels[line] = effect.starts[line]
            self._lowered[line] = effect.source
        return fallen

    def _record(self, effect: Effect, short: EffectLine | None, needed: int, cause: Source | None) -> None:
        source = effect.source
        if isinstance(source, TransactionSpan):
            self.left_out.append(LeftOutSpan(span=source, short=short, needed=needed, cause=cause))
            return
        before = self.levels.get(EffectLine("end", source.partition), 0)
        if source.offset < before:
            self.holds.append(
                Hold(
                    partition=source.partition,
                    before=before,
                    after=source.offset,
                    record=source,
                    short=short,
                    needed=needed,
                    cause=cause,
                )
            )
