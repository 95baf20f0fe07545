"""What a person asks of a restore. Remembered whole in the restore's record, as it was asked: the same command finds
its unfinished restore by it, and continues to the same point even when the request named a time like `2h-ago`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from offsite.log.offset_vector import OffsetVector
from offsite.model.choices import Isolation, OffsetsMode, RetentionMode
from offsite.model.group_patterns import NO_GROUPS, GroupPatterns
from offsite.model.partition_counts import PartitionCounts
from offsite.model.partition_selection import PartitionSelection
from offsite.model.rename import Renames
from offsite.model.selection import TopicSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """What to restore, how, and as of when. At most one of `commit`, `committed_at` and `checkpoint` names the commit
    to go by; none means the newest.

    Of that commit, `at` takes the records dated then or before, `ends` what lies below an offset in each partition,
    `before` the same in some. `incarnations` names, by topic, which one is meant where the backup holds several (see
    `parse_incarnations`); otherwise the time chooses, or it is the newest. `metadata` names what of the cluster's
    settings is set on the target (`acls`, `quotas`), `retention` what becomes of one that would delete restored records
    (see `RetentionMode`), `groups` which consumer groups are put in place at the end.
    Every field must be remembered by `remembered`, and be compared as text.
    """

    selection: TopicSelection
    repartition: PartitionCounts = field(default_factory=PartitionCounts)
    partitions: PartitionSelection = field(default_factory=PartitionSelection)
    renames: Renames = field(default_factory=Renames)
    commit: int | None = None
    committed_at: str | None = None
    checkpoint: int | None = None
    at: str | None = None
    ends: OffsetVector = field(default_factory=dict)
    before: OffsetVector = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation = Isolation.DEFAULT
    offsets: OffsetsMode = OffsetsMode.TRANSLATE  # not what people get: it asks nothing of log and target
    metadata: tuple[str, ...] = ()
    retention: RetentionMode = RetentionMode.DEFAULT
    groups: GroupPatterns = NO_GROUPS


def remembered(request: RestoreRequest) -> tuple[tuple[str, str], ...]:
    """The request as sorted pairs of texts, without the fields that say nothing. Equal for equal requests."""
    texts = {each.name: _text(getattr(request, each.name)) for each in fields(request)}
    return tuple(sorted((name, text) for name, text in texts.items() if text))


def _text(value: object) -> str:
    match value:
        case None | False:
            return ""
        case TopicSelection(include=include, exclude=exclude):
            return ",".join([*sorted(set(include)), *(f"!{pattern}" for pattern in sorted(set(exclude)))])
        case Mapping():
            return ",".join(f"{key}={value[key]}" for key in sorted(value))
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
