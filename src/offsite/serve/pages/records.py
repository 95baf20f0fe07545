"""Pages of records: some in order with a search, and one with its place in the log."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import RedirectResponse

from offsite.model.bounds import parse_number
from offsite.model.errors import BadOption, UserError
from offsite.model.names import amount
from offsite.model.selection import split_patterns, to_arguments
from offsite.serve.pages.jobs import Form
from offsite.serve.pages.page import ONCE, page
from offsite.serve.pages.shown_text import ShownText, hex_of, size_of, text_of, time_of
from offsite.serve.site import SOURCE, Site
from offsite.serve.v1.records import (
    RECORD_PATH,
    RecordAddress,
    RecordsQuery,
    SearchBody,
    TheRecord,
    begin_search,
    read_record_noted,
    read_records,
)
from offsite.serve.v1.requests import BackupName, TheCaller, TheSite
from offsite.table.one_record import Neighbour, PassedOffsets
from offsite.table.record_detail import FoundRecord, RecordDetail
from offsite.table.shown_record import ShownRecord

router = APIRouter(include_in_schema=False)

_RECORDS_SHOWN = 50
_TEXT_MAX = 400
_KEY_MAX, _VALUE_MAX = 2_000, 12_000
_HEADERS_SHOWN, _HEADER_MAX = 30, 200

SEARCH_FIELDS = ("key", "key_hex", "value", "start", "end")
OUTCOMES = {
    "committed": "committed",
    "aborted": "aborted: a consumer of committed records does not see it",
    "open": "open: the backup has no end of it; a consumer of committed records does not see it",
    "unknown": "unknown: its end may be among offsets that the source had lost, so it counts as not committed",
}


class RecordsForm(BaseModel):
    """The form of the records page, as typed."""

    topic: Annotated[str, Field(max_length=300)] = ""
    partition: Annotated[str, Field(max_length=20)] = ""
    start: Annotated[str, Field(max_length=100)] = ""
    end: Annotated[str, Field(max_length=100)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """`path`: the address of the record below the records of the backup."""

    place: str
    path: str
    time: str
    key: ShownText
    value: ShownText
    headers: int


@router.get("/backups/{backup}/records")
def records(
    request: Request, site: TheSite, caller: TheCaller, backup: BackupName, form: Annotated[RecordsForm, Query()]
) -> Response:
    shown: list[ShownRecord] = []
    problem, command = "", ""
    site.backup(backup)
    if form.topic:
        try:
            query = _records_query(form)
            shown, command = read_records(site, caller, backup, query), _cat_some(backup, query)
        except (UserError, ValidationError) as error:
            problem = error.message if isinstance(error, UserError) else "There is no such topic or partition."
    return page(
        request,
        "records.html",
        backup=backup,
        asked=form,
        records=[_row(record) for record in shown],
        more=_more(form, shown),
        problem=problem,
        command=command,
    )


def _records_query(form: RecordsForm) -> RecordsQuery:
    partition = parse_number(form.partition, "partition")
    return RecordsQuery(
        topic=form.topic,
        partition=partition,
        start=form.start.strip() or None,
        end=form.end.strip() or None,
        limit=_RECORDS_SHOWN,
    )


def _row(record: ShownRecord) -> RecordRow:
    return RecordRow(
        place=f"{record.partition}/{record.offset}",
        path=f"{record.topic}/{record.partition}/{record.offset}",
        time=time_of(record.timestamp_ms),
        key=text_of(record.key, most=_TEXT_MAX),
        value=text_of(record.value, most=_TEXT_MAX),
        headers=len(record.headers),
    )


def _more(form: RecordsForm, shown: list[ShownRecord]) -> dict[str, str] | None:
    """Where the list goes on: in the partition of the last record."""
    if not shown:
        return None
    last = shown[-1]
    words = {"topic": last.topic, "partition": last.partition, "start": last.offset + 1, "end": form.end}
    return {"query": urlencode(words), "place": f"{last.topic}/{last.partition}@{last.offset + 1}"}


def _cat_some(backup: str, query: RecordsQuery) -> str:
    where = query.topic if query.partition is None else f"{query.topic}/{query.partition}"
    options = to_arguments({"backup": backup, "from": query.start, "to": query.end, "limit": query.limit})
    return shlex.join(["offsite", "cat", where, *options])


@router.post("/backups/{backup}/searches")
def search(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    words: dict[str, Any] = {name: text for name in SEARCH_FIELDS if (text := form.get(name, "").strip())}
    words |= {name: [text] for name in ("header", "where") if (text := form.get(name, "").strip())}
    limit = parse_number(form.get("limit", ""), "limit")
    words |= {"topics": split_patterns(form.get("topic", "")), **({} if limit is None else {"limit": limit})}
    try:
        body = SearchBody.model_validate(words)
    except ValueError as error:
        raise BadOption(
            "a field of the search is too long, or its limit is not between 1 and 10,000",
            hint="give shorter texts, or another limit",
        ) from error
    ticket = begin_search(site, caller, backup, body, word=form.get(ONCE) or None)
    return RedirectResponse(site.address(f"/jobs/{ticket.id}"), status_code=HTTPStatus.SEE_OTHER)


@router.get(RECORD_PATH)
def record(request: Request, site: TheSite, caller: TheCaller, address: TheRecord) -> Response:
    found_record = read_record_noted(site, caller, address)
    detail = found_record.detail
    return page(
        request,
        "record.html",
        backup=address.backup,
        detail=detail,
        as_of="" if address.commit is None else f"?commit={address.commit}",
        absent=_absent(detail),
        shown=None if found_record.stored is None else _contents(found_record),
        outcome=OUTCOMES.get(detail.place.transaction, ""),
        previous=_beside(detail.place.previous, "before"),
        following=_beside(detail.place.next, "after"),
        holding=_holding(detail),
        deeper=_deeper(address, detail),
        kcat=_kcat(site, detail),
        cat=_cat_one(site, detail, address.commit),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContents:
    """A record for its page. `headers`: the first ones, as name and text; `more_headers` are not shown."""

    time: str
    kind: str
    key: ShownText
    value: ShownText
    headers: tuple[tuple[ShownText, ShownText], ...]
    more_headers: int
    key_size: str
    value_size: str
    key_hex: str
    value_hex: str
    has_key: bool
    has_value: bool


def _contents(found_record: FoundRecord) -> RecordContents:
    stored, shown = found_record.stored, found_record.detail.record
    assert stored is not None  # noqa: S101  # the caller asked
    large = ShownText(text="It is too large to be decoded here.", form="large")
    headers = () if shown is None else shown.headers
    return RecordContents(
        time=time_of(stored.timestamp_ms),
        kind="when the broker appended it" if stored.timestamp_type else "as its producer says",
        key=text_of(shown.key, most=_KEY_MAX, indent=2) if shown else large,
        value=text_of(shown.value, most=_VALUE_MAX, indent=2) if shown else large,
        headers=tuple(
            (ShownText(text=header.name[:_HEADER_MAX]), text_of(header.value, most=_HEADER_MAX))
            for header in headers[:_HEADERS_SHOWN]
        ),
        more_headers=max(0, len(stored.headers) - _HEADERS_SHOWN) if shown else len(stored.headers),
        key_size=size_of(stored.key),
        value_size=size_of(stored.value),
        key_hex=hex_of(stored.key),
        value_hex=hex_of(stored.value),
        has_key=stored.key is not None,
        has_value=stored.value is not None,
    )


def _absent(detail: RecordDetail) -> str:
    """Why no record is at the offset; empty: one is there."""
    place = detail.place
    if place.batch is not None:
        return ""
    if place.marker:
        return f"No record is here: it is the end of a transaction ({place.marker})."
    if detail.offset >= place.end:
        return f"The backup has this partition up to offset {place.end} (not included), as of commit {detail.commit}."
    if detail.offset < place.start:
        return f"The backup has this partition from offset {place.start} on, as of commit {detail.commit}."
    return f"No record is here: {_why(place.passed)}." if place.passed else "No record is here."


def _why(passed: PassedOffsets) -> str:
    if passed.why == "hole":
        return f"lost at the source before the copy ({passed.reason})"
    if passed.why == "marker":
        return "the end of a transaction"
    return "without a record: compaction removed it, or it was never written"


def _beside(neighbour: Neighbour, side: str) -> tuple[str, ...]:
    """What lies between a record and its neighbour, or why there is none."""
    if neighbour.offset is None:
        if neighbour.looked_to is None:
            return (f"the backup has no record {side} this one",)
        return (f"no record {side} this one up to offset {neighbour.looked_to}; further was not looked",)
    return tuple(f"{_offsets(passed)}: {_why(passed)}" for passed in neighbour.passed)


def _offsets(passed: PassedOffsets) -> str:
    last = passed.end - 1
    return f"offset {last}" if passed.start == last else f"offsets {passed.start} to {last}"


def _holding(detail: RecordDetail) -> str:
    points = detail.points
    if points is None:
        return ""
    since = f"commit {points.since} ({time_of(points.since_ms)})"
    span = f"{amount(points.count, 'restore point')}, from {since} to commit {points.upto}"
    return f"{span}; earlier ones may, too: their commits were not read" if points.is_open else span


def _deeper(address: RecordAddress, detail: RecordDetail) -> str:
    """The query that reads more commits back; empty: it would tell nothing new."""
    if address.deep or detail.points is None or not detail.points.is_open:
        return ""
    return urlencode({"deep": "true", **({} if address.commit is None else {"commit": address.commit})})


def _kcat(site: Site, detail: RecordDetail) -> str:
    source = site.settings.addresses.get(SOURCE)
    brokers = source.bootstrap if source is not None and source.bootstrap else "HOST:PORT"
    words = ["kcat", "-C", "-b", brokers, "-t", detail.topic, "-p", str(detail.partition), "-o", str(detail.offset)]
    hidden = ["-X", "isolation.level=read_uncommitted"] if _is_hidden(detail) else []
    return shlex.join([*words, "-c", "1", *hidden])


def _is_hidden(detail: RecordDetail) -> bool:
    return detail.place.transaction not in {"", "committed"}


def _cat_one(site: Site, detail: RecordDetail, commit: int | None) -> str:
    options = to_arguments(
        {
            "repo": site.settings.repo,
            "backup": detail.backup,
            "from": detail.offset,
            "to": detail.offset + 1,
            "commit": commit,
            "isolation": "read_uncommitted" if _is_hidden(detail) else None,
        }
    )
    return shlex.join(["offsite", "cat", f"{detail.topic}/{detail.partition}", *options])
