"""A restore in three steps: choice, plan, proof. No state between the steps: the form holds the choice, the page of
the plan holds the plan and its confirmation. A failed restore links back to its form: the same words continue it.

The form works without scripts: its buttons search, turn pages, zoom and tick, and send all that was chosen along. No
page waits for a cluster, but that of the plan.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from offsite.groups.report import ShownGroup, ShownTopic, show_groups
from offsite.jobs.status import JobReport
from offsite.model.errors import BadOption, JobNotFound, OffsiteError, TargetNotEmpty
from offsite.model.names import is_backup_name
from offsite.model.selection import ALL_GROUPS, join_patterns
from offsite.model.units import format_time
from offsite.model.version import __version__
from offsite.overview.comparison import SourceComparison, TopicComparison
from offsite.overview.contents import TopicDetail, find_default, show_topics
from offsite.overview.restore_choice import (
    RestoreChoice,
    TargetNames,
    choice_words,
    chosen_topics,
    proposed_name,
    read_choice,
    taken_names,
)
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, get_outcome
from offsite.repository.state import BackupState
from offsite.restore.pace import describe_time, measured_restores
from offsite.restore.restore_report import restore_page
from offsite.serve.pages.jobs import begin_and_redirect, has_restore_report, redirect_repeated
from offsite.serve.pages.look import read_line
from offsite.serve.pages.page import page, read_form
from offsite.serve.pages.time_line import drawn, group_view, parse_view
from offsite.serve.site import SOURCE, Site
from offsite.serve.v1.jobs import JobId, seen_job
from offsite.serve.v1.requests import BackupName, TheCaller, TheSite, check_bounded, sent_words, site_of
from offsite.serve.v1.restores import (
    ConfirmableRestore,
    RestoreBody,
    check_restore,
    make_restore_plan,
    make_restore_request,
)

ROWS = 50
"""Topics, and offsets of groups, of one page: each topic has a box and a field, and a form has few fields."""
PATTERNS_MAX = 50
_GLOB = frozenset("*?[")
_COMMAND_MAX = 20_000
_TICK, _UNTICK, _PAGE, _VIEW = "tick", "untick", "page-", "view-"

router = APIRouter(include_in_schema=False)

Form = Annotated[dict[str, str], Depends(read_form)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic of the form: as in the backup, at its source (None: unknown), ticked or not, and its name in the
    target."""

    topic: TopicDetail
    now: TopicComparison | None
    is_ticked: bool
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreForm:
    """The form of a restore. `rows`: those of page `number` of `pages`, out of `matching` topics whose name contains
    `find`. `chosen`: all chosen topics; `kept`: the ticked ones of other pages. `view`: the part of the line of time
    that is shown."""

    choice: RestoreChoice
    rows: Sequence[TopicRow]
    names: Mapping[str, str]
    chosen: Sequence[str]
    kept: Sequence[str]
    matching: int
    find: str
    number: int
    pages: int
    view: str

    @property
    def named(self) -> str:
        """The edited names of topics on other pages."""
        listed = {row.topic.topic for row in self.rows}
        return ",".join(f"{topic}={name}" for topic, name in self.choice.named.items() if topic not in listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A backup as the form shows it: its newest readable state, and the names of its topics."""

    site: Site
    backup: str
    state: BackupState
    topics: frozenset[str]

    @classmethod
    def of(cls, site: Site, backup: str) -> _Opened:
        state = site.cached_backup(backup).readable_state()
        return cls(site=site, backup=backup, state=state, topics=frozenset(state.latest_shapes()))

    def source(self, target: str) -> SourceComparison | None:
        """What is known of the topics in the cluster `target`: nothing of others than the source."""
        return None if self.site.watch is None or target != SOURCE else self.site.watch.comparison(self.backup)

    def choice(self, fields: Mapping[str, str]) -> RestoreChoice:
        taken = taken_names(self.source(fields.get("target_before", fields.get("target", SOURCE))))
        return read_choice(fields, self.topics, taken, check_bounded=_check_few)


def _check_few(words: Mapping[str, Any]) -> None:
    """As `check_bounded`, and few: a link is enough to have all topics searched for each pattern."""
    check_bounded(words)
    patterns = [part for parts in words.values() for part in parts or () if not _GLOB.isdisjoint(part)]
    if len(patterns) > PATTERNS_MAX:
        raise BadOption(
            f"the form takes {PATTERNS_MAX} patterns, and not {len(patterns):,}", hint="name topics, or tick them"
        )


@router.get("/backups/{backup}/restore")
def choose(request: Request, site: TheSite, backup: BackupName) -> Response:
    return _form(request, _Opened.of(site, backup), dict(request.query_params))


@router.get("/backups/{backup}/restore/{step}")
def begin_again(site: TheSite, backup: BackupName, step: str) -> Response:  # noqa: ARG001  # any step
    """The address of an answer to a form, asked for again."""
    form = site.address(f"/backups/{quote(backup, safe='')}/restore")
    return RedirectResponse(form, status_code=HTTPStatus.SEE_OTHER)


@router.post("/backups/{backup}/restore/choice")
def choose_more(request: Request, site: TheSite, backup: BackupName, form: Form) -> Response:
    return _form(request, _Opened.of(site, backup), form)


@router.post("/backups/{backup}/restore/plan")
def plan(request: Request, site: TheSite, backup: BackupName, form: Form) -> Response:
    opened, target = _Opened.of(site, backup), form.get("target", SOURCE)
    taken = taken_names(opened.source(target))
    try:
        choice = opened.choice(form)
        words = choice_words(choice, opened.topics, taken)
        confirmable = make_restore_plan(site, backup, words, target)
    except OffsiteError as error:
        there = _names_there(site, target, error)
        problem = f"{error.message}; free names are proposed below" if there else _told(error)
        return _form(request, opened, form, problem, there=there)
    return _plan(request, backup, confirmable, target, choice=choice)


def _told(error: OffsiteError) -> str:
    return f"{error.message}{'; ' if error.hint else ''}{error.hint}"


def _names_there(site: Site, target: str, error: OffsiteError) -> frozenset[str]:
    """The topics of a cluster that has some of the names already: then others are proposed."""
    if isinstance(error, TargetNotEmpty):
        with suppress(OffsiteError):
            return frozenset(site.cluster(target).admin.topics())
    return frozenset()


@router.post("/backups/{backup}/restore")
def restore(request: Request, site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    confirmed = _planned(form.get("plan", ""))
    words, target = sent_words(confirmed, but=("target", "confirmation")), confirmed.target
    job_request = make_restore_request(caller, backup, words, target)
    if (same := redirect_repeated(site, job_request, form)) is not None:
        return same  # the second of two clicks: a started restore could not be planned again
    confirmable = make_restore_plan(site, backup, words, target)
    check_restore(confirmable, words, confirmed.confirmation)
    if form.get("name", "").strip() != confirmable.plan.cluster_id:
        problem = "This is not the id of the cluster: nothing was done."
        return _plan(request, backup, confirmable, target, choice=_choice_of(site, backup, words), problem=problem)
    return begin_and_redirect(site, job_request, site.cluster_address(target), form)


def _choice_of(site: Site, backup: str, words: Mapping[str, Any]) -> RestoreChoice:
    """The choice that words of a plan mean, for the way back to the form."""
    texts = {name: join_patterns(value) if isinstance(value, list) else str(value) for name, value in words.items()}
    return _Opened.of(site, backup).choice(texts)


def _plan(  # noqa: PLR0913  # what the page shows
    request: Request,
    backup: str,
    confirmable: ConfirmableRestore,
    target: str,
    *,
    choice: RestoreChoice,
    problem: str = "",
) -> Response:
    sent = json.dumps({**confirmable.words, "target": target, "confirmation": confirmable.confirmation})
    return page(
        request,
        "restore_plan.html",
        backup=backup,
        plan=confirmable.plan,
        target=target,
        command=confirmable.command,
        sent=sent,
        problem=problem,
        choice=choice,
        at=confirmable.words.get("at", ""),
        time=_time(site_of(request), backup, confirmable),
    )


def _time(site: Site, backup: str, confirmable: ConfirmableRestore) -> str:
    plan = confirmable.plan
    try:
        return describe_time(measured_restores(site.backup(backup), plan.cluster_id), plan.bytes)
    except OffsiteError as error:
        return f"unknown: {error.message}"


def _planned(text: str) -> RestoreBody:
    try:
        return RestoreBody.model_validate_json(text)
    except ValueError as error:
        raise BadOption("this plan is not from this server", hint="begin again with the first step") from error


def _form(
    request: Request,
    opened: _Opened,
    fields: Mapping[str, str],
    problem: str = "",
    *,
    there: frozenset[str] = frozenset(),
) -> Response:
    """The form as filled in. What cannot be read is told, and left out. `there`: the topics that the target turned out
    to have: the chosen ones among them get free names."""
    clusters = sorted(opened.site.settings.addresses)
    fields = {"target": SOURCE if SOURCE in clusters else next(iter(clusters), ""), **fields}
    try:
        form = _filled(opened, _renamed(opened.choice(fields), opened, there), fields)
    except OffsiteError as error:
        problem = problem or _told(error)
        kept = {name: text for name, text in fields.items() if name not in {"topics", "rename"}}
        form = _filled(opened, opened.choice(kept), kept)
        form = replace(form, choice=replace(form.choice, rename=fields.get("rename", "")))
    groups, more_groups = _groups_of(opened, form)
    line = read_line(opened.site, opened.backup, parse_view(form.view))
    return page(
        request,
        "restore.html",
        backup=opened.backup,
        form=form,
        choice=form.choice,
        commit=opened.state.seq,
        default=find_default(opened.site.cached_backup(opened.backup), opened.state),
        total=len(opened.topics),
        drawn=drawn(line),
        listed_commits={str(group.newest.seq) for group in line.groups},
        view_of=group_view,
        groups=groups,
        more_groups=more_groups,
        clusters=clusters,
        problem=problem,
    )


def _renamed(choice: RestoreChoice, opened: _Opened, there: frozenset[str]) -> RestoreChoice:
    if not there:
        return choice
    chosen = chosen_topics(choice, opened.topics)
    names = TargetNames(rename=choice.rename, taken=frozenset()).of(chosen) | dict(choice.named)
    free = {topic: proposed_name(topic, there | {names[topic]}) for topic in chosen if names[topic] in there}
    return replace(choice, named={**choice.named, **free})


def _filled(opened: _Opened, choice: RestoreChoice, fields: Mapping[str, str]) -> RestoreForm:
    topics, find = opened.topics, fields.get("find", "").strip()[:300]
    act = fields.get("do", "")
    matching = [name for name in topics if find in name]
    if act in {_TICK, _UNTICK}:
        choice = _ticked(choice, matching, topics, is_tick=act == _TICK)
    matching.sort(key=lambda name: (not choice.includes(name), name))
    pages = max(1, -(-len(matching) // ROWS))
    number = _page_of(act, fields) if find == fields.get("found", find) else 1
    number = min(max(1, number), pages)
    listed = matching[(number - 1) * ROWS : number * ROWS]
    chosen = chosen_topics(choice, topics)
    details = show_topics(opened.state, listed)
    source = opened.source(choice.target)
    names = TargetNames(rename=choice.rename, taken=taken_names(source))
    now = {topic.topic: topic for topic in source.topics} if source is not None else {}
    shown = names.of({*listed, *islice(chosen, 3)}) | dict(choice.named)
    return RestoreForm(
        choice=choice,
        rows=[
            TopicRow(topic=details[name], now=now.get(name), is_ticked=choice.includes(name), name=shown[name])
            for name in listed
        ],
        names=shown,
        chosen=chosen,
        kept=sorted(choice.picked.difference(listed)),
        matching=len(matching),
        find=find,
        number=number,
        pages=pages,
        view=_view_of(act, fields),
    )


def _ticked(choice: RestoreChoice, matching: Sequence[str], topics: Collection[str], *, is_tick: bool) -> RestoreChoice:
    """All of `matching` ticked or unticked. Where all topics were chosen, a tick begins anew, and the rest is left."""
    if is_tick:
        picked = frozenset(matching) if choice.is_all else choice.picked.union(matching)
    else:
        picked = frozenset(chosen_topics(choice, topics)).difference(matching)
    return replace(choice, picked=picked, is_all=False, topics="")


def _page_of(act: str, fields: Mapping[str, str]) -> int:
    text = act.removeprefix(_PAGE) if act.startswith(_PAGE) else fields.get("number", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 1


def _view_of(act: str, fields: Mapping[str, str]) -> str:
    view = act.removeprefix(_VIEW) if act.startswith(_VIEW) else fields.get("view", "")
    return view if parse_view(view) != (None, None) else ""


def _groups_of(opened: _Opened, form: RestoreForm) -> tuple[Sequence[tuple[ShownGroup, ShownTopic]], int]:
    """The groups on the chosen topics as of the newest commit, and how many rows are left out. An earlier state takes a
    second to read where the backup is large: the plan has its groups."""
    backup = opened.site.cached_backup(opened.backup).for_reading(is_named=True)
    chosen = frozenset(form.chosen)
    try:
        report = show_groups(backup, groups=ALL_GROUPS)
    except OffsiteError:  # the plan tells why
        return (), 0
    rows = [(group, topic) for group in report.groups for topic in group.topics if topic.topic in chosen]
    return rows[:ROWS], max(0, len(rows) - ROWS)


@router.get("/jobs/{job}/proof.html")
def proof(site: TheSite, job: JobId) -> Response:
    """The proof of a restore as one file. Its style is inside, so a browser stores it instead of showing it here."""
    report = seen_job(site, job)
    if not has_restore_report(report):
        raise JobNotFound(f"job {job} has no proof of a restore", hint="see the page of the job")
    result = cast("dict[str, object]", report.result)
    named = {
        "Repository": site.repository().store.url,
        "Restored to": report.cluster or "-",
        "Requested, ended": f"{format_time(report.asked_at_ms)} by {report.asked_by}, "
        f"{format_time(report.ended_at_ms)} (the repository's clock)",
        "Job": f"{report.id}, as offsite serve {__version__} read it from the repository",
        "Command": shlex.join(["offsite", *report.arguments])[:_COMMAND_MAX],
    }
    text = restore_page(result, _outcome(site, report), named)
    kept = {"Content-Disposition": f'attachment; filename="restore-{report.id}.html"'}
    return HTMLResponse(text, headers=kept)


def _outcome(site: Site, job: JobReport) -> RestoreOutcome | None:
    """The stored report of the restore of a job, for its digests; None where it cannot be read here."""
    result = cast("dict[str, object]", job.result)
    restore = result.get("restore")
    if not isinstance(restore, str) or not is_backup_name(restore):
        return None
    try:
        backup = site.backup(job.backup)
        return get_outcome(backup.record_store, RestoreLayout(backup=backup.layout, restore=restore))
    except OffsiteError:
        return None
