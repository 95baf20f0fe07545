"""Plots as HTML: an SVG with axes, a hover text for each value, and a table of the same values. Pure.

A value belongs to a span of time, or to a moment. What is not known is a gap: nothing is drawn between two known values
that do not meet. Colours and dashes come from the style sheet by class, so they follow the reader's light or dark theme
and no page needs an inline style. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import isfinite

from offsite.reports.axis import TIME_MAX_MS, TimeAxis, Unit, ValueAxis, describe_time, time_axis, value_axis
from offsite.reports.html_page import figure, table, text

SPANS_MAX = 48
"""Spans of one line are joined until about so many remain: a page stays small whatever it shows."""
_TOP, _HEIGHT, _BELOW, _SCALE = 18, 130, 32, 1000
"""Pixels above, in and below the field of a plot; the units of its width."""
_NEAR_EDGE = 0.12
"""Labels so near to an edge begin or end at their tick."""
_DOT = 3


class PlotStyle(StrEnum):
    """Style classes of what is drawn in one plot."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotSpan:
    """A value from `start_ms` to `end_ms`, epoch ms; of a moment if both are the same. `value`: None if it is not
    known. `note`: more words for its hover text and its row."""

    start_ms: int
    end_ms: int
    value: float | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotSeries:
    """What one colour shows. `spans`: ascending, without overlaps."""

    name: str
    spans: tuple[PlotSpan, ...]
    style: PlotStyle = PlotStyle.FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlot:
    """Values over time. `note`: which span of time, and what of it, is shown. `last_ms`: the right end of the axis, at
    least; 0: the last value."""

    title: str
    unit: Unit
    series: tuple[PlotSeries, ...]
    note: str = ""
    last_ms: int = 0

    def html(self, *, is_brief: bool = False) -> str:
        """The plot, or a sentence where nothing is known. `is_brief`: without hover texts and table."""
        sound = replace(self, series=tuple(_sound(series) for series in self.series))
        spans = [span for series in sound.series for span in series.spans]
        values = [span.value for span in spans if span.value is not None]
        if not values:
            return figure(self.title, '<p class="soft">Nothing is known yet.</p>', self.note)
        last_ms = max(min(self.last_ms, TIME_MAX_MS), *(span.end_ms for span in spans))
        times = time_axis(min(span.start_ms for span in spans), last_ms)
        axis = value_axis(values, self.unit)
        is_alone = len(self.series) == 1
        parts = [*_grid(axis), *_dates(times)]
        parts += [part for series in sound.series for part in _drawn(series, times, axis, is_filled=is_alone)]
        parts += _labels(axis)
        if not is_brief:
            parts += _hovers_of_one(sound, times) if is_alone else _hovers_of_all(sound, times)
        return figure(
            self.title,
            _legend(sound.series) + _svg(f"{self.title}: {_summary(values, self.unit)}", parts),
            self.note,
            "" if is_brief else _values(sound),
        )


