"""The class of each topic: how far a cut can be trusted for it. It says what was seen, and never more than that."""

from __future__ import annotations

from offsite.cut.cut import TopicClass
from offsite.cut.window import Ends, Window, WriterKind

_EXACT = {
    frozenset({WriterKind.TRANSACTION}): TopicClass.TRANSACTIONAL,
    frozenset({WriterKind.PARTICIPANT}): TopicClass.PARTICIPANT,
}


def topic_classes(ends: Ends, window: Window) -> dict[str, TopicClass]:
    """The class of each topic among `ends`. One plain writer makes a topic uncoordinated, unless time fences it; so do
    transactions beside participants, which may have read a committed one that the cut leaves out; and a topic of which
    no writer was seen is uncoordinated too: silence proves nothing."""
    return {topic: _class(topic, window) for topic in sorted({partition.topic for partition in ends})}


def _class(topic: str, window: Window) -> TopicClass:
    weak = TopicClass.TIME_FENCED if topic in window.time_fenced else TopicClass.UNCOORDINATED
    if topic in window.unpaired:
        return weak
    return _EXACT.get(window.writers.get(topic, frozenset()), weak)
