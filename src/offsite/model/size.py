"""Sizes: integers of bytes inside, IEC units (`64MiB`) at the edges."""

from __future__ import annotations

import re

from offsite.model.errors import BadOption

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def format_size(size_bytes: float) -> str:
    """Bytes → `1.5 GiB`, three significant digits at most."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([kmgt]?)(i?)b", re.IGNORECASE | re.ASCII)
_POWERS = ("", "k", "m", "g", "t")


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


LEAST_RATE = 10_000
"""The lowest limit, in bytes per second: below, a single batch would take hours."""

MOST_RATE = 1_000 * 1000**4
"""The highest limit, in bytes per second: far above, the share of half a second is no 64-bit number."""