def _hovers_of_one(plot: TimePlot, times: TimeAxis) -> Iterator[str]:
    """A band of full height for each value: thin lines are hard to point at. That of a moment reaches half way to the
    next."""
    (series,) = plot.series
    middles = [times.share((first.end_ms + second.start_ms) // 2) for first, second in pairwise(series.spans)]
    for span, left, right in zip(series.spans, [0.0, *middles], [*middles, 1.0], strict=True):
        is_moment = span.start_ms == span.end_ms
        edges = (left, right) if is_moment else (times.share(span.start_ms), times.share(span.end_ms))
        yield _hover(*edges, f"{_describe_span(span)}: {_describe(span, plot.unit)}")


def _hovers_of_all(plot: TimePlot, times: TimeAxis) -> Iterator[str]:
    """Bands of one width, each with the values of all lines in its middle, and the moments within."""
    width_ms = max(1, (times.last_ms - times.first_ms) // SPANS_MAX)
    for start_ms in range(times.first_ms, times.last_ms, width_ms):
        end_ms = min(start_ms + width_ms, times.last_ms)
        words = [
            f"{series.name}, {_describe_span(span)}: {_describe(span, plot.unit)}"
            for series in plot.series
            for span in series.spans
            if span.start_ms <= (start_ms + end_ms) // 2 < span.end_ms
            or (span.start_ms == span.end_ms and start_ms <= span.start_ms < end_ms)
        ]
        if words:
            yield _hover(times.share(start_ms), times.share(end_ms), "\n".join(words))


def _hover(left: float, right: float, words: str) -> str:
    shape = f'x="{left:.2%}" width="{max(0.002, right - left):.2%}" y="{_TOP}" height="{_HEIGHT}"'
    lines = "\n".join(map(text, words.split("\n")))
    return f'<rect class="hover" {shape}><title>{lines}</title></rect>'


def _values(plot: TimePlot) -> str:
    rows = [
        [text(_describe_span(span)), text(series.name), text(_describe(span, plot.unit))]
        for series in plot.series
        for span in reversed(series.spans)
    ]
    shown = table(["Time (UTC)", "What", "Value"], rows, label=f"Values: {plot.title}")
    return f"<details><summary>Values</summary>\n{shown}</details>"


def joined_at_most(spans: Sequence[PlotSpan], *, most: int = SPANS_MAX) -> tuple[PlotSpan, ...]:
    """The spans, joined where they are short until `2 * most + 1` are left: a joined span has the largest value. A gap
    is joined with nothing that is known."""
    if len(spans) <= most:
        return tuple(spans)
    width_ms = (spans[-1].end_ms - spans[0].start_ms) / most
    groups: list[list[PlotSpan]] = []
    for span in spans:
        group = groups[-1] if groups else None
        is_gap = span.value is None
        if group and (group[-1].value is None) == is_gap and span.end_ms - group[0].start_ms <= width_ms:
            group.append(span)
        else:
            groups.append([span])
    return tuple(map(_joined, groups))


def _joined(spans: Sequence[PlotSpan]) -> PlotSpan:
    values = [span.value for span in spans if span.value is not None]
    note = f"the most of {len(spans):,}" if len(spans) > 1 and values else spans[0].note
    return PlotSpan(start_ms=spans[0].start_ms, end_ms=spans[-1].end_ms, value=max(values, default=None), note=note)


def _sound(series: PlotSeries) -> PlotSeries:
    """Without moments beyond any calendar; a value that is no number is not known."""
    spans = (
        span if span.value is None or isfinite(span.value) else replace(span, value=None)
        for span in series.spans
        if 0 <= span.start_ms <= span.end_ms <= TIME_MAX_MS
    )
    return replace(series, spans=tuple(spans))


def _drawn(series: PlotSeries, times: TimeAxis, axis: ValueAxis, *, is_filled: bool) -> Iterator[str]:
    lines, areas, base = [], [], _y(axis, 0.0)
    for run in _runs(series.spans):
        corners = [
            (times.share(moment) * _SCALE, _y(axis, span.value))
            for span in run
            for moment in (span.start_ms, span.end_ms)
        ]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
        lines.append(f"M{path}")
        areas.append(f"M{corners[0][0]:.1f} {base:.1f} L{path} L{corners[-1][0]:.1f} {base:.1f}Z")
    if lines:
        area = f'<path class="area" d="{" ".join(areas)}"></path>' if is_filled else ""
        yield (
            f'<svg class="{series.style}" y="{_TOP}" width="100%" height="{_HEIGHT}" viewBox="0 0 {_SCALE} {_HEIGHT}" '
            f'preserveAspectRatio="none">{area}<path class="drawn" d="{" ".join(lines)}"></path></svg>'
        )
    for span in series.spans:
        if span.value is not None and span.start_ms == span.end_ms:
            place = f'cx="{times.share(span.start_ms):.2%}" cy="{_TOP + _y(axis, span.value):.1f}"'
            yield f'<circle class="{series.style}" {place} r="{_DOT}"></circle>'


def _runs(spans: Iterable[PlotSpan]) -> Iterator[list[PlotSpan]]:
    """Known spans that meet, without moments."""
    run: list[PlotSpan] = []
    for span in spans:
        if run and (span.value is None or run[-1].end_ms != span.start_ms):
            yield run
            run = []
        if span.value is not None and span.start_ms != span.end_ms:
            run.append(span)
    if run:
        yield run


def _y(axis: ValueAxis, value: float | None) -> float:
    return _HEIGHT * (1 - axis.share(value or 0.0))


def _grid(axis: ValueAxis) -> Iterator[str]:
    for tick in axis.ticks:
        y = _TOP + _y(axis, tick)
        yield f'<line class="grid" x2="100%" y1="{y:.1f}" y2="{y:.1f}"></line>'


def _labels(axis: ValueAxis) -> Iterator[str]:
    """Above their lines, in the field: a phone has no room beside it."""
    for tick in axis.ticks:
        yield f'<text x="2" y="{_TOP + _y(axis, tick) - 3:.1f}">{text(axis.unit.label(tick))}</text>'


def _dates(times: TimeAxis) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    for tick in times.ticks:
        share = times.share(tick.at_ms)
        anchor = "start" if share < _NEAR_EDGE else "end" if share > 1 - _NEAR_EDGE else "middle"
        x = f"{share:.2%}"
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom + 4}"></line>'
        for line, words in enumerate((tick.label, tick.date)):
            if words:
                yield f'<text x="{x}" y="{bottom + 15 + 14 * line}" text-anchor="{anchor}">{words}</text>'


def _svg(described: str, parts: Iterable[str]) -> str:
    height = _TOP + _HEIGHT + _BELOW
    return (
        f'<svg class="plot" height="{height}" role="img" aria-label="{text(described)}">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _legend(series: Sequence[PlotSeries]) -> str:
    if len(series) < 2:
        return ""
    return f'<ul class="legend">{"".join(map(_key, series))}</ul>\n'


def _key(series: PlotSeries) -> str:
    is_line = any(span.start_ms != span.end_ms for span in series.spans)
    drawn = '<path class="drawn" d="M1 6 L27 6"></path>' if is_line else f'<circle cx="14" cy="6" r="{_DOT}"></circle>'
    shown = f'<svg class="{series.style}" width="28" height="12" aria-hidden="true">{drawn}</svg>'
    return f"<li>{shown} {text(series.name)}</li>"


def _summary(values: Sequence[float], unit: Unit) -> str:
    return f"from {unit.describe(min(values))} to {unit.describe(max(values))}"


def _describe(span: PlotSpan, unit: Unit) -> str:
    value = "not known" if span.value is None else unit.describe(span.value)
    return f"{value} ({span.note})" if span.note else value


def _describe_span(span: PlotSpan) -> str:
    if span.start_ms == span.end_ms:
        return describe_time(span.start_ms)
    return f"{describe_time(span.start_ms)} to {describe_time(span.end_ms)}"
