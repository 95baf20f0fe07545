"""Sizes: integers of bytes inside, IEC units (`64MiB`) at the edges."""

from __future__ import annotations

import re

from offsite.model.errors import BadOption

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "kb": 1000, "mb": 1000**2, "gb": 1000**3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


def parse_size(text: str) -> int:
    """`64MiB`, `1.5 GiB`, `500MB` or plain bytes → bytes. Raises `BadOption`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise BadOption(f"{text!r} is not a size", hint="write it as 64MiB, 1.5GiB or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def format_size(size_bytes: float) -> str:
    """Bytes → `1.5 GiB`, three significant digits at most."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
