"""Retention for people and scripts: a plan as printed, the audit, and the outlook for status, metrics and pages. Reads
no data. The printed fields are a contract with scripts: fields are added, never renamed.

The note of the last retention (the policy, and the next expiry) is a hint for display, overwritten each time, never
trusted, and never the basis of a decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from offsite.model.errors import DamagedCommit, OffsiteError
from offsite.model.journal import noted
from offsite.model.untrusted.json_codec import Count
from offsite.repository.backup import Backup
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import own_objects
from offsite.repository.replaced import collected_hint
from offsite.repository.snapshots.audit_record import OBJECT, AuditLine, UnreadableLine, read_audit
from offsite.repository.state import BackupState
from offsite.upkeep.retention.kept_points import KeptPoints, points_between
from offsite.upkeep.retention.policy import rule_of

if TYPE_CHECKING:
    from offsite.upkeep.retention.plan import RetentionPlan


DONE = "done"
NOT_DONE = "not done"
TO_BE_DONE = "to be done"
BY = "retention"
"""The kind of work named in audit lines."""


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
    outcomes = Outcomes(backup)
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
class Outcomes:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionNote:
    """Commit `commit` removed everything not kept by the policy `rule`, at `at_ms`. `kept_points` and `kept_bytes`
    stayed. Of the kept points commit `next_commit` may expire first, at `next_ms` at the earliest (0: no time known).
    """

    rule: str
    at_ms: Count
    commit: Count
    kept_points: Count
    kept_bytes: Count
    next_commit: Count
    next_ms: Count


_NOTE = StoredForm(RetentionNote)


def put_note(backup: Backup, plan: RetentionPlan, commit: int) -> None:
    """Write the note about `commit`. A failure is logged and ignored."""
    note = RetentionNote(
        at_ms=plan.now_ms,
        commit=commit,
        rule=rule_of(plan.policy),
        kept_points=sum(points.points for points in plan.kept_points),
        kept_bytes=plan.kept_bytes,
        next_commit=plan.next_commit,
        next_ms=plan.next_ms,
    )
    try:
        backup.store.put_overwrite(backup.layout.retention_key, _NOTE.encode(note))
    except OffsiteError as error:
        noted("no_note", what="what retention did", why=error.message)


def get_note(backup: Backup) -> RetentionNote | None:
    """The note; None if none exists, or the note is unreadable."""
    key = backup.layout.retention_key
    try:
        data = backup.store.get(key)
        return None if data is None else _NOTE.decode(data, key=key)
    except OffsiteError as error:
        noted("hint_unusable", what=key, why=error.message)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOutlook:
    """The retention of a backup. `applied_ms`: when retention last removed something (epoch ms by the store's clock, 0:
    never), `rule`: the policy; `applied_commit`: the commit. `restore_points`: the number of kept points; `pinned`: the
    number of pinned ones. Of the unpinned points `next_commit` may expire first, at `next_ms` at the earliest (0: no
    time known). `waiting_bytes`: expired, and not yet collected."""

    applied_ms: int
    applied_commit: int
    rule: str
    restore_points: int
    pinned: int
    next_commit: int
    next_ms: int
    waiting_bytes: int


def retention_outlook(backup: Backup, state: BackupState) -> RetentionOutlook | None:
    """The outlook of a backup; None without any retention and without pins. Raises errors of the store."""
    note = get_note(backup)
    if note is None and not state.pins:
        return None
    return RetentionOutlook(
        applied_ms=note.at_ms if note else 0,
        applied_commit=note.commit if note else 0,
        rule=note.rule if note else "",
        restore_points=len(state.history),
        pinned=len(state.pins),
        next_commit=note.next_commit if note else 0,
        next_ms=note.next_ms if note else 0,
        waiting_bytes=_waiting_bytes(backup) if note else 0,
    )


def _waiting_bytes(backup: Backup) -> int:
    """The bytes expired by commits after the last collection, according to the audit lines of existing commits."""
    lines = audit_reports(backup, after=max(0, collected_hint(backup).done_upto - 1))
    return sum(line.bytes for line in lines if line.by == BY and line.state == DONE)
