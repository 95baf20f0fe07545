"""Facts of an overview beside the verdict: the newest checkpoint, holes, the start of deletions at the source, and
plots. From the store alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.checkpoint.status import Checkpoints
from offsite.model.cleanup_policy import UNLIMITED, Retention
from offsite.model.units import format_duration, format_time
from offsite.reports.html_page import POINTS_MAX, PlotLine, lines_of
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import display_now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """`facts`: texts by name. `lines`: plots; none for fewer than two restore points."""

    facts: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[PlotLine, ...] = ()


def glance(backup: Backup) -> Glance:
    """Read the facts from the newest state. Raises `DamagedCommit` and the errors of the store."""
    state, now_ms = backup.readable_state(), display_now_ms(backup.store)
    losses = sum(hole.is_loss for hole in state.holes)
    facts = {
        "Last checkpoint": _checkpoint(backup),
        "Holes": f"{losses:,}" if losses else "none",
        "Source deletes by age": source_deletes(state, now_ms),
    }
    return Glance(facts=facts, lines=tuple(lines_of(list(state.history[-POINTS_MAX:]), now_ms)))


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
