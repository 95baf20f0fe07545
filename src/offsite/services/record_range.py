"""From where to where records are shown, as a person writes it: offsets and times, `[from, to)`."""

from __future__ import annotations

from offsite.model.time import parse_time
from offsite.pipeline.table.row_filter import RowFilter


def parse_rows(start: str | None, end: str | None, *, now_ms: int) -> RowFilter:
    """A number is an offset, everything else a time (`@1700000000000` is one in epoch ms). Raises `BadOption`."""
    rows = RowFilter()
    if start is not None:
        rows = rows.from_offset(int(start)) if start.isdecimal() else rows.since(_time_ms(start, now_ms))
    if end is not None:
        rows = rows.below_offset(int(end)) if end.isdecimal() else rows.until(_time_ms(end, now_ms) - 1)
    return rows


def _time_ms(text: str, now_ms: int) -> int:
    return parse_time(text.removeprefix("@"), now_ms=now_ms)
