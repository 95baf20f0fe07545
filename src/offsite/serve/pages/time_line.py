"""The line of restore points as drawn on pages: bars for points or groups of them, and rows of marks below."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.overview.time_line import MarkKind, PointGroup, TimeLine, TimeMark, describe_line

WIDTH, BARS_HEIGHT, ROW_HEIGHT = 600, 44, 12
_BAR_MIN, _BAR_LEAST = 3.0, 12
_MARK_WIDTH = 4
_VIEW = re.compile(r"(\d{1,15})-(\d{1,15})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBar:
    """A restore point, or a group of them, which row `commit` of the list below names too."""

    x: float
    width: float
    y: float
    height: float
    commit: int
    is_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMark:
    x: float
    y: int
    style: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """What a template needs of a line. `views`: where one may go from here, by name, as texts `from-to`. `rows`: the
    kinds of marks with the marks of the view in words, the newest first, and how many are not listed."""

    line: TimeLine
    described: str
    bars: tuple[DrawnBar, ...]
    marks: tuple[DrawnMark, ...]
    height: int
    rows: tuple[tuple[MarkKind, tuple[TimeMark, ...], int], ...]
    views: Mapping[str, str]

    @property
    def view(self) -> str:
        """The present view; empty for all of the line."""
        return "" if self.line.is_whole else _view(self.line.from_ms, self.line.to_ms)


def parse_view(text: str) -> tuple[int | None, int | None]:
    """Return the bounds of a view in epoch ms; None: no view, or a text that is none."""
    match = _VIEW.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) <= MAX_COMMIT_TIME_MS:
        return None, None
    return int(match[1]), int(match[2])


def drawn(line: TimeLine) -> DrawnLine:
    kinds = [kind for kind in MarkKind if any(mark.kind is kind for mark in line.marks)]
    counts = {kind: sum(mark.kind is kind for mark in line.marks) for kind in kinds}
    rows = tuple((kind, line.told(kind), counts[kind] - len(line.told(kind))) for kind in kinds)
    return DrawnLine(
        line=line,
        described=describe_line(line),
        bars=tuple(_bars(line)),
        marks=tuple(_marks(line, kinds)),
        height=BARS_HEIGHT + ROW_HEIGHT * len(kinds),
        rows=rows,
        views=dict(_views(line)),
    )


def group_view(group: PointGroup) -> str:
    """The view of the points of a group."""
    return _view(group.from_ms, group.to_ms)


def _views(line: TimeLine) -> Iterator[tuple[str, str]]:
    if line.is_whole:
        return
    if line.from_ms > line.first_ms:
        yield "Earlier", _view(*line.moved(-0.8))
    if line.to_ms < line.last_ms:
        yield "Later", _view(*line.moved(0.8))
    yield "Wider", _view(*line.wider())
    yield "All restore points", _view(line.first_ms, line.last_ms)


def _view(from_ms: int, to_ms: int) -> str:
    return f"{from_ms}-{to_ms}"


def _bars(line: TimeLine) -> Iterator[DrawnBar]:
    most = max((group.count for group in line.groups), default=1)
    for group in line.groups:
        start, end = _x(line, group.from_ms), _x(line, group.to_ms)
        width = max(_BAR_MIN, end - start)
        share = log2(1 + group.count) / log2(1 + most) if most > 1 else 1.0
        height = round(_BAR_LEAST + (BARS_HEIGHT - _BAR_LEAST) * share)
        yield DrawnBar(
            x=round(min(start, WIDTH - width), 1),
            width=round(width, 1),
            y=BARS_HEIGHT - height,
            height=height,
            commit=group.newest.seq,
            is_group=group.count > 1,
        )


def _marks(line: TimeLine, kinds: Sequence[MarkKind]) -> Iterable[DrawnMark]:
    """Marks that would cover each other are drawn once, as the worst of them."""
    spots: dict[tuple[MarkKind, int], list[TimeMark]] = {}
    for mark in line.marks:
        x = min(_x(line, mark.at_ms), WIDTH - _MARK_WIDTH)
        spots.setdefault((mark.kind, int(x) // _MARK_WIDTH), []).append(mark)
    for (kind, column), marks in spots.items():
        worst = max(marks, key=lambda mark: mark.is_bad)
        more = f" (and {len(marks) - 1:,} more here)" if len(marks) > 1 else ""
        yield DrawnMark(
            x=column * _MARK_WIDTH,
            y=BARS_HEIGHT + ROW_HEIGHT * kinds.index(kind) + 2,
            style="lost" if worst.is_bad else "seen",
            text=f"{worst.text}{more}",
        )


def _x(line: TimeLine, at_ms: int) -> float:
    length_ms = max(1, line.to_ms - line.from_ms)
    return min(max(0, at_ms - line.from_ms) / length_ms, 1) * WIDTH
