"""Logs as plain SVG: a lane for each partition, from left to right by offset. Pure, and no longer than it has to be.

An offset is a cell as wide as its lane allows. An end is exclusive, and stands at the left border of its cell. Colours
are told twice, by a word or a pattern too, and follow the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 860, 190, 30
LANE, ROW, HEAD, LINE = 46, 18, 20, 18
LINES = frozenset({"end", "group", "clean", "unclean"})
"""Styles of vertical lines."""

_STYLE = """
text { font: 13px sans-serif; fill: #24292f; }
.small { font-size: 11px; }
.soft { fill: #57606a; }
.axis { stroke: #afb8c1; }
.other { fill: #d0d7de; stroke: #8c959f; }
.kept { fill: #2da44e; stroke: #1a7f37; }
.left { fill: #e16f24; stroke: #953800; }
.open { fill: none; stroke: #953800; stroke-width: 1.5; stroke-dasharray: 4 3; }
.end { stroke: #0969da; stroke-width: 3; }
.group { stroke: #8250df; stroke-width: 3; }
.clean { stroke: #1a7f37; stroke-width: 3; }
.unclean { stroke: #953800; stroke-width: 3; stroke-dasharray: 4 3; }
.endtext { fill: #0969da; }
.grouptext { fill: #8250df; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.soft { fill: #9198a1; }
.axis { stroke: #6e7681; }
.other { fill: #484f58; stroke: #8b949e; }
.kept { fill: #238636; stroke: #56d364; }
.left { fill: #bd561d; stroke: #ffa657; }
.open { stroke: #ffa657; }
.end { stroke: #58a6ff; }
.group { stroke: #d2a8ff; }
.clean { stroke: #56d364; }
.unclean { stroke: #ffa657; }
.endtext { fill: #58a6ff; }
.grouptext { fill: #d2a8ff; }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The records from offset `first` to offset `last`, in one of the rows of a lane, and the marker that ended them.
    `style`: kept, left, open or other."""

    first: int
    last: int
    marker: int | None = None
    style: str = "other"
    row: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A vertical line before the cell of `offset`, with words above: to its right, unless `is_left`."""

    offset: int
    label: str
    style: str = "end"
    is_left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One log between the offsets `low` and `high`, exclusive. `numbers`: the offsets that are written below."""

    name: str
    low: int
    high: int
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    numbers: tuple[int, ...] = ()
    note: str = ""


def draw(title: str, description: str, lanes: Sequence[Lane], legend: Sequence[tuple[str, str]]) -> str:
    """The picture as a text. `description` is read aloud in the place of the picture. `legend`: styles and words."""
    parts: list[str] = []
    top = HEAD + LINE
    for lane in lanes:
        parts += _lane(lane, top)
        top += _height(lane)
    parts += _legend(legend, top + LINE)
    return framed(title, description, parts, height=top + 2 * LINE + HEAD)


def framed(title: str, description: str, parts: Sequence[str], *, height: int) -> str:
    """The whole picture of `parts`, which lie below the line of its title."""
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{_STYLE}</style>",
            text(10, HEAD, title),
            *parts,
            "</svg>\n",
        )
    )


def _height(lane: Lane) -> int:
    return LANE + ROW * _rows(lane) + (LINE if lane.note else 0)


def _rows(lane: Lane) -> int:
    return 1 + max((bar.row for bar in lane.bars), default=0)


def _lane(lane: Lane, top: int) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT) / (lane.high - lane.low)

    def at(offset: float) -> float:
        return round(LEFT + (min(max(offset, lane.low), lane.high) - lane.low) * width, 1)

    upper, lower = top + HEAD, top + HEAD + ROW * _rows(lane)
    yield text(10, upper + 14, lane.name)
    yield f'<line class="axis" x1="{LEFT}" y1="{lower}" x2="{WIDTH - RIGHT}" y2="{lower}"/>'
    for offset in range(lane.low, lane.high + 1) if lane.high - lane.low <= 120 else ():
        yield f'<line class="axis" x1="{at(offset)}" y1="{lower}" x2="{at(offset)}" y2="{lower + 3}"/>'
    for number in lane.numbers:
        yield text(at(number + 0.5), lower + 15, str(number), "small soft", anchor="middle")
    for bar in lane.bars:
        yield from _bar(bar, at(bar.first), at(bar.last + 1), upper + ROW * bar.row)
        if bar.marker is not None:
            yield _diamond(at(bar.marker + 0.5), upper + ROW * bar.row + 8, bar.style)
    for line in lane.lines:
        x = at(line.offset)
        yield f'<line class="{line.style}" x1="{x}" y1="{upper - 5}" x2="{x}" y2="{lower + 4}"/>'
        anchor, by = ("end", -4) if line.is_left else ("start", 4)
        yield text(x + by, upper - 2, line.label, f"small {line.style}text", anchor=anchor)
    if lane.note:
        yield text(LEFT, lower + 31, lane.note, "small soft")


def _bar(bar: Bar, left: float, right: float, top: int) -> Iterator[str]:
    width = round(max(right - left - 1, 2), 1)
    yield f'<rect class="{bar.style}" x="{left}" y="{top + 2}" width="{width}" height="{ROW - 6}" rx="2"/>'
    if bar.label:
        yield text(left - 4, top + 13, bar.label, "small", anchor="end")


def _diamond(x: float, y: int, style: str) -> str:
    return f'<path class="{style}" d="M {x} {y - 8} l 8 8 l -8 8 l -8 -8 z"/>'


def _legend(legend: Sequence[tuple[str, str]], top: int) -> Iterator[str]:
    x = 10
    for style, words in legend:
        if style == "marker":
            yield _diamond(x + 10, top - 5, "other")
        elif style in LINES:
            yield f'<line class="{style}" x1="{x + 10}" y1="{top - 13}" x2="{x + 10}" y2="{top + 3}"/>'
        else:
            yield f'<rect class="{style}" x="{x}" y="{top - 11}" width="20" height="12" rx="2"/>'
        yield text(x + 26, top, words, "small")
        x += 44 + round(6.2 * len(words))


def text(x: float, y: float, words: str, style: str = "", *, anchor: str = "") -> str:
    """Words at a place; `anchor`: `middle` or `end`, where they do not begin there."""
    more = (f' class="{style}"' if style else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{round(x, 1)}" y="{y}"{more}>{escape(words)}</text>'
