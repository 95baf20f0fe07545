"""Whether an existing topic can take what a restore would write into it. Pure: its facts in, a refusal out.

A broker judges record by record, when half of a restore is written. The same rules are applied here before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.model.errors import TargetMismatch, TargetNotEmpty
from offsite.model.size import format_size
from offsite.model.time import format_time
from offsite.repository.commit import TopicShape
from offsite.repository.segment import NO_TIMESTAMP_MS, Segment

_MAKE_ROOM = "delete the empty topic, or restore under another name with --rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """A topic that exists on the target. `records` is the number of offsets it holds, over all partitions.

    `max_batch_bytes`: the largest batch it takes. It takes record times in `[oldest_taken_ms, newest_taken_ms]`, and
    its brokers delete what is older than `oldest_kept_ms`. `keeps_times`: it has CreateTime. `compacts`: it takes no
    record without a key.
    """

    topic: str
    partitions: int
    records: int
    max_batch_bytes: int
    oldest_taken_ms: int
    newest_taken_ms: int
    oldest_kept_ms: int
    keeps_times: bool
    compacts: bool


def check_target(target: TargetTopic, shape: TopicShape, segments: Sequence[Segment]) -> None:
    """Raises `TargetNotEmpty` or `TargetMismatch`, whose hint says what to change."""
    if target.records:
        raise TargetNotEmpty(
            f"{target.topic} exists on the target and holds {target.records:,} records",
            hint=f"restore under another name: --rename {shape.topic}={shape.topic}-restored",
        )
    if target.partitions != shape.partitions:
        raise TargetMismatch(
            f"{target.topic} exists with {target.partitions} partitions, the backup has {shape.partitions}",
            hint=_MAKE_ROOM,
        )
    if target.compacts and "compact" not in dict(shape.configs).get("cleanup.policy", ""):
        raise TargetMismatch(f"{target.topic} exists and is compacted, its source was not", hint=_MAKE_ROOM)
    _check_sizes(target, segments)
    _check_times(target, segments)


def _check_sizes(target: TargetTopic, segments: Sequence[Segment]) -> None:
    largest_bytes = max((segment.largest_batch_bytes for segment in segments), default=0)
    if largest_bytes > target.max_batch_bytes:
        raise TargetMismatch(
            f"{target.topic} takes batches of {format_size(target.max_batch_bytes)} at most "
            f"(max.message.bytes={target.max_batch_bytes}), the backup has one of {format_size(largest_bytes)}",
            hint=f"set max.message.bytes={largest_bytes} on it, or {_MAKE_ROOM}",
        )


def _check_times(target: TargetTopic, segments: Sequence[Segment]) -> None:
    newest_ms = max((segment.timestamp_max_ms for segment in segments), default=NO_TIMESTAMP_MS)
    if newest_ms == NO_TIMESTAMP_MS:
        return
    if not target.keeps_times:
        raise TargetMismatch(
            f"{target.topic} exists with LogAppendTime: its brokers would overwrite the times of all records",
            hint=f"set message.timestamp.type=CreateTime on it, or {_MAKE_ROOM}",
        )
    begins_ms = [s.base_timestamp_min_ms for s in segments if s.base_timestamp_min_ms != NO_TIMESTAMP_MS]
    for time_ms in (newest_ms, *begins_ms):
        if not target.oldest_taken_ms <= time_ms <= target.newest_taken_ms:
            raise TargetMismatch(
                f"{target.topic} takes no record dated {format_time(time_ms)}, the backup has one",
                hint=f"raise message.timestamp.before.max.ms and message.timestamp.after.max.ms, or {_MAKE_ROOM}",
            )
    if newest_ms < target.oldest_kept_ms:
        raise TargetMismatch(
            f"{target.topic} deletes what is older than {format_time(target.oldest_kept_ms)}: "
            f"nothing would be left, the newest record of the backup is of {format_time(newest_ms)}",
            hint=f"raise its retention.ms, or {_MAKE_ROOM}",
        )
