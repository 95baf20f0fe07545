"""Several repositories beside each other, the worst first: one row for each, as shown by the start page, the command
line and JSON alike. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offsite.model.names import amount, named
from offsite.model.units import format_duration
from offsite.overview.comparison import TopicState
from offsite.overview.status import Status
from offsite.overview.verdict import Verdict, verdict_of
from offsite.reports.html_page import VerdictStyle

LOSSES_MAX = 20
"""Losses at the source that a row names; `losses_more` counts the rest."""
PROBLEMS_MAX = 20
_NAMED_MAX = 5
_UNREAD = "UNREAD"
_STYLES = (VerdictStyle.BAD, VerdictStyle.WARN, VerdictStyle.GOOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLoss:
    """A topic that the source lost. `restore`: the options of a restore of it."""

    backup: str
    topic: str
    state: TopicState
    detail: str = ""
    restore: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryReading:
    """What is known of a repository. `status`: the newest one that was read, None: none yet; `age_s`: how old it is.
    `problem`: why nothing newer is known, empty where nothing is wrong."""

    name: str
    place: str
    status: Status | None = None
    age_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryRow:
    """`repository`: its name. `verdict`: in a word; `sentence`: in a sentence. `safe`: of the backups, false where
    nothing was read. `restorable_to_ms`: everything that the source held then can be restored, of the backup furthest
    behind (epoch ms, 0: never or unknown). `problems`: what is wrong, with the backup in front. `losses`: at the
    source. `source_problems`: why nothing newer is known of a source. `age_s`: of all of this, None where nothing was
    read. `problem`: why nothing newer is known of the repository."""

    repository: str
    place: str
    verdict: str
    sentence: str
    style: VerdictStyle
    safe: bool = False
    damaged: bool = False
    backups: int = 0
    restorable_to_ms: int = 0
    problems: tuple[str, ...] = ()
    problems_more: int = 0
    losses: tuple[SourceLoss, ...] = ()
    losses_more: int = 0
    source_problems: tuple[str, ...] = ()
    age_s: float | None = None
    problem: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether a person should look."""
        return not self.safe or bool(self.losses or self.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralStatus:
    """`safe`: every repository was read and needs no attention; false without any. `repositories`: the worst first."""

    safe: bool
    repositories: tuple[RepositoryRow, ...]


def status_of_several(readings: Iterable[RepositoryReading]) -> SeveralStatus:
    rows = sorted(map(_row, readings), key=_worst_first)
    return SeveralStatus(safe=not any(row.needs_attention for row in rows), repositories=tuple(rows))


def verdict_of_several(several: SeveralStatus) -> Verdict:
    """The verdict over all repositories."""
    rows = several.repositories
    if attention := [row.repository for row in rows if row.needs_attention]:
        verb = "needs" if len(attention) == 1 else "need"
        count = f"{len(attention)} of {amount(len(rows), 'repository', 'repositories')} {verb} attention"
        sentence = f"{count}: {named(attention, most=_NAMED_MAX)}."
        return Verdict(word="ATTENTION", sentence=sentence, style=VerdictStyle.BAD)
    if not several.safe:  # a limited caller: no row says what was not read
        return Verdict(word=_UNREAD, sentence="Not known: not everything was read yet.", style=VerdictStyle.BAD)
    count = f"{amount(len(rows), 'repository', 'repositories')}."
    if unproven := [row.repository for row in rows if row.style is not VerdictStyle.GOOD]:
        sentence = f"Safe, not all proven. {count} Never verified nor drilled here: {named(unproven, most=_NAMED_MAX)}."
        return Verdict(word="SAFE, never proven", sentence=sentence, style=VerdictStyle.WARN)
    return Verdict(word="SAFE", sentence=f"Safe. {count}", style=VerdictStyle.GOOD)


def describe_age(row: RepositoryRow) -> str:
    """How old a row is."""
    return "never read" if row.age_s is None else f"{format_duration(max(1.0, row.age_s))} ago"


def _row(reading: RepositoryReading) -> RepositoryRow:
    status = reading.status
    if status is None:
        sentence = "Nothing was read yet."
        return RepositoryRow(
            repository=reading.name,
            place=reading.place,
            verdict=_UNREAD,
            sentence=sentence,
            style=VerdictStyle.BAD if reading.problem else VerdictStyle.WARN,
            problem=reading.problem,
        )
    verdict, losses, problems = verdict_of(status), _losses(status), _problems(status)
    return RepositoryRow(
        repository=reading.name,
        place=reading.place,
        verdict="ATTENTION" if losses or reading.problem else verdict.word,
        sentence=verdict.sentence,
        style=verdict.style,
        safe=status.safe,
        damaged=any(backup.damaged for backup in status.backups),
        backups=len(status.backups),
        restorable_to_ms=min((backup.restorable_to_ms for backup in status.backups), default=0),
        problems=problems[:PROBLEMS_MAX],
        problems_more=len(problems[PROBLEMS_MAX:]),
        losses=losses[:LOSSES_MAX],
        losses_more=len(losses[LOSSES_MAX:]),
        source_problems=tuple(sorted({backup.source.problem for backup in status.backups if backup.source} - {""})),
        age_s=reading.age_s,
        problem=reading.problem,
    )


def _losses(status: Status) -> tuple[SourceLoss, ...]:
    return tuple(
        SourceLoss(
            backup=backup.backup, topic=topic.topic, state=topic.state, detail=topic.detail, restore=topic.restore
        )
        for backup in status.backups
        if backup.source is not None
        for topic in backup.source.alarmed
    )


def _problems(status: Status) -> tuple[str, ...]:
    return tuple(f"{backup.backup}: {problem}" for backup in status.backups for problem in backup.problems)


def _worst_first(row: RepositoryRow) -> tuple[bool, int, str]:
    style = VerdictStyle.BAD if row.problem else row.style
    return not row.losses, _STYLES.index(style), row.repository
