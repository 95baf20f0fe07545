"""Pages that show a repository and its backups.

The coverage of every topic is two bars: the covered share of its offsets with the holes, and the times of its
records beside the times of other topics.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from offsite.checkpoint.explain import Explanation, explain_report
from offsite.checkpoint.status import CheckpointReport, Checkpoints, check_exists
from offsite.groups.report import show_groups
from offsite.log.range import TopicPartition
from offsite.model.bounds import parse_number
from offsite.model.names import amount
from offsite.model.selection import ALL_GROUPS, to_arguments
from offsite.overview.contents import TopicDetail, show_backup
from offsite.overview.status import BackupStatus
from offsite.overview.status_page import describe_checks, read_glances
from offsite.overview.time_line import TimeLine, draw_time_line
from offsite.overview.verdict import backup_word, proving_command, rests_on, source_alarm, verdict_of
from offsite.reports.point_report import HoleReport
from offsite.repository.backup import Backup
from offsite.serve.pages.page import page
from offsite.serve.pages.time_line import drawn, group_view, parse_view
from offsite.serve.site import Site
from offsite.serve.v1.plans import make_retention_plan
from offsite.serve.v1.requests import BackupName, CheckpointId, TheSite

WIDTH = 240
_HOLES_MAX = 40

TAGS = {"completed": "good", "succeeded": "good", "failed": "bad", "lost": "bad"}
_TOPICS_SHOWN = 100
_COMPARED_SHOWN, _COMPARED_LEAST = 50, 5
"""Topics on the first page beside their source, the worst first: of all backups, and of each at least."""
_POINTS_SHOWN = 100
_ROWS_SHOWN = 300
_PAGES_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of `WIDTH`. `parts`: covered spans (start, width). `holes`: spans lost at the source. `times`: span of the
    record times, on one axis for all shown topics; None: no times."""

    topic: str
    parts: tuple[tuple[float, float], ...]
    holes: tuple[tuple[float, float], ...]
    times: tuple[float, float] | None
    described: str


def make_bars(topics: Sequence[TopicDetail], holes: Iterable[HoleReport]) -> dict[str, Bar]:
    """Make the bars by topic. The partitions of a topic follow each other, from offset 0 to the end of the
    partition."""
    lost: defaultdict[TopicPartition, list[HoleReport]] = defaultdict(list)
    for hole in holes:
        lost[TopicPartition(hole.topic, hole.partition)].append(hole)
    axis_ms = _axis(topics)
    return {topic.topic: _bar(topic, lost, axis_ms) for topic in topics}


def _axis(topics: Sequence[TopicDetail]) -> tuple[int, int]:
    timed = [topic for topic in topics if topic.oldest_record_ms >= 0]
    first_ms = min((topic.oldest_record_ms for topic in timed), default=0)
    return first_ms, max((topic.newest_record_ms for topic in timed), default=first_ms)


def _times(topic: TopicDetail, axis_ms: tuple[int, int]) -> tuple[float, float] | None:
    if topic.oldest_record_ms < 0:
        return None
    first_ms, last_ms = axis_ms
    length_ms = max(0, topic.newest_record_ms - topic.oldest_record_ms)
    start, width = _span(topic.oldest_record_ms - first_ms, length_ms, max(1, last_ms - first_ms))
    return min(start, WIDTH - width), width


def _bar(topic: TopicDetail, lost: dict[TopicPartition, list[HoleReport]], axis_ms: tuple[int, int]) -> Bar:
    total = sum(part.end for part in topic.partitions) or 1
    parts: list[tuple[float, float]] = []
    holes: list[tuple[float, float]] = []
    at = 0
    for part in topic.partitions:
        if part.end > part.start:
            parts.append(_span(at + part.start, part.end - part.start, total))
        topic_holes = lost.get(TopicPartition(topic.topic, part.partition), ())
        holes.extend(_span(at + hole.start, hole.end - hole.start, total) for hole in topic_holes)
        at += part.end
    count = len(holes)
    gone = f", {amount(count, 'hole')}" if count else ", no holes"
    backed_up = sum(part.end - part.start for part in topic.partitions)
    return Bar(
        topic=topic.topic,
        parts=tuple(parts),
        holes=tuple(holes[:_HOLES_MAX]),
        times=_times(topic, axis_ms),
        described=f"{backed_up:,} of {total if backed_up else 0:,} offsets{gone}",
    )


