"""A note of the last retention of a backup: the policy, and the next expiry. A hint for display, overwritten each time,
never trusted, and never the basis of a decision."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.repository.backup import Backup
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.upkeep.retention.policy import rule_of

if TYPE_CHECKING:
    from offsite.upkeep.retention.plan import RetentionPlan

BY = "retention"
"""The kind of work named in audit lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionNote:
    """Commit `commit` removed everything not kept by the policy `rule`, at `at_ms`. `kept_points` and `kept_bytes`
    stayed. Of the kept points commit `next_commit` may expire first, at `next_ms` at the earliest (0: no time known).
    """

    at_ms: int
    commit: int
    rule: str
    kept_points: int
    kept_bytes: int
    next_commit: int
    next_ms: int


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
        backup.store.put_overwrite(backup.layout.retention_key, encode_object({"format": FORMAT, **asdict(note)}))
    except OffsiteError as error:
        noted("no_note", what="what retention did", why=error.message)


def get_note(backup: Backup) -> RetentionNote | None:
    """The note; None if none exists, or the note is unreadable."""
    key = backup.layout.retention_key
    try:
        data = backup.store.get(key)
        if data is None:
            return None
        document = parse_json_object(data, source=key, damaged=DamagedObject)
        numbers = ("at_ms", "commit", "kept_points", "kept_bytes", "next_commit", "next_ms")
        return RetentionNote(rule=document.text("rule"), **{name: document.count(name) for name in numbers})
    except OffsiteError as error:
        noted("hint_unusable", what=key, why=error.message)
        return None
