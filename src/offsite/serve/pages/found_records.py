"""The result of a search on the page of its job: the records with links to their pages, and whether these are all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from offsite.jobs.ask import SEARCH
from offsite.jobs.status import JobReport
from offsite.model.bounds import MAX_OFFSET
from offsite.model.names import amount
from offsite.model.units import format_size
from offsite.serve.looks import place_in
from offsite.serve.pages.shown_text import text_in_json, time_of

_SHOWN_MAX = 100
_TEXT_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A record. `href`: its page, without the base."""

    place: str
    href: str
    time: str
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecords:
    """`said`: how far the search came. `is_whole`: everything was searched. `left_out`: records that are not shown."""

    rows: tuple[FoundRow, ...]
    said: str
    is_whole: bool
    left_out: int


def found_records(job: JobReport, *, may_see: bool) -> FoundRecords | None:
    """The records of a search that ended; None for other jobs. What the result says comes from the repository, and may
    be anything."""
    result = job.result
    records = result.get("records") if isinstance(result, Mapping) else None
    if job.kind != SEARCH or not may_see or not isinstance(result, Mapping) or not isinstance(records, list):
        return None
    rows = [_row(job.backup, record) for record in records[:_SHOWN_MAX]]
    is_whole = result.get("complete") is True
    return FoundRecords(
        rows=tuple(row for row in rows if row is not None),
        said=_said(result, len(records), is_whole=is_whole),
        is_whole=is_whole,
        left_out=max(0, len(records) - _SHOWN_MAX),
    )


def _said(result: Mapping[str, object], count: int, *, is_whole: bool) -> str:
    matching = amount(count, "record")
    if is_whole:
        return f"{matching} match. Everything was searched."
    searched, total = _bytes(result.get("searched_bytes")), _bytes(result.get("total_bytes"))
    if searched is None or total is None:
        return f"{matching}. The result does not say whether these are all."
    return (
        f"{matching}, not all that match: the search stopped at its limit. It searched at most "
        f"{format_size(searched)} of {format_size(total)}."
    )


def _bytes(amount_said: object) -> int | None:
    return amount_said if isinstance(amount_said, int) and 0 <= amount_said <= MAX_OFFSET else None


def _row(backup: str, record: object) -> FoundRow | None:
    place = place_in(record)
    if place is None or not isinstance(record, Mapping):
        return None
    topic, partition, offset = place
    time_ms = record.get("timestamp_ms")
    return FoundRow(
        place=f"{topic}/{partition}@{offset}",
        href=f"/backups/{quote(backup, safe='')}/records/{topic}/{partition}/{offset}",
        time=time_of(time_ms) if isinstance(time_ms, int) else "",
        key=text_in_json(record.get("key"), most=_TEXT_MAX),
        value=text_in_json(record.get("value"), most=_TEXT_MAX),
    )
