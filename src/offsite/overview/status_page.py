"""Am I safe? as an HTML file; with facts beside the verdict: the newest checkpoint, holes, the start of deletions at
the source, and plots. From the store alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from offsite.checkpoint.status import Checkpoints
from offsite.model.cleanup_policy import UNLIMITED, Retention
from offsite.model.errors import OffsiteError
from offsite.model.units import format_duration, format_time
from offsite.overview.backup_history import PAGE_WAIT_S, BackupHistory, HistoryReader, read_history
from offsite.overview.comparison import SourceComparison
from offsite.overview.history_plots import history_plots, recovery_plot
from offsite.overview.status import BackupStatus, Status
from offsite.overview.verdict import backup_word, rests_on, source_age, source_alarm, verdict_of
from offsite.reports.bar_plot import BarPlot
from offsite.reports.html_page import (
    VerdictStyle,
    document,
    facts,
    items,
    tag,
    text,
    verdict,
)
from offsite.reports.plot import TimePlot
from offsite.repository.backup import Backup
from offsite.repository.snapshots.check_records import DrillRecord, VerifyRecord
from offsite.repository.state import BackupState
from offsite.upkeep.verification.last_checks import LastChecks

_TOLD_MAX = 50
"""Topics with something to tell of their source, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """`facts`: texts by name. `plots`: none without a restore point."""

    facts: Mapping[str, str] = field(default_factory=dict)
    plots: tuple[TimePlot | BarPlot, ...] = ()


def glance(backup: Backup, history: BackupHistory, *, with_all_plots: bool = True) -> Glance:
    """Make it of the newest state. `with_all_plots`: else the recovery point alone. Raises the errors of the store."""
    state, now_ms = history.state, history.now_ms
    losses = sum(hole.is_loss for hole in state.holes)
    facts = {
        "Last checkpoint": _checkpoint(backup),
        "Holes": f"{losses:,}" if losses else "none",
        "Source deletes by age": source_deletes(state, now_ms),
    }
    if not state.history:
        return Glance(facts=facts)
    return Glance(facts=facts, plots=history_plots(history) if with_all_plots else (recovery_plot(history),))


def source_deletes(state: BackupState, now_ms: int) -> str:
    """When the source may begin to delete records that are not backed up: a topic's `retention.ms` after the last
    complete pass, by the backed-up settings. `now_ms`: the store's clock, epoch ms.

    A broker goes by the times in the records, so back-dated records are deleted sooner.
    """
    shapes = [shape for shape in state.latest_shapes().values() if not shape.is_deleted]
    rules = {shape.topic: Retention.of(dict(shape.configs)) for shape in shapes if not shape.configs_unread}
    retentions_ms = {topic: rule.retention_ms for topic, rule in rules.items() if rule.deletes}
    limited = {
        topic: keep_ms for topic, keep_ms in retentions_ms.items() if keep_ms is not None and keep_ms != UNLIMITED
    }
    if not state.completed_at_ms:
        return "unknown: no pass is complete yet"
    if not limited and None in retentions_ms.values():
        return "unknown: a broker default, which the backup does not record"
    if not limited:
        return "unknown: some settings could not be read" if len(rules) < len(shapes) else "nothing"
    topic, keep_ms = min(limited.items(), key=lambda limit: (limit[1], limit[0]))
    said = f"records of {topic} that are not backed up (the topic keeps records for {format_duration(keep_ms / 1000)})"
    at_ms = state.completed_at_ms + keep_ms
    when = f"{format_time(at_ms)[:16].replace('T', ' ')} UTC"
    return f"since {when}: {said}" if at_ms <= now_ms else f"from {when} on: {said}"


def _checkpoint(backup: Backup) -> str:
    newest = Checkpoints(backup.for_reading(is_named=True)).list(most=1).checkpoints
    return f"{newest[0].id}, {newest[0].status}" if newest else "no checkpoint yet"


def status_page(status: Status, glances: Mapping[str, Glance], now_ms: int) -> str:
    """Make the whole page. `glances`: further facts of every backup. `now_ms`: time of the page, by the store's
    clock."""
    parts = ["<h1>Am I safe?</h1>", _verdict(status)]
    parts.append(f'<p class="soft">Repository <code>{text(status.repository)}</code>, {text(_time(now_ms))}</p>')
    for backup in status.backups:
        parts += _backup(backup, glances.get(backup.backup, Glance()))
    return document("Am I safe?", parts)


