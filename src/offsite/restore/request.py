"""The request for a restore. Recorded whole in the restore's record: the same command finds its unfinished restore by
the request, and continues to the same point even for a relative time like `2h-ago`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from offsite.model.options import CutChoice, OffsetsMode, RetentionMode, SchemaIdsChoice
from offsite.model.selection import NO_GROUPS, GroupPatterns, TopicSelection, join_patterns
from offsite.model.topic_choices import PartitionCounts, Renames
from offsite.points.restore_point import PointRequest

_NOT_MEANT = frozenset({"accept_rollback", "records", "resume"})
"""Fields for the conditions of a restore, not for its identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest(PointRequest):
    """The parts to restore, the restore point, and the way to restore.

    `metadata` names the cluster settings to set on the target (`acls`, `quotas`, `groups`, `brokers`), `retention` the
    handling of a retention that would delete restored records (see `RetentionMode`), `groups` the consumer groups to
    put in place at the end, `resume` an unfinished restore of this very request, begun by another installation, to
    continue, `records` the place of the restore's records, if not with the backup. `registry` is the address of the
    target's schema registry, empty without one, and `schema_ids` what happens to ids in records. `encode_request` must
    encode every field, as comparable text.
    """

    repartition: PartitionCounts = field(default_factory=PartitionCounts)
    renames: Renames = field(default_factory=Renames)
    offsets: OffsetsMode = OffsetsMode.TRANSLATE  # not the default of the commands: needs nothing of log and target
    cut: CutChoice = CutChoice.DEFAULT
    metadata: tuple[str, ...] = ()
    retention: RetentionMode = RetentionMode.DEFAULT
    groups: GroupPatterns = NO_GROUPS
    resume: str | None = None
    records: str | None = None
    registry: str = ""
    schema_ids: SchemaIdsChoice = SchemaIdsChoice.DEFAULT


def encode_request(request: RestoreRequest) -> tuple[tuple[str, str], ...]:
    """The request as sorted pairs of texts, without empty fields. Equal for equal requests."""
    texts = {
        request_field.name: _text(getattr(request, request_field.name))
        for request_field in fields(request)
        if request_field.name not in _NOT_MEANT
    }
    return tuple(sorted((name, text) for name, text in texts.items() if text))


def _text(value: object) -> str:
    match value:
        case None | False:
            return ""
        case CutChoice() | SchemaIdsChoice() if (
            value == "auto"
        ):  # not requested: restores of earlier versions are still found
            return ""
        case TopicSelection(include=include, exclude=exclude):
            return join_patterns([*sorted(set(include)), *(f"!{pattern}" for pattern in sorted(set(exclude)))])
        case Mapping():
            return ",".join(f"{key}={value[key]}" for key in sorted(value))
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
