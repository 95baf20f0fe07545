"""Sizes and times: integers inside (bytes, milliseconds since the epoch), units at the edges (`64MiB`, ISO-8601 with
zone, `90s`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from offsite.model.bounds import whole_number
from offsite.model.errors import BadOption

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([kmgt]?)(i?)b", re.IGNORECASE | re.ASCII)
_POWERS = ("", "k", "m", "g", "t")
LEAST_RATE = 10_000
"""The lowest limit, in bytes per second: below, a single batch would take hours."""
MOST_RATE = 1_000 * 1000**4
"""The highest limit, in bytes per second: far above, the share of half a second is no 64-bit number."""
_AGO = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)[ -]ago")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
UNIT_WORDS = frozenset({"ms", "s", "min", "h", "d"})
"""Of `format_duration`."""
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_TIME_HINT = "write it as 2026-11-20T14:00:00Z, '2026-11-20 14:00' (UTC), epoch milliseconds, or 2h-ago"
_MAX_AGO = 10**9  # of any unit: weeks of that number still fit 64 bits of milliseconds
_MAX_DURATION_S = 1e9  # about 30 years: locks and sleeps refuse much more
_MIN_EPOCH_DIGITS = 11  # fewer digits would be a year, a date or seconds: refuse to guess

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_size(size_bytes: float) -> str:
    """Bytes → `1.5 GiB`, three significant digits at most."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def parse_size(text: str, option: str) -> int:
    """Parse `10GiB`, `1.5 TB` or `500MB` into bytes. Raises `BadOption` with the name `option`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadOption(f"{option}: {text[:100]!r} is not a size", hint=f"write it as {option} 10GiB")
    return int(_bytes_of(match))


def parse_rate(text: str, option: str) -> int:
    """Parse `50MB`, `1.5 MiB` or `20MB/s` into bytes per second. Raises `BadOption` with the name `option`."""
    match = _SIZE.fullmatch(text.strip().removesuffix("/s"))
    rate = _bytes_of(match) if match else 0
    if rate < LEAST_RATE:
        problem = "is not a size" if match is None else f"is below the minimum, {LEAST_RATE // 1000}kB a second"
        raise BadOption(f"{option}: {text[:100]!r} {problem}", hint=f"give bytes per second, as in {option} 50MB")
    if rate > MOST_RATE:
        raise BadOption(
            f"{option}: {text[:100]!r} is above the maximum, 1000TB a second",
            hint=f"give a lower value, as in {option} 50MB, or omit the option",
        )
    return int(rate)


def _bytes_of(match: re.Match[str]) -> float:
    unit: int = (KIB if match[3] else 1000) ** _POWERS.index(match[2].lower())
    return float(match[1]) * unit


def parse_time(text: str, *, now_ms: int) -> int:
    """Parse a point in time as a person writes it → epoch ms. A time without a zone is UTC. Raises `BadOption`."""
    text = text.strip()
    if (epoch_ms := whole_number(text)) is not None and len(text) >= _MIN_EPOCH_DIGITS:
        return epoch_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - _number_ago(ago[1]) * UNIT_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadOption(f"{text[:100]!r} is not a time", hint=_TIME_HINT) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def _number_ago(text: str) -> int:
    number = whole_number(text, most=_MAX_AGO)
    if number is None:
        raise BadOption(f"{text[:100]} is too large: use {_MAX_AGO:,} at most, or a larger unit", hint=_TIME_HINT)
    return number


def parse_duration_s(text: str) -> float:
    """Parse a duration as a person writes it (`500ms`, `10s`, `5m`, `2h`) → seconds. Raises `BadOption`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise BadOption(f"{text!r} is not a duration", hint="write it as 500ms, 10s, 5m or 2h")
    duration_s = float(match[1]) * UNIT_MS[match[2]] / 1000
    if duration_s > _MAX_DURATION_S:
        raise BadOption(f"{text[:100]} is too long: use 30 years at most", hint="write it as 500ms, 10s, 5m or 2h")
    return duration_s


def format_time(time_ms: int) -> str:
    """Epoch ms → `2026-11-20T14:00:00.000Z`; a time beyond any calendar (Kafka allows any int64) → `NNN ms`."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(duration_s: float) -> str:
    """Seconds → `850 ms`, `12.3 s`, `4 min 05 s`, `3 h 20 min`, `2 d 4 h`."""
    if duration_s < 1:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
