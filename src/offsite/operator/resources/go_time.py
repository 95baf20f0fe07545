"""Times in Go's notation: a layout shows how the moment `Mon Jan 2 15:04:05 MST 2006` would be written. Pure.

Source: package `time` of Go, functions `nextStdChunk` and `Time.Format`. UTC only: a backup name is the same on every
machine. Go itself wrote the expected outputs in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LATER_LETTER = "(?![a-z])"

_ELEMENTS: Mapping[str, Callable[[datetime], str]] = {
    "January": lambda t: _MONTHS[t.month - 1],
    "Jan" + _LATER_LETTER: lambda t: _MONTHS[t.month - 1][:3],
    "Monday": lambda t: _DAYS[t.weekday()],
    "Mon" + _LATER_LETTER: lambda t: _DAYS[t.weekday()][:3],
    "MST": lambda _: "UTC",
    "01": lambda t: f"{t.month:02}",
    "02": lambda t: f"{t.day:02}",
    "03": lambda t: f"{_twelve(t):02}",
    "04": lambda t: f"{t.minute:02}",
    "05": lambda t: f"{t.second:02}",
    "06": lambda t: f"{t.year % 100:02}",
    "002": lambda t: f"{t.timetuple().tm_yday:03}",
    "15": lambda t: f"{t.hour:02}",
    "1": lambda t: str(t.month),
    "2006": lambda t: f"{t.year:04}",
    "_2006": lambda t: f"_{t.year:04}",
    "2": lambda t: str(t.day),
    "_2": lambda t: f"{t.day:2}",
    "__2": lambda t: f"{t.timetuple().tm_yday:3}",
    "3": lambda t: str(_twelve(t)),
    "4": lambda t: str(t.minute),
    "5": lambda t: str(t.second),
    "PM": lambda t: "PM" if t.hour >= 12 else "AM",
    "pm": lambda t: "pm" if t.hour >= 12 else "am",
    "-07:00:00": lambda _: "+00:00:00",
    "-07:00": lambda _: "+00:00",
    "-070000": lambda _: "+000000",
    "-0700": lambda _: "+0000",
    "-07": lambda _: "+00",
    "Z07:00:00": lambda _: "Z",
    "Z07:00": lambda _: "Z",
    "Z070000": lambda _: "Z",
    "Z0700": lambda _: "Z",
    "Z07": lambda _: "Z",
}
_FRACTION = r"[.,](?:0+|9+)(?![0-9])"
_NEXT = re.compile("|".join(f"({element})" for element in [_FRACTION, *sorted(_ELEMENTS, key=len, reverse=True)]))
_WRITTEN = [None, *(_ELEMENTS[element] for element in sorted(_ELEMENTS, key=len, reverse=True))]


def format_go_time(layout: str, time_ms: int) -> str:
    """Format `time_ms` (epoch ms) in UTC by `layout`; other text in the layout is copied."""
    at = datetime.fromtimestamp(time_ms / 1000, tz=UTC).replace(microsecond=time_ms % 1000 * 1000)
    return _NEXT.sub(lambda match: _written(match, at), layout)


def _written(match: re.Match[str], at: datetime) -> str:
    write = _WRITTEN[(match.lastindex or 1) - 1]
    return _fraction(match[0], at) if write is None else write(at)


def _fraction(element: str, at: datetime) -> str:
    """As many digits as zeros in the layout; with nines, trailing zeros are dropped, and the sign if no digit is
    left."""
    digits = f"{at.microsecond:06}000"[: len(element) - 1].ljust(len(element) - 1, "0")
    if element[1] == "9":
        digits = digits.rstrip("0")
    return element[0] + digits if digits else ""


def _twelve(at: datetime) -> int:
    return at.hour % 12 or 12
