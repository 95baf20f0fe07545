"""The class of a topic: how far a cut can be trusted for the topic. A class claims no more than was observed."""

from __future__ import annotations

from offsite.cut.cut import TopicClass
from offsite.cut.window import Ends, Window, WriterKind

_EXACT = {
    frozenset({WriterKind.TRANSACTION}): TopicClass.TRANSACTIONAL,
    frozenset({WriterKind.PARTICIPANT}): TopicClass.PARTICIPANT,
}


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
