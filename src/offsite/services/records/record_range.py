"""From where to where records are shown, as a person writes it: offsets and times, `[from, to)`."""

from __future__ import annotations

from offsite.model.errors import BadOption
from offsite.model.time import parse_time
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.model.untrusted.whole_number import whole_number
from offsite.table.row_filter import RowFilter


def parse_rows(start: str | None, end: str | None, *, now_ms: int) -> RowFilter:
    """A number is an offset, everything else a time (`@1700000000000` is one in epoch ms). Raises `BadOption`."""
    rows = RowFilter()
    if start is not None:
        rows = rows.from_offset(_offset(start)) if start.isdecimal() else rows.since(_time_ms(start, now_ms))
    if end is not None:
        rows = rows.below_offset(_offset(end)) if end.isdecimal() else rows.until(_time_ms(end, now_ms) - 1)
    return rows


def _offset(text: str) -> int:
    offset = whole_number(text)
    if offset is None:
        raise BadOption(f"{text[:100]!r} is no offset", hint=f"the largest is {MAX_OFFSET}")
    return offset


def _time_ms(text: str, now_ms: int) -> int:
    return parse_time(text.removeprefix("@"), now_ms=now_ms)