def read_glances(
    status: Status, open_backup: Callable[[str], Backup], reader: HistoryReader | None = None
) -> dict[str, Glance]:
    """Read the facts of every readable backup; the status reports problems of the rest. `reader`: of a coordinator, for
    a page with the recovery points alone; None: for a file, with all plots."""
    glances: dict[str, Glance] = {}
    for backup in status.backups:
        with suppress(OffsiteError):
            opened = open_backup(backup.backup)
            if reader is None:
                history = read_history(opened, source=backup.source)
            else:
                history = reader.read(opened, wait_s=PAGE_WAIT_S / len(status.backups))
            glances[backup.backup] = glance(opened, history, with_all_plots=reader is None)
    return glances


def describe_checks(checks: LastChecks | None) -> list[tuple[str, str]]:
    """The last checks and the last drill of a backup, by name; checks of other installations appear as claims."""
    if checks is None:
        return [("Checks", "the last checks cannot be read")]
    own_checks = [
        (f"Last {record.depth} check", f"{_time(record.verified_at_ms)}: {'sound' if record.ok else 'DAMAGE'}")
        for record in checks.verified
    ]
    claimed = [
        (
            f"Claimed {record.depth} check",
            f"{_time(record.verified_at_ms)}: {'sound' if record.ok else 'DAMAGE'}{_by(record)}",
        )
        for record in checks.claimed
    ]
    proven = _time(checks.proven_ms) if checks.proven_ms >= 0 else "never on this machine"
    if checks.drill is not None and not checks.drill.proven:
        own_checks.append(("Last drill", _drill(checks.drill)))
    if checks.claimed_drill is not None:
        claimed.append(("Claimed drill", f"{_drill(checks.claimed_drill)}{_by(checks.claimed_drill)}"))
    return [*(own_checks or [("Last check", "never on this machine")]), ("Last proven by a drill", proven), *claimed]


def _drill(drill: DrillRecord) -> str:
    said = {True: "proven", False: "NOT PROVEN", None: "nothing proven"}[drill.proven]
    return f"{_time(drill.ended_ms)}: {said}"


def _by(record: VerifyRecord | DrillRecord) -> str:
    return f", by {record.by or 'an unknown installation'}, not made on this machine"


def _verdict(status: Status) -> str:
    judged, alarm = verdict_of(status), source_alarm(status)
    above = verdict(alarm, VerdictStyle.BAD) if alarm else ""
    return above + verdict(judged.sentence, judged.style)


def _backup(status: BackupStatus, extras: Glance) -> Iterable[str]:
    yield f"<h2>{text(status.backup)} {tag(*backup_word(status))}</h2>"
    yield f"<p>{text(rests_on(status))}</p>"
    if status.source is not None:
        yield from _source(status.source)
    if status.problems:
        yield items(status.problems)
    ago = f" ({format_duration(max(1, status.age_s))} ago)" if status.restorable_to_ms else ""
    yield facts(
        {
            "Restorable to": f"{_time(status.restorable_to_ms)}{ago}",
            "Restorable from": _time(status.restorable_from_ms),
            "Last complete pass": _time(status.completed_ms),
            **extras.facts,
            **dict(describe_checks(status.checks)),
        }
    )
    yield '<div class="plots">' + "".join(plot.html() for plot in extras.plots) + "</div>"
    if status.notes:
        yield items(status.notes)


def _source(source: SourceComparison) -> Iterable[str]:
    counts = ", ".join(f"{count:,} {state}" for state, count in source.counts.items())
    yield f"<p>{text(f'At the source, {source_age(source)}: {source.problem or source.absent or counts}')}</p>"
    if lines := [f"{topic.topic}: {topic.detail}" for topic in source.topics if topic.detail][:_TOLD_MAX]:
        yield items(lines)


def _time(time_ms: int) -> str:
    return f"{format_time(time_ms)[:19].replace('T', ' ')} UTC" if time_ms > 0 else "never"
