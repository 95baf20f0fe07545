"""Pages that show a repository and its backups."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, ValidationError

from offsite.checkpoint.explain import Explanation, explain_checkpoint
from offsite.checkpoint.status import CheckpointReport, Checkpoints, check_exists
from offsite.groups.report import show_groups
from offsite.model.errors import UserError
from offsite.model.selection import ALL_GROUPS
from offsite.overview.contents import show_backup
from offsite.overview.declared.status import read_declared_status
from offsite.overview.status_page import describe_checks, read_glances
from offsite.reports.html_page import places
from offsite.repository.backup import Backup
from offsite.serve.pages.coverage import make_bars
from offsite.serve.pages.forms import parse_number
from offsite.serve.pages.templates import page
from offsite.serve.site import Site
from offsite.serve.v1.context import BackupName, CheckpointId, TheCaller, TheSite
from offsite.serve.v1.letting_go import make_retention_plan
from offsite.serve.v1.records import RecordsQuery, read_records
from offsite.serve.v1.words import to_arguments
from offsite.table.shown_record import ShownBytes, ShownRecord

router = APIRouter(include_in_schema=False)

TAGS = {"completed": "good", "succeeded": "good", "failed": "bad", "lost": "bad"}
_TOPICS_SHOWN = 100
_POINTS_SHOWN = 100
_ROWS_SHOWN = 300
_RECORDS_SHOWN = 50
_TEXT_MAX = 400
_PAGES_SHOWN = 40

Text = Annotated[str, Query(max_length=300)]


@router.get("/")
def overview(request: Request, site: TheSite) -> Response:
    status = site.status()
    return page(
        request,
        "overview.html",
        found=status,
        repo=status.repository,
        unsafe=sum(not backup.safe for backup in status.backups),
        oldest_s=max((max(0, backup.age_s) for backup in status.backups), default=0),
        checks={backup.backup: describe_checks(backup.checks) for backup in status.backups},
        glances=read_glances(status, site.cached_backup),
    )


@router.get("/declared")
def declared(request: Request, site: TheSite) -> Response:
    return page(request, "declared.html", found=read_declared_status(site.repository().store))


@router.get("/metastores")
def metastores(request: Request, site: TheSite) -> Response:
    return page(request, "metastores.html", found=site.metastores())


@router.get("/backups/{backup}")
def topics(
    request: Request,
    site: TheSite,
    backup: BackupName,
    find: Text = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    detail = show_backup(site.cached_backup(backup))
    matching = [topic for topic in detail.topics if find in topic.topic]
    pages = max(1, -(-len(matching) // _TOPICS_SHOWN))
    first = (min(number, pages) - 1) * _TOPICS_SHOWN
    shown = matching[first : first + _TOPICS_SHOWN]
    return page(
        request,
        "backup.html",
        backup=backup,
        detail=detail,
        topics=shown,
        bars=make_bars(shown, detail.holes),
        find=find,
        total=len(matching),
        first=first + 1 if shown else 0,
        page=min(number, pages),
        pages=pages,
        shown_pages=range(1, min(pages, _PAGES_SHOWN) + 1),
    )


@router.get("/backups/{backup}/points")
def points(request: Request, site: TheSite, backup: BackupName) -> Response:
    state = site.cached_backup(backup).readable_state()
    shown = list(state.history[-_POINTS_SHOWN:])[::-1]
    spots = places([point.committed_at_ms for point in shown]) if shown else []
    return page(
        request,
        "points.html",
        backup=backup,
        points=shown,
        total=len(state.history),
        first_ms=state.history.first_ms,
        last_ms=state.committed_at_ms,
        at={point.seq: spot for point, spot in zip(shown, spots, strict=True)},
        pins={pin.seq: f"pinned: {pin.reason}" for pin in state.pins},
    )


@router.get("/backups/{backup}/checkpoints")
def checkpoints(request: Request, site: TheSite, backup: BackupName) -> Response:
    listed = Checkpoints(_read(site, backup)).list(most=_POINTS_SHOWN)
    return page(request, "checkpoints.html", backup=backup, found=listed, tags=TAGS)


@router.get("/backups/{backup}/checkpoints/{checkpoint}")
def checkpoint(request: Request, site: TheSite, backup: BackupName, checkpoint: CheckpointId) -> Response:
    report = check_exists(Checkpoints(_read(site, backup)).report(checkpoint))
    explained = _explained(site, report)
    return page(request, "checkpoint.html", backup=backup, report=report, explained=explained, tags=TAGS)


@router.get("/backups/{backup}/groups")
def groups(request: Request, site: TheSite, backup: BackupName) -> Response:
    report = show_groups(_read(site, backup), groups=ALL_GROUPS)
    rows = [(group, topic) for group in report.groups for topic in group.topics]
    more = max(0, len(rows) - _ROWS_SHOWN)
    return page(request, "groups.html", backup=backup, found=report, rows=rows[:_ROWS_SHOWN], more=more)


@router.get("/backups/{backup}/retention")
def retention(
    request: Request, site: TheSite, backup: BackupName, keep_age: Text = "", keep_daily: Text = ""
) -> Response:
    words: dict[str, Any] = {"keep_age": keep_age.strip() or None, "keep_daily": parse_number(keep_daily, "days")}
    words = {name: value for name, value in words.items() if value is not None}
    plan = make_retention_plan(site, backup, words).plan
    command = shlex.join(["offsite", "retention", "apply", *to_arguments({"backup": backup, **words})])
    return page(request, "retention.html", backup=backup, plan=plan, words=words, command=command)


class RecordsForm(BaseModel):
    """The form of the records page, as typed."""

    topic: Annotated[str, Field(max_length=300)] = ""
    partition: Annotated[str, Field(max_length=20)] = ""
    start: Annotated[str, Field(max_length=100)] = ""


@router.get("/backups/{backup}/records")
def records(
    request: Request, site: TheSite, caller: TheCaller, backup: BackupName, form: Annotated[RecordsForm, Query()]
) -> Response:
    shown, problem, command = [], "", ""
    opened = site.cached_backup(backup)
    if form.topic:
        try:
            query = _records_query(form)
            shown, command = [_row(record) for record in read_records(opened, query, caller)], _cat(backup, query)
        except (UserError, ValidationError) as error:
            problem = str(error) if isinstance(error, UserError) else "There is no such topic or partition."
    return page(request, "records.html", backup=backup, asked=form, records=shown, problem=problem, command=command)


def _records_query(form: RecordsForm) -> RecordsQuery:
    partition = parse_number(form.partition, "partition")
    return RecordsQuery(topic=form.topic, partition=partition, start=form.start or None, limit=_RECORDS_SHOWN)


def _cat(backup: str, query: RecordsQuery) -> str:
    where = query.topic if query.partition is None else f"{query.topic}/{query.partition}"
    options = to_arguments({"backup": backup, "from": query.start, "limit": query.limit})
    return shlex.join(["offsite", "cat", where, *options])


def _explained(site: Site, report: CheckpointReport) -> Explanation | None:
    return explain_checkpoint(_read(site, report.backup), report.id) if report.commit else None


def _read(site: Site, backup: str) -> Backup:
    """Open a backup to show its readable parts: a page names its subject, and the overview reports unreadable parts."""
    return site.cached_backup(backup).for_reading(is_named=True)


def _row(record: ShownRecord) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
    }


def _text(shown: ShownBytes | None) -> str:
    if shown is None:
        return "null"
    text = shown.data if isinstance(shown.data, str) else json.dumps(shown.data, ensure_ascii=False)
    text = f"base64:{text}" if shown.encoding == "base64" else text
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(text):,} characters)"
