"""A retention plan as printed. The fields are a contract with scripts: fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from offsite.model.errors import DamagedCommit
from offsite.repository.backup import Backup
from offsite.repository.layout import own_objects
from offsite.repository.snapshots.audit_record import OBJECT, AuditLine, UnreadableLine, read_audit
from offsite.upkeep.retention.kept_points import KeptPoints, points_between
from offsite.upkeep.retention.policy import rule_of

if TYPE_CHECKING:
    from offsite.upkeep.retention.plan import RetentionPlan

DONE = "done"
NOT_DONE = "not done"
TO_BE_DONE = "to be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSpan:
    """Restore points: commits `first` to `last`, both inclusive, and their number."""

    first: int
    last: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoRange:
    """Offsets `[start, end)` of a partition that no restore point needs any more. `branch`: the closed history, 0 for
    the live history."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    branch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """The retention of a backup. `kept`: runs of restore points, each with its rule. `removed_bytes` become free in the
    store once the objects are collected. `next_commit` may expire at `next_ms` at the earliest (epoch ms; 0: no time
    known). Ages count back from `from_ms`. `commit`: the commit of the retention; None: nothing was done.
    `below_floor`, `clock_step`: why the plan needs force."""

    backup: str
    head_commit: int
    now_ms: int
    rule: str
    removed_commits: tuple[CommitSpan, ...]
    removed_points: int
    removed_ranges: tuple[LetGoRange, ...]
    removed_segments: int
    removed_bytes: int
    kept: tuple[KeptPoints, ...]
    kept_points: int
    kept_bytes: int
    next_commit: int
    next_ms: int
    below_floor: str
    notes: tuple[str, ...]
    commit: int | None = None
    from_ms: int = 0
    clock_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """A line of the audit. `state`: whether the line's commit was made (`done`, `not done`); for an object, whether the
    object is gone; else `to be done`. `problem`: why the line is unreadable; in such a line all other fields are
    without meaning."""

    at_ms: int = 0
    who: str = ""
    by: str = ""
    commit: int = 0
    kind: str = ""
    what: str = ""
    rule: str = ""
    bytes: int = 0
    state: str = ""
    problem: str = ""


def retention_report(plan: RetentionPlan, *, commit: int | None = None) -> RetentionReport:
    """The report of a plan, and of its result."""
    history = plan.head.history
    return RetentionReport(
        backup=plan.head.backup,
        head_commit=plan.head.seq,
        now_ms=plan.now_ms,
        rule=rule_of(plan.policy),
        removed_commits=tuple(
            CommitSpan(first=start, last=end - 1, points=points_between(history, start, end - 1))
            for start, end in plan.forgotten
        ),
        removed_points=plan.points,
        removed_ranges=tuple(
            LetGoRange(
                topic=expired.partition_id.topic,
                topic_id=expired.partition_id.topic_id,
                partition=expired.partition_id.partition,
                start=expired.start,
                end=expired.end,
                branch=expired.branch,
            )
            for expired in plan.expired
        ),
        removed_segments=plan.segments,
        removed_bytes=plan.removed_bytes,
        kept=plan.kept_points,
        kept_points=sum(points.points for points in plan.kept_points),
        kept_bytes=plan.kept_bytes,
        next_commit=plan.next_commit,
        next_ms=plan.next_ms,
        below_floor=plan.below_floor,
        notes=plan.notes,
        commit=commit,
        from_ms=plan.from_ms,
        clock_step=plan.clock_step,
    )


def audit_reports(backup: Backup, *, after: int = -1) -> Iterator[AuditReport]:
    """The audit lines after commit `after`, each with its state, according to the commits and the store."""
    outcomes = _Outcomes(backup)
    for line in read_audit(backup.store, backup.layout, after=after):
        if isinstance(line, UnreadableLine):
            yield AuditReport(what=line.key, problem=line.problem)
        else:
            yield _report(line, outcomes.of(line))


def _report(line: AuditLine, state: str) -> AuditReport:
    deletion = line.deletion
    return AuditReport(
        at_ms=line.at_ms,
        who=line.who,
        by=line.by,
        commit=line.commit,
        kind=deletion.kind,
        what=deletion.what,
        rule=deletion.rule,
        bytes=deletion.bytes,
        state=state,
    )


@dataclass(slots=True)
class _Outcomes:
    """The outcomes of noted deletions."""

    backup: Backup
    _writers: dict[int, str] = field(default_factory=dict)
    _objects: frozenset[str] | None = None

    def of(self, line: AuditLine) -> str:
        if line.deletion.kind == OBJECT:
            return TO_BE_DONE if line.deletion.what in self._there() else DONE
        writer = self._writer(line.commit + 1) if line.writer else ""
        if not writer:
            return TO_BE_DONE
        return DONE if writer == line.writer else NOT_DONE

    def _there(self) -> frozenset[str]:
        """The data objects in the store; listed once, because there may be many lines."""
        if self._objects is None:
            layout, store = self.backup.layout, self.backup.store
            listings = (own_objects(store.list(prefix)) for prefix in (layout.packs_prefix, layout.topics_prefix))
            self._objects = frozenset(info.key for info in chain.from_iterable(listings))
        return self._objects

    def _writer(self, seq: int) -> str:
        """The writer of that commit; empty if unknown."""
        if seq not in self._writers:
            try:
                stored = self.backup.log.get(seq)
            except DamagedCommit:
                return ""
            if stored is None:
                return ""
            self._writers[seq] = stored.commit.writer
        return self._writers[seq]
