"""What of each topic is backed up, as a bar: which share of its offsets, and where the holes are. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsite.services.hole_report import HoleReport
from offsite.services.overview.contents import TopicDetail

WIDTH = 240
_HOLES_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of `WIDTH`: `parts` are spans (from, width) that are backed up, `holes` those that the source had lost."""

    topic: str
    parts: tuple[tuple[float, float], ...]
    holes: tuple[tuple[float, float], ...]
    described: str


def bars(topics: Sequence[TopicDetail], holes: Iterable[HoleReport]) -> dict[str, Bar]:
    """By topic. The partitions of a topic stand behind each other, each from offset 0 to its end."""
    lost: defaultdict[tuple[str, int], list[HoleReport]] = defaultdict(list)
    for hole in holes:
        lost[hole.topic, hole.partition].append(hole)
    return {each.topic: _bar(each, lost) for each in topics}


def _bar(topic: TopicDetail, lost: dict[tuple[str, int], list[HoleReport]]) -> Bar:
    total = sum(part.end for part in topic.partitions) or 1
    parts: list[tuple[float, float]] = []
    holes: list[tuple[float, float]] = []
    at = 0
    for part in topic.partitions:
        if part.end > part.start:
            parts.append(_span(at + part.start, part.end - part.start, total))
        found = lost.get((topic.topic, part.partition), ())
        holes.extend(_span(at + hole.start, hole.end - hole.start, total) for hole in found)
        at += part.end
    count = len(holes)
    gone = f", {count} holes" if count else ", no holes"
    held = sum(part.end - part.start for part in topic.partitions)
    return Bar(
        topic=topic.topic,
        parts=tuple(parts),
        holes=tuple(holes[:_HOLES_MAX]),
        described=f"{held:,} of {total if held else 0:,} offsets{gone}",
    )


def _span(start: int, length: int, total: int) -> tuple[float, float]:
    return round(start * WIDTH / total, 1), round(max(0.5, length * WIDTH / total), 1)
