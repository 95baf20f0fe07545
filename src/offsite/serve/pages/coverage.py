"""The coverage of every topic as two bars: the covered share of its offsets with the holes, and the times of its
records beside the times of other topics. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsite.overview.contents import TopicDetail
from offsite.reports.log_report import HoleReport

WIDTH = 240
_HOLES_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of `WIDTH`. `parts`: covered spans (start, width). `holes`: spans lost at the source. `times`: span of the
    record times, on one axis for all shown topics; None: no times."""

    topic: str
    parts: tuple[tuple[float, float], ...]
    holes: tuple[tuple[float, float], ...]
    times: tuple[float, float] | None
    described: str


def make_bars(topics: Sequence[TopicDetail], holes: Iterable[HoleReport]) -> dict[str, Bar]:
    """Make the bars by topic. The partitions of a topic follow each other, from offset 0 to the end of the
    partition."""
    lost: defaultdict[tuple[str, int], list[HoleReport]] = defaultdict(list)
    for hole in holes:
        lost[hole.topic, hole.partition].append(hole)
    axis_ms = _axis(topics)
    return {topic.topic: _bar(topic, lost, axis_ms) for topic in topics}


def _axis(topics: Sequence[TopicDetail]) -> tuple[int, int]:
    timed = [topic for topic in topics if topic.oldest_record_ms >= 0]
    first_ms = min((topic.oldest_record_ms for topic in timed), default=0)
    return first_ms, max((topic.newest_record_ms for topic in timed), default=first_ms)


def _times(topic: TopicDetail, axis_ms: tuple[int, int]) -> tuple[float, float] | None:
    if topic.oldest_record_ms < 0:
        return None
    first_ms, last_ms = axis_ms
    length_ms = max(0, topic.newest_record_ms - topic.oldest_record_ms)
    start, width = _span(topic.oldest_record_ms - first_ms, length_ms, max(1, last_ms - first_ms))
    return min(start, WIDTH - width), width


def _bar(topic: TopicDetail, lost: dict[tuple[str, int], list[HoleReport]], axis_ms: tuple[int, int]) -> Bar:
    total = sum(part.end for part in topic.partitions) or 1
    parts: list[tuple[float, float]] = []
    holes: list[tuple[float, float]] = []
    at = 0
    for part in topic.partitions:
        if part.end > part.start:
            parts.append(_span(at + part.start, part.end - part.start, total))
        topic_holes = lost.get((topic.topic, part.partition), ())
        holes.extend(_span(at + hole.start, hole.end - hole.start, total) for hole in topic_holes)
        at += part.end
    count = len(holes)
    gone = f", {count} holes" if count else ", no holes"
    backed_up = sum(part.end - part.start for part in topic.partitions)
    return Bar(
        topic=topic.topic,
        parts=tuple(parts),
        holes=tuple(holes[:_HOLES_MAX]),
        times=_times(topic, axis_ms),
        described=f"{backed_up:,} of {total if backed_up else 0:,} offsets{gone}",
    )


def _span(start: int, length: int, total: int) -> tuple[float, float]:
    return round(start * WIDTH / total, 1), round(max(0.5, length * WIDTH / total), 1)
