"""Whether an existing topic can take the records of a restore. Pure: facts of the topic in, problems out.

A broker judges record by record, and may refuse a record in the middle of a restore. The same rules are applied here
before the first record is written. Settings that can be set aside meanwhile and put back at the end are no problem: see
`target_settings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.cleanup_policy import is_compacted
from offsite.model.errors import OffsiteError, TargetMismatch, TargetNotEmpty
from offsite.model.units import format_size, format_time
from offsite.restore.write.plan import TopicRestore

UNLIMITED = 2**63 - 1
_MAKE_ROOM = "delete the empty topic, or restore under another name with --rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """A topic that exists on the target. `records` is its number of offsets, over all partitions.

    - `max_batch_bytes`: the largest accepted batch.
    - `oldest_taken_ms`, `newest_taken_ms`: the bounds of accepted record times.
    - `oldest_kept_ms`, `kept_bytes`: brokers delete older records, and bytes of a partition beyond the limit; nothing
      unless the topic `deletes`.
    - `keeps_times`: the topic has CreateTime. `compacts`: the topic refuses records without a key.
    - `configs` are its own settings, `ends` the end of every partition.
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
    deletes: bool = True
    kept_bytes: int = UNLIMITED
    configs: tuple[tuple[str, str], ...] = ()
    ends: tuple[int, ...] = ()


def target_problems(
    target: TargetTopic, topic: TopicRestore, *, may_override_retention: bool
) -> Iterator[OffsiteError]:
    """Every reason why `target` cannot take `topic`, with a hint for the change needed."""
    if target.records:
        yield TargetNotEmpty(
            f"{target.topic} exists on the target and holds {target.records:,} records",
            hint=f"restore under another name: --rename {topic.source.topic}={topic.source.topic}-restored",
        )
        return
    if target.partitions != topic.partitions:
        yield TargetMismatch(
            f"{target.topic} exists with {target.partitions} partitions, but the restore needs {topic.partitions}",
            hint="distribute the records over the existing partitions with --repartition "
            f"{topic.source.topic}={target.partitions}, or {_MAKE_ROOM}",
        )
    if target.compacts and not is_compacted(dict(topic.source.configs)):
        yield TargetMismatch(f"{target.topic} exists and is compacted, but the source topic is not", hint=_MAKE_ROOM)
    if topic.largest_batch_bytes > target.max_batch_bytes:
        yield batches_too_large(topic, target.max_batch_bytes)
    if not may_override_retention:
        yield from _retention(target, topic)


def is_too_old(target: TargetTopic, topic: TopicRestore) -> bool:
    """Whether the target's brokers would delete some of the records at once."""
    return topic.records > 0 and 0 <= topic.oldest_ms < target.oldest_kept_ms


def is_too_much(target: TargetTopic, topic: TopicRestore) -> bool:
    return topic.largest_partition_bytes > target.kept_bytes


def batches_too_large(topic: TopicRestore, limit_bytes: int) -> TargetMismatch:
    """The error for a target topic that takes smaller batches than the backup has."""
    return TargetMismatch(
        f"{topic.target} accepts batches up to {format_size(limit_bytes)} (max.message.bytes={limit_bytes}), but the "
        f"backup has a batch of {format_size(topic.largest_batch_bytes)}",
        hint=f"raise the limit to {topic.largest_batch_bytes} bytes (max.message.bytes of an existing topic, "
        f"message.max.bytes of the brokers), or {_MAKE_ROOM}",
    )


def _retention(target: TargetTopic, topic: TopicRestore) -> Iterator[OffsiteError]:
    if is_too_old(target, topic):
        yield TargetMismatch(
            f"{target.topic} deletes records older than {format_time(target.oldest_kept_ms)} (retention.ms), but the "
            f"records of the backup begin at {format_time(topic.oldest_ms)}",
            hint=f"raise its retention.ms, suspend it during the restore with --retention override, or {_MAKE_ROOM}",
        )
    if is_too_much(target, topic):
        yield TargetMismatch(
            f"{target.topic} keeps {format_size(target.kept_bytes)} of each partition (retention.bytes), but the "
            f"backup has a partition of {format_size(topic.largest_partition_bytes)}",
            hint=f"raise its retention.bytes, suspend it during the restore with --retention override, or {_MAKE_ROOM}",
        )
