"""Values beside each other as bars of a table, with an axis below: each value is read as it is. Pure.

Colours come from the style sheet by class. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from offsite.model.names import amount
from offsite.reports.axis import Unit, ValueAxis, value_axis
from offsite.reports.html_page import figure, table, text

BARS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    name: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPlot:
    """Values beside each other: a table, so its values are read as they are. `of`: what a bar stands for."""

    title: str
    unit: Unit
    of: str
    bars: tuple[Bar, ...]
    note: str = ""

    def html(self) -> str:
        """The plot, or a sentence where there is nothing to compare."""
        bars = [bar for bar in self.bars if isfinite(bar.value)]
        if not bars:
            return figure(self.title, "", self.note or "Nothing is known yet.")
        axis = value_axis([bar.value for bar in bars], self.unit)
        ticks = [
            f'<line class="grid" x1="{axis.share(tick):.2%}" x2="{axis.share(tick):.2%}" y1="0" y2="24"></line>'
            for tick in axis.ticks
        ]
        rows = [[text(bar.name), _bar(bar, axis, ticks), text(self._words(bar))] for bar in bars]
        rows.append(["", _bar_axis(axis), ""])
        shown = table([text(self.of), "", text(self.unit.value)], rows, label=self.title, numbers_from=2)
        return figure(self.title, f'<div class="bars">{shown}</div>', self.note)

    def _words(self, bar: Bar) -> str:
        return self.unit.describe(bar.value) + (f", {bar.note}" if bar.note else "")


def largest(bars: Iterable[Bar], *, most: int = BARS_MAX) -> tuple[Bar, ...]:
    """The `most` largest bars, and the sum of the others as one more."""
    ordered = sorted(bars, key=lambda bar: (-bar.value, bar.name))
    others = ordered[most:]
    rest = Bar(name=f"other ({amount(len(others), 'topic')})", value=sum(bar.value for bar in others))
    return (*ordered[:most], *([rest] if others else []))


def _bar(bar: Bar, axis: ValueAxis, ticks: Sequence[str]) -> str:
    low, high = sorted((axis.share(0.0), axis.share(bar.value)))
    hover = f"<title>{text(f'{bar.name}: {axis.unit.describe(bar.value)}')}</title>"
    shape = f'x="{low:.2%}" width="{max(high - low, 0.002):.2%}" y="4" height="16"'
    drawn = f'<rect class="part" {shape}>{hover}</rect>'
    return f'<svg class="across" height="24" aria-hidden="true">{"".join(ticks)}{drawn}</svg>'


def _bar_axis(axis: ValueAxis) -> str:
    """The first and the last tick; between them the middle one, which a phone has no room for."""
    middle = len(axis.ticks) // 2 if len(axis.ticks) % 2 else None
    ends = [(axis.ticks[0], 'text-anchor="start"'), (axis.ticks[-1], 'text-anchor="end"')]
    between = [] if middle in {None, 0} else [(axis.ticks[middle], 'class="mid" text-anchor="middle"')]
    shown = (
        f'<text x="{axis.share(tick):.2%}" y="12" {form}>{text(axis.unit.label(tick))}</text>'
        for tick, form in (*ends, *between)
    )
    return f'<svg class="across" height="16" aria-hidden="true">{"".join(shown)}</svg>'
