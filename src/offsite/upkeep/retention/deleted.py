"""What was deleted of a backup lately, the newest first: the lines of one run together, as a person asks for them.

Lines are statements of the repository: who may write there can forge them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from offsite.repository.backup import Backup
from offsite.repository.snapshots.audit_record import (
    OBJECT,
    POINTS,
    RECORDS,
    AuditLine,
    UnreadableLine,
    read_newest_audit,
)
from offsite.upkeep.retention.report import DONE, NOT_DONE, Outcomes

_LINES_READ, _RUNS, _NAMED = 200, 20, 5
"""Lines that are read at least, if there are so many; runs, and things of a run, that are told."""
_RESTORABLE = {
    POINTS: "not as of these restore points; the records that a kept restore point holds are",
    RECORDS: "the latest record of each key is",
    OBJECT: "no restore point needed these objects",
}
_GONE, _KEPT, _UNKNOWN = "no", "yes: it was not deleted", "unknown: no commit shows that it was deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRun:
    """What one run deleted of a kind. `by`: the kind of work; `who`: the process. `whats`: the first of `count` things.
    `restorable`: whether it can still be restored."""

    at_ms: int
    by: str
    who: str
    rule: str
    whats: tuple[str, ...]
    count: int
    bytes: int
    restorable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLately:
    """`runs`: the newest first. `has_older`: not all are among them. `unreadable`: lines that cannot be read."""

    runs: tuple[DeletionRun, ...]
    has_older: bool
    unreadable: tuple[str, ...]


def deleted_lately(backup: Backup) -> DeletedLately:
    """Raises errors of the store."""
    lines, has_older = read_newest_audit(backup.store, backup.layout, most=_LINES_READ)
    runs = defaultdict[tuple[object, ...], list[AuditLine]](list)
    for line in lines:
        if isinstance(line, AuditLine):
            kind = line.deletion.kind
            runs[line.at_ms, line.by, line.who, line.deletion.rule, kind, line.writer].append(line)
    newest = sorted(runs.values(), key=lambda run: run[0].at_ms, reverse=True)
    outcomes = Outcomes(backup)
    return DeletedLately(
        runs=tuple(_run(run, outcomes) for run in newest[:_RUNS]),
        has_older=has_older or len(newest) > _RUNS,
        unreadable=tuple(f"{line.key}: {line.problem}" for line in lines if isinstance(line, UnreadableLine)),
    )


def _run(lines: Sequence[AuditLine], outcomes: Outcomes) -> DeletionRun:
    first = lines[0]
    kind = first.deletion.kind
    return DeletionRun(
        at_ms=first.at_ms,
        by=first.by,
        who=first.who,
        rule=first.deletion.rule,
        whats=tuple(line.deletion.what for line in lines[:_NAMED]),
        count=len(lines),
        bytes=sum(line.deletion.bytes for line in lines),
        restorable=_restorable(kind, DONE if kind == OBJECT else outcomes.of(first)),
    )


def _restorable(kind: str, state: str) -> str:
    """An object's line is written just before its deletion, and no kept restore point needs the object either way."""
    if state == DONE:
        return _RESTORABLE.get(kind, _GONE)
    return _KEPT if state == NOT_DONE else _UNKNOWN
