"""The axes of plots: round ticks, human units, dates in UTC. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import count, takewhile
from math import ceil, floor, isfinite, log2, log10

from offsite.model.units import format_duration, format_size

INTERVALS_MAX = 4
"""Intervals between ticks, and one more with negative values: five dates fit beside each other on a phone."""
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: the last moment of a calendar."""

_LEAST_SPAN = 1e-6
"""Smaller values are drawn as zero."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_CLOCK_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE_S for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR_S for hours in (1, 2, 3, 6, 12)),
    _DAY_S,
)
_DAY_STEPS_S = (*_CLOCK_STEPS_S, 2 * _DAY_S, 4 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S)
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000, 24_000)
_MONDAY_S = 4 * _DAY_S
"""The first Monday of the epoch: ticks of weeks are Mondays."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unit(Enum):
    """What a value axis measures, as the head of a column."""

    SECONDS = "Time"
    BYTES = "Size"
    BYTES_PER_S = "Rate"
    RECORDS_PER_S = "Records"

    def describe(self, value: float) -> str:
        """A value with its unit, for people."""
        size = abs(value)
        sign = "-" if value < 0 else ""
        if self is Unit.SECONDS:
            return sign + (format_duration(size) if size else "0 s")
        if self is Unit.RECORDS_PER_S:
            return f"{sign}{_amount(size)} records/s"
        return sign + format_size(size) + ("/s" if self is Unit.BYTES_PER_S else "")

    def label(self, tick: float) -> str:
        """A tick, as short as it can be."""
        if not tick:
            return "0"
        size = abs(tick)
        sign = "-" if tick < 0 else ""
        if self is Unit.SECONDS:
            return sign + _short_duration(size)
        if self is Unit.RECORDS_PER_S:
            return f"{sign}{_amount(size)}/s"
        return sign + format_size(size).replace(".0 ", " ") + ("/s" if self is Unit.BYTES_PER_S else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAxis:
    """An axis from the first to the last of its `ticks`, which include zero."""

    unit: Unit
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where `value` lies: 0 at the first tick, 1 at the last."""
        return (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTick:
    """A moment on a time axis. `date`: below a time of day the date, below a day its year; empty where it is that of
    the tick before."""

    at_ms: int
    label: str
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The time from `first_ms` to `last_ms`, epoch ms."""

    first_ms: int
    last_ms: int
    ticks: tuple[TimeTick, ...]

    def share(self, at_ms: int) -> float:
        """Where a moment lies: 0 at the beginning, 1 at the end."""
        return (at_ms - self.first_ms) / (self.last_ms - self.first_ms)


def value_axis(values: Iterable[float], unit: Unit) -> ValueAxis:
    """The axis for `values`, which are finite: from zero, or from below the lowest negative value."""
    held = (0.0, *(value for value in values if isfinite(value)))
    low, high = min(held), max(held)
    if high - low < _LEAST_SPAN:
        low, high = 0.0, 1.0
    step = _step(high - low, unit)
    first, last = floor(low / step), max(ceil(high / step), floor(low / step) + 1)
    return ValueAxis(unit=unit, ticks=tuple(step * number for number in range(first, last + 1)))


def time_axis(first_ms: int, last_ms: int) -> TimeAxis:
    """The axis for moments between `first_ms` and `last_ms`; of at least a second."""
    first_ms = min(max(first_ms, 0), TIME_MAX_MS - 1000)
    last_ms = min(max(last_ms, first_ms + 1000), TIME_MAX_MS)
    return TimeAxis(first_ms=first_ms, last_ms=last_ms, ticks=tuple(_time_ticks(first_ms, last_ms)))


def describe_time(at_ms: int) -> str:
    """A moment in UTC, to the second."""
    return f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}"


def _step(span: float, unit: Unit) -> float:
    least = span / INTERVALS_MAX
    if unit in {Unit.BYTES, Unit.BYTES_PER_S}:
        return float(2.0 ** ceil(log2(max(1.0, least))))
    if unit is Unit.SECONDS and 1 <= least <= _DAY_S:
        return float(next(step for step in _CLOCK_STEPS_S if step >= least))
    scale = _DAY_S if unit is Unit.SECONDS and least > _DAY_S else 1
    return scale * _decimal_step(least / scale)


def _decimal_step(least: float) -> float:
    power = 10.0 ** floor(log10(least))
    return next((part * power for part in (1, 2, 5) if part * power >= least), 10 * power)


def _short_duration(size_s: float) -> str:
    for length_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if size_s >= length_s and size_s % length_s == 0:
            return f"{size_s / length_s:,.0f} {name}"
    return f"{size_s:g} s" if size_s >= 1 else f"{size_s * 1000:g} ms"


def _amount(size: float) -> str:
    for scale, name in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if size >= scale:
            return f"{size / scale:,.4g}{name}" if size < 1000 * scale else f"{size / scale:,.0f}{name}"
    return f"{size:,.0f}" if size >= 100 else f"{size:.3g}"


def _time_ticks(first_ms: int, last_ms: int) -> Iterator[TimeTick]:
    least_s = (last_ms - first_ms) / 1000 / INTERVALS_MAX
    step_s = next((step for step in _DAY_STEPS_S if step >= least_s), None)
    if step_s is None:
        yield from _month_ticks(first_ms, last_ms, least_s / (30 * _DAY_S))
        return
    shift_ms = _MONDAY_S * 1000 if step_s >= 7 * _DAY_S else 0
    step_ms, date = step_s * 1000, ""
    moments_ms = count(shift_ms + -(-(first_ms - shift_ms) // step_ms) * step_ms, step_ms)
    for at_ms in takewhile(lambda moment_ms: moment_ms <= last_ms, moments_ms):
        label, today = _labels_of(_moment(at_ms), step_s)
        yield TimeTick(at_ms=at_ms, label=label, date="" if today == date else today)
        date = today


def _labels_of(moment: datetime, step_s: int) -> tuple[str, str]:
    """The label of a tick, and the words below, which are told where they change."""
    if step_s >= _DAY_S:
        return f"{_MONTHS[moment.month - 1]} {moment.day}", f"{moment.year:04}"
    time = f"{moment:%H:%M}" if step_s >= _MINUTE_S else f"{moment:%H:%M:%S}"
    return time, f"{moment:%Y-%m-%d}"


def _month_ticks(first_ms: int, last_ms: int, least: float) -> Iterator[TimeTick]:
    step = next((months for months in _MONTH_STEPS if months >= least), _MONTH_STEPS[-1])
    first = _moment(first_ms)
    months = count(-(-(first.year * 12 + first.month) // step) * step, step)
    for month in takewhile(lambda number: number // 12 <= 9999, months):
        at_ms = (datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
        if at_ms > last_ms:
            return
        year = f"{month // 12:04}"
        yield TimeTick(at_ms=at_ms, label=f"{year}-{month % 12 + 1:02}" if step < 12 else year)


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)
