"""Plots: what is known is drawn, told and listed; what is not known is a gap; nobody's words are HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from offsite.reports.axis import TIME_MAX_MS, Unit
from offsite.reports.bar_plot import BARS_MAX, Bar, BarPlot, largest
from offsite.reports.plot import (
    SPANS_MAX,
    PlotSeries,
    PlotSpan,
    PlotStyle,
    TimePlot,
    joined_at_most,
)

START_MS = 1_764_288_000_000
HOUR_MS = 3_600_000
HOSTILE = "<script>alert(1)</script>\x1b[2J"


def hours(*values: float | None) -> tuple[PlotSpan, ...]:
    return tuple(
        PlotSpan(start_ms=START_MS + at * HOUR_MS, end_ms=START_MS + (at + 1) * HOUR_MS, value=value)
        for at, value in enumerate(values)
    )


def plot_of(*values: float | None, unit: Unit = Unit.SECONDS) -> TimePlot:
    return TimePlot(title="Age", unit=unit, series=(PlotSeries(name="age", spans=hours(*values)),))


class Names(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


def lines_in(html: str) -> str:
    drawn = re.search(r'class="drawn" d="(M\d[^"]*\.\d)"', html)
    return drawn[1] if drawn else ""


def test_each_value_is_drawn_told_where_one_points_and_listed() -> None:
    html = plot_of(60, 120, 240).html()
    assert lines_in(html) == "M0.0 97.5 L333.3 97.5 L333.3 65.0 L666.7 65.0 L666.7 0.0 L1000.0 0.0"
    assert "<title>2025-11-28 01:00:00 to 2025-11-28 02:00:00: 2 min 00 s</title>" in html
    assert "<td>2025-11-28 01:00:00 to 2025-11-28 02:00:00</td><td>age</td><td>2 min 00 s</td>" in html
    assert 'aria-label="Age: from 1 min 00 s to 4 min 00 s"' in html
    assert all(f">{tick}</text>" in html for tick in ("0", "1 min", "4 min", "00:00", "2025-11-28"))


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf")])
def test_what_is_not_known_is_a_gap_and_no_line_goes_over_it(unknown: float | None) -> None:
    html = plot_of(60, unknown, 60).html()
    assert lines_in(html) == "M0.0 0.0 L333.3 0.0 M666.7 0.0 L1000.0 0.0"
    assert "2025-11-28 02:00:00: not known</title>" in html
    assert "nan" not in html.lower()
    assert "inf" not in html.lower()


def test_spans_that_do_not_meet_are_not_joined() -> None:
    first, _, last = hours(60, 60, 60)
    html = TimePlot(title="Age", unit=Unit.SECONDS, series=(PlotSeries(name="age", spans=(first, last)),)).html()
    assert lines_in(html).count("M") == 2


@pytest.mark.parametrize("values", [(), (None,), (float("nan"),)])
def test_a_plot_without_a_value_says_so(values: tuple[float | None, ...]) -> None:
    html = plot_of(*values).html()
    assert "Nothing is known yet." in html
    assert "<svg" not in html


@pytest.mark.parametrize("value", [0, 1, -5, 2**63, 1e-9])
@pytest.mark.parametrize("unit", list(Unit))
def test_any_single_value_has_a_place_in_the_field(unit: Unit, value: float) -> None:
    html = plot_of(value, unit=unit).html()
    heights = [float(y) for y in re.findall(r" (\d+\.\d)(?= L|$)", lines_in(html))]
    assert heights
    assert all(0 <= y <= 130 for y in heights)
    assert "nan" not in html.lower()


def test_a_moment_is_a_point_and_no_line_joins_two() -> None:
    moments = tuple(
        PlotSpan(start_ms=at_ms, end_ms=at_ms, value=1, note="commit 7") for at_ms in (START_MS, START_MS + HOUR_MS)
    )
    html = TimePlot(title="Age", unit=Unit.SECONDS, series=(PlotSeries(name="age", spans=moments),)).html()
    assert html.count("<circle") == 2
    assert not lines_in(html)
    assert "2025-11-28 00:00:00: 1.0 s (commit 7)</title>" in html


def test_moments_beyond_any_calendar_are_left_out() -> None:
    spans = (*hours(60), PlotSpan(start_ms=START_MS, end_ms=TIME_MAX_MS + 1, value=60))
    html = TimePlot(title="Age", unit=Unit.SECONDS, series=(PlotSeries(name="age", spans=spans),), last_ms=2**63).html()
    assert html.count("<title>") == 1


def test_several_lines_are_told_apart_by_name_and_dash_and_not_by_colour_alone() -> None:
    series = tuple(PlotSeries(name=f"{style} line", style=style, spans=hours(60)) for style in PlotStyle)
    html = TimePlot(title="Age", unit=Unit.SECONDS, series=series).html()
    assert all(f'class="{style}"' in html for style in PlotStyle)
    lines = html[html.index("<title>") + 7 : html.index("</title>")].split("\n")
    assert [line.split(",")[0] for line in lines] == [f"{style} line" for style in PlotStyle], (
        "all of them at one place"
    )
    assert html.count("<li>") == len(series)


def test_names_of_strangers_are_text_and_no_style_stands_in_a_line() -> None:
    spans = (PlotSpan(start_ms=START_MS, end_ms=START_MS, value=1, note=HOSTILE),)
    series = tuple(PlotSeries(name=HOSTILE, spans=spans) for _ in range(2))
    plots = (
        TimePlot(title=HOSTILE, unit=Unit.BYTES, series=series, note=HOSTILE).html(),
        BarPlot(
            title=HOSTILE, unit=Unit.BYTES, of=HOSTILE, bars=(Bar(name=HOSTILE, value=1, note=HOSTILE),), note=HOSTILE
        ).html(),
    )
    for html in plots:
        names = Names(html)
        assert "script" not in names.tags
        assert not {name for name in names.attributes if name == "style" or name.startswith("on")}
        assert "\x1b" not in html


def test_many_short_spans_are_joined_to_the_largest_value_of_each_group() -> None:
    joined = joined_at_most(hours(*range(10_000)))
    assert SPANS_MAX / 2 <= len(joined) <= 2 * SPANS_MAX + 1
    assert joined[0].start_ms == START_MS
    assert joined[-1].end_ms == START_MS + 10_000 * HOUR_MS
    assert joined[-1].value == 9_999
    assert joined[0].note.startswith("the most of ")
    assert joined_at_most(hours(1, 2)) == hours(1, 2)


def test_a_gap_stays_a_gap_among_joined_spans() -> None:
    joined = joined_at_most(hours(*([1.0] * 500), *([None] * 500), *([1.0] * 500)))
    unknown = [span for span in joined if span.value is None]
    assert unknown[0].start_ms == START_MS + 500 * HOUR_MS
    assert unknown[-1].end_ms == START_MS + 1000 * HOUR_MS


def test_a_plot_of_most_spans_stays_small() -> None:
    html = TimePlot(
        title="Age", unit=Unit.SECONDS, series=(PlotSeries(name="age", spans=joined_at_most(hours(*range(50_000)))),)
    ).html()
    assert len(html) < 40_000
    assert len(plot_of(*range(SPANS_MAX)).html(is_brief=True)) < 4_000


def test_bars_are_the_largest_and_the_sum_of_the_rest() -> None:
    bars = largest(Bar(name=f"topic-{number:04}", value=number) for number in range(2_000))
    assert len(bars) == BARS_MAX + 1
    assert bars[0] == Bar(name="topic-1999", value=1999)
    assert bars[-1] == Bar(name="other (1,990 topics)", value=sum(range(1_990)))
    html = BarPlot(title="Stored", unit=Unit.BYTES, of="Topic", bars=bars).html()
    assert "<td>topic-1999</td>" in html
    assert '<td class="number">2.0 KiB</td>' in html
    assert "Nothing is known yet." in BarPlot(title="Stored", unit=Unit.BYTES, of="Topic", bars=()).html()