def _span(start: int, length: int, total: int) -> tuple[float, float]:
    return round(start * WIDTH / total, 1), round(max(0.5, length * WIDTH / total), 1)


router = APIRouter(include_in_schema=False)


Text = Annotated[str, Query(max_length=300)]


@router.get("/")
def overview(request: Request, site: TheSite) -> Response:
    status = site.status()
    shown = max(_COMPARED_LEAST, _COMPARED_SHOWN // max(1, len(status.backups)))
    return page(
        request,
        "overview.html",
        backups=sorted(status.backups, key=_is_quiet),
        repo=status.repository,
        verdict=verdict_of(status),
        alarm=source_alarm(status),
        words={backup.backup: backup_word(backup) for backup in status.backups},
        rests={backup.backup: rests_on(backup) for backup in status.backups},
        proving=proving_command,
        shown=shown,
        checks={backup.backup: describe_checks(backup.checks) for backup in status.backups},
        glances=read_glances(status, site.cached_backup, site.histories),
    )


def _is_quiet(backup: BackupStatus) -> tuple[bool, bool]:
    """Backups with a loss at their source come first, then those that need attention."""
    return backup.source is None or not backup.source.alarms, backup.safe


@router.get("/backups/{backup}/source")
def source(
    request: Request,
    site: TheSite,
    backup: BackupName,
    find: Text = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    site.backup(backup)
    compared = None if site.watch is None else site.watch.comparison(backup)
    matching = [topic for topic in compared.topics if find in topic.topic] if compared else []
    return page(request, "source.html", backup=backup, source=compared, find=find, **_topics_of_page(matching, number))


def _topics_of_page(matching: Sequence[object], number: int) -> dict[str, Any]:
    """The topics of page `number`, or of the last one, and what a page says of where it is."""
    pages = max(1, -(-len(matching) // _TOPICS_SHOWN))
    first = (min(number, pages) - 1) * _TOPICS_SHOWN
    return {
        "topics": matching[first : first + _TOPICS_SHOWN],
        "total": len(matching),
        "first": first + 1 if matching else 0,
        "page": min(number, pages),
        "pages": pages,
        "shown_pages": range(1, min(pages, _PAGES_SHOWN) + 1),
    }


@router.get("/declared")
def declared(request: Request, site: TheSite) -> Response:
    return page(request, "declared.html", found=site.declared())


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
    of_page = _topics_of_page(matching, number)
    bars = make_bars(of_page["topics"], detail.holes)
    return page(request, "backup.html", backup=backup, detail=detail, bars=bars, find=find, **of_page)


@router.get("/backups/{backup}/points")
def points(request: Request, site: TheSite, backup: BackupName, view: Text = "") -> Response:
    line = read_line(site, backup, parse_view(view))
    return page(request, "points.html", backup=backup, drawn=drawn(line), view_of=group_view)


def read_line(site: Site, backup: str, bounds: tuple[int | None, int | None]) -> TimeLine:
    """The restore points of a backup within `bounds` (epoch ms), with the marks that the newest status knows."""
    checks = next((status.checks for status in site.status().backups if status.backup == backup), None)
    state = site.cached_backup(backup).readable_state()
    return draw_time_line(state, checks, from_ms=bounds[0], to_ms=bounds[1])


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
    shares = [share for group in report.groups for share in group.share_positions]
    return page(request, "groups.html", backup=backup, found=report, rows=rows[:_ROWS_SHOWN], more=more, shares=shares)


@router.get("/backups/{backup}/retention")
def retention(
    request: Request, site: TheSite, backup: BackupName, keep_age: Text = "", keep_daily: Text = ""
) -> Response:
    words: dict[str, Any] = {"keep_age": keep_age.strip() or None, "keep_daily": parse_number(keep_daily, "days")}
    words = {name: value for name, value in words.items() if value is not None}
    plan = make_retention_plan(site, backup, words).plan
    command = shlex.join(["offsite", "retention", "apply", *to_arguments({"backup": backup, **words})])
    return page(request, "retention.html", backup=backup, plan=plan, words=words, command=command)


def _explained(site: Site, report: CheckpointReport) -> Explanation | None:
    return explain_report(_read(site, report.backup), report) if report.commit else None


def _read(site: Site, backup: str) -> Backup:
    """Open a backup to show its readable parts: a page names its subject, and the overview reports unreadable parts."""
    return site.cached_backup(backup).for_reading(is_named=True)
