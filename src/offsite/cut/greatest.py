"""Finds the greatest consistent cut at or below given ends, and reasons to refuse it.

If two cuts are consistent, their union, with the larger end in every partition, is consistent too: an effect in the
union is in one of the two cuts, with all causes. Hence a single greatest cut exists. Giving up only the effects
demanded by a rule finds the cut, in any order. An effect is given up at most once, because lines only fall. A line
keeps waiting effects sorted by needed level: a falling line meets only the effects broken by the fall. The search takes
O(n log n) for n starts and needs of all effects, however long the chains are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from offsite.cut.cut import Cut, CutRefusal, Hold, LeftOutSpan, TopicClass
from offsite.cut.effect import UNSEEN, Effect, EffectLine, Source, effects
from offsite.cut.group_offsets import NEVER, first_left_out, group_offsets, is_below
from offsite.cut.window import Ends, TransactionSpan, Window, WriterKind
from offsite.log.range import PartitionId

_EXACT = {
    frozenset({WriterKind.TRANSACTION}): TopicClass.TRANSACTIONAL,
    frozenset({WriterKind.PARTICIPANT}): TopicClass.PARTICIPANT,
}


def refusals(cut: Cut, window: Window) -> Iterator[CutRefusal]:
    """The refusals of C6, followed by C5 and C2.

    Refused for gaps in the backup and transactions of unknown beginning (C6), positions of external participants (C5),
    and exactly-once commits older than the window (C2). No refusal moves an end or leaves anything out: the caller has
    to choose an earlier cut. The class of a topic says how far a cut can be trusted for it, and no more than was
    observed.
    """
    readable = {**cut.ends, **cut.floors()}
    yield from _uncovered(cut.ends, window)
    yield from _not_whole(cut)
    yield from _contradicted(cut.ends, readable, window)
    yield from _ahead(cut, readable, window)


def _uncovered(ends: Ends, window: Window) -> Iterator[CutRefusal]:
    for partition, end in ends.items():
        base = window.bases.get(partition, 0)
        if end < base:
            # Before the window's beginning nobody knows the transactions.
            yield CutRefusal(rule="C6", partition=partition, offset=base, end=end)
        for low, high in window.gaps.get(partition, ()):
            if max(base, low) < min(end, high):
                yield CutRefusal(rule="C6", partition=partition, offset=low, end=end)


def _not_whole(cut: Cut) -> Iterator[CutRefusal]:
    """Transactions that have to be left out, and may have begun before the window."""
    for span in (left_out.span for left_out in cut.left_out if not left_out.span.is_whole):
        for partition, written in span.written.items():
            yield CutRefusal(
                rule="C6",
                partition=partition,
                offset=written.first,
                end=cut.ends.get(partition),
                participant=str(span.producer),
            )


def _contradicted(ends: Ends, readable: Ends, window: Window) -> Iterator[CutRefusal]:
    for external in window.externals:
        for partition, position in external.positions.items():
            end = ends.get(partition)
            is_there = end is not None and position <= readable[partition]
            if not is_there or not (external.can_replay or position == end):
                end = readable.get(partition)
                yield CutRefusal(rule="C5", partition=partition, offset=position, end=end, participant=external.name)


def _ahead(cut: Cut, readable: Ends, window: Window) -> Iterator[CutRefusal]:
    """Exactly-once groups that have read records outside of the cut, or committed behind a commit that is left out.
    Their transaction is older than the window and cannot be left out too."""
    limits = first_left_out(left_out.span for left_out in cut.left_out)
    for commit in window.commits:
        if not commit.exactly_once or not is_below(commit, cut.ends):
            continue
        end = readable.get(commit.partition)
        is_behind = commit.position > limits.get((commit.group, commit.partition), NEVER)
        if is_behind or (end is not None and commit.offset > end):
            yield CutRefusal(
                rule="C2", partition=commit.partition, offset=commit.offset, end=end, participant=commit.group
            )


def topic_classes(ends: Ends, window: Window) -> dict[str, TopicClass]:
    """The class of every topic in `ends`. A plain writer makes a topic uncoordinated, unless time fences the topic.
    Transactions beside participants do too, because participants may have read a committed transaction that the cut
    leaves out. A topic without an observed writer is uncoordinated as well: silence proves nothing."""
    return {topic: _class(topic, window) for topic in sorted({partition.topic for partition in ends})}


def _class(topic: str, window: Window) -> TopicClass:
    weak = TopicClass.TIME_FENCED if topic in window.time_fenced else TopicClass.UNCOORDINATED
    if topic in window.unpaired:
        return weak
    return _EXACT.get(window.writers.get(topic, frozenset()), weak)


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


def _named(all_effects: Iterable[Effect]) -> Iterator[PartitionId]:
    """The partitions that effects stand in or need."""
    for effect in all_effects:
        for line in chain(effect.starts, effect.needs):
            if isinstance(line.of, PartitionId):
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
                if not isinstance(line.of, PartitionId):
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
