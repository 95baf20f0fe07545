"""The parts of reports as self-contained HTML files: to be filed, printed, sent to an auditor. Pure.

All share the look of the coordinator's pages. All text is escaped here. Figures over time become a line of an SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from html import escape
from itertools import accumulate, pairwise
from pathlib import Path

from offsite.model.names import amount
from offsite.model.units import format_duration, format_size, format_time
from offsite.model.untrusted.text import printable
from offsite.repository.commit_history import CommitSummary

WIDTH, HEIGHT, MARGIN = 600, 110, 6
POINTS_MAX = 300
"""A plot shows at most so many of the newest restore points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """`path` of an SVG of `WIDTH` times `HEIGHT`, its title, the times of its ends, and a description in words."""

    path: str
    top: str
    first: str
    last: str
    described: str


def lines_of(points: Sequence[CommitSummary], now_ms: int) -> list[PlotLine]:
    """Plot the newest restore points of a backup: the age of the newest point over time, and the stored bytes.
    `now_ms`: the store's clock, epoch ms. Empty for fewer than two points."""
    shown = list(points[-POINTS_MAX:])
    return [age_over_time(shown, now_ms), stored_over_time(shown)] if len(shown) > 1 else []


def stored_over_time(points: Sequence[CommitSummary]) -> PlotLine:
    """How the stored bytes grew with the restore points."""
    sums = list(accumulate(point.stored_bytes for point in points))
    spots = [(point.committed_at_ms, stored) for point, stored in zip(points, sums, strict=True)]
    return _line(spots, f"{format_size(sums[-1])} stored by {amount(len(points), 'restore point')}")


def age_over_time(points: Sequence[CommitSummary], now_ms: int) -> PlotLine:
    """The age of the newest restore point: rises with time, and drops to zero at the next point. The peak is the loss
    at the worst moment."""
    times = [*(point.committed_at_ms for point in points), now_ms]
    spots = [(times[0], 0)]
    for made_ms, next_ms in pairwise(times):
        spots += [(next_ms, max(0, next_ms - made_ms)), (next_ms, 0)]
    worst_ms = max(age for _, age in spots)
    return _line(spots[:-1], f"newest restore point at most {format_duration(worst_ms / 1000)} old")


def places(times_ms: Sequence[int]) -> list[float]:
    """Positions of moments on a line of time."""
    return [round(place, 1) for place in _scaled(times_ms, MARGIN, WIDTH - MARGIN)]


def _line(spots: Sequence[tuple[int, int]], top: str) -> PlotLine:
    times = [at_ms for at_ms, _ in spots]
    placed = zip(_scaled(times, 0, WIDTH), _scaled([0, *(high for _, high in spots)], HEIGHT, MARGIN)[1:], strict=True)
    first, last = format_time(min(times))[:16].replace("T", " "), format_time(max(times))[:16].replace("T", " ")
    return PlotLine(
        path="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in placed),
        top=top,
        first=first,
        last=last,
        described=f"{top}, from {first} to {last} UTC",
    )


def _scaled(values: Sequence[int], start: float, end: float) -> list[float]:
    least, span = min(values), (max(values) - min(values)) or 1
    return [start + (value - least) * (end - start) / span for value in values]


STYLE_FILE = Path(__file__).parent / "offsite.css"


class VerdictStyle(StrEnum):
    """Names of style classes."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page. `parts` are HTML."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{_style()}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def text(said: str) -> str:
    """Foreign names as HTML that any reader can bear: a page with invalid UTF-8 cannot be stored."""
    return escape(printable(said))


def verdict(said: str, kind: VerdictStyle) -> str:
    return f'<p class="verdict {kind}">{text(said)}</p>'


def tag(said: str, kind: VerdictStyle) -> str:
    return f'<span class="tag {kind}">{text(said)}</span>'


def facts(named: Mapping[str, str]) -> str:
    """Texts with their names."""
    pairs = (f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in named.items())
    return "<dl>\n" + "\n".join(pairs) + "\n</dl>"


def items(said: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(line)}</li>" for line in said) + "</ul>"


def plot(line: PlotLine) -> str:
    return (
        f'<p class="ends">{text(line.top)}</p>\n'
        f'<svg class="line" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(line.described)}"><path d="{line.path}"></path></svg>\n'
        f'<p class="ends"><span>{text(line.first)}</span><span>{text(line.last)}</span></p>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 99) -> str:
    """`rows` hold HTML. Columns from number `numbers_from` on are right-aligned."""
    lines = [_row("th", head, numbers_from)] if head else []
    body = [*lines, *(_row("td", row, numbers_from) for row in rows)]
    return "\n".join(
        ['<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>', *body, "</table></div>"]
    )


def _row(name: str, cells: Sequence[str], numbers_from: int) -> str:
    opened = [f'<{name} class="number">' if at >= numbers_from else f"<{name}>" for at in range(len(cells))]
    return "<tr>" + "".join(f"{start}{cell}</{name}>" for start, cell in zip(opened, cells, strict=True)) + "</tr>"


@cache
def _style() -> str:
    return STYLE_FILE.read_text()
