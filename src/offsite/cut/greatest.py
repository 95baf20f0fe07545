"""The greatest consistent cut at or below given ends.

If two cuts are consistent, so is the one with the larger end of both in each partition: an effect that it has, one of
the two has, and with it all causes. Hence there is one greatest cut, and stepping back only where a rule demands it
finds it, in whatever order.

Each effect is taken back once at most, because ends only fall: what was short of a cause stays short. A partition keeps
its waiting effects sorted by the end they need, so that a falling end meets just those it breaks. That makes
O(n log n) for n starts and needs of all effects, however long the chains are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from offsite.cut.coverage import refusals
from offsite.cut.cut import Cut, Hold
from offsite.cut.effect import Effect, effects
from offsite.cut.group_offsets import group_offsets
from offsite.cut.topic_class import topic_classes
from offsite.cut.window import Ends, PartitionKey, Window


def greatest_cut(ends: Ends, window: Window) -> Cut:
    """The greatest consistent cut at or below `ends`: high watermarks that were read once, or chosen positions.

    C1, C2, C3 and C7 move ends back; C5 and C6 are checked afterwards and can only refuse. Partitions outside of `ends`
    are taken as they are, and named. C4 clamps the offsets of plain groups.
    """
    all_effects = list(effects(window))
    descent = _Descent(ends, all_effects)
    descent.run()
    return Cut(
        copied=dict(ends),
        ends=descent.ends,
        groups=group_offsets(descent.ends, window, kept=descent.kept()),
        classes=topic_classes(ends, window),
        holds=tuple(descent.holds),
        refusals=tuple(refusals(descent.ends, window)),
        outside=_named(all_effects) - ends.keys(),
    )


def _named(all_effects: Iterable[Effect]) -> frozenset[PartitionKey]:
    return frozenset(partition for effect in all_effects for partition in (*effect.starts, *effect.needs))


class _Descent:
    """Ends that step back until every effect is kept whole or not at all.

    `_waiting`: of each partition the ends that effects need of it, rising, so that the highest is popped first.
    """

    def __init__(self, ends: Ends, all_effects: list[Effect]) -> None:
        self.ends = dict(ends)
        self.holds: list[Hold] = []
        self._effects = all_effects
        self._taken_back = bytearray(len(all_effects))
        self._waiting: defaultdict[PartitionKey, list[tuple[int, int]]] = defaultdict(list)
        for number, effect in enumerate(all_effects):
            for partition, needed in effect.needs.items():
                self._waiting[partition].append((needed, number))
        for waiting in self._waiting.values():
            waiting.sort()

    def run(self) -> None:
        fallen = deque(self.ends)
        for number, effect in enumerate(self._effects):
            if not effect.is_decided:
                fallen.extend(self._take_back(number, short=None, needed=0))
        while fallen:
            fallen.extend(self._meet(fallen.popleft()))

    def kept(self) -> Iterator[Effect]:
        """The effects with all of their causes below the ends."""
        return (effect for effect, is_back in zip(self._effects, self._taken_back, strict=True) if not is_back)

    def _meet(self, partition: PartitionKey) -> list[PartitionKey]:
        """Take back all effects that need more of a partition than is left; the partitions that fell by that."""
        fallen: list[PartitionKey] = []
        waiting = self._waiting[partition]
        while waiting and waiting[-1][0] > self.ends[partition]:
            needed, number = waiting.pop()
            fallen += self._take_back(number, short=partition, needed=needed)
        return fallen

    def _take_back(self, number: int, *, short: PartitionKey | None, needed: int) -> list[PartitionKey]:
        if self._taken_back[number]:  # it waits once for each end that it needs
            return []
        self._taken_back[number] = True
        effect = self._effects[number]
        fallen = [partition for partition, start in effect.starts.items() if start < self.ends.get(partition, 0)]
        for partition in fallen:
            before, after = self.ends[partition], effect.starts[partition]
            self.ends[partition] = after
            self.holds.append(
                Hold(
                    partition=partition,
                    before=before,
                    after=after,
                    source=effect.source,
                    short=short,
                    needed=needed,
                )
            )
        return fallen
