"""What the topics' own retention lets go of a backup that mirrors them: by time and by size, as a broker would. Pure.

A broker deletes whole segments from the beginning of a partition: one whose newest record is older than `retention.ms`,
or as long as `retention.bytes` stay behind it; never the active one. Here the same holds of the segments of the backup,
and only below the log start that the leader told last: so the source has let go of it already, whatever a clock or a
setting says. A topic that is gone has no active segment, and tells no log start; its records stay for `retention.ms`
from the time at which it was found deleted.

A setting that was shortened, by mistake or by malice, must not empty the backup too: what a restore point needs goes
only when it is too old by the settings of now *and* by those that the topic had then. What the backup does not know of
a setting then counts as Kafka's default; what it does not know of now lets nothing go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, NO_LIMITS, POLICY, UNLIMITED, Limits, Retention
from offsite.repository.commit import Position, TopicShape
from offsite.repository.segments.segment import Segment


def limits_now(shape: TopicShape, told: Mapping[str, Retention]) -> Limits:
    """Those that hold now: as the cluster has `told` them by topic, else as the newest commit has them, which leaves
    out what is a default. No limit where nothing is known."""
    if shape.configs_unread and shape.topic not in told:
        return NO_LIMITS
    return Limits.of(told.get(shape.topic) or Retention.of(dict(shape.configs)))


def limits_then(shape: TopicShape) -> Limits:
    """Those that a restore point promised, whose commit describes the topic as `shape`."""
    return Limits.of(Retention.of(dict(shape.configs)), default_ms=KAFKA_RETENTION_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition:
    """What is held of a history of a partition now: its `segments`, and whether the source goes on with it (`position`
    is that of the newest commit then, else None). `gone_ms`: when that was found not to be so."""

    segments: Sequence[Segment]
    position: Position | None
    gone_ms: int = 0

    @property
    def start(self) -> int:
        return self.segments[0].start if self.segments else 0

    def expired_below(self, limits: Limits, *, now_ms: int) -> int:
        """The offset below which all that is held is to be let go by `limits`; 0 when that is nothing."""
        left_bytes = sum(each.raw_bytes for each in self.segments) if limits.keep_bytes != UNLIMITED else 0
        below = 0
        for number, segment in enumerate(self.segments):
            left_bytes -= segment.raw_bytes
            is_too_much = limits.keep_bytes != UNLIMITED and left_bytes >= limits.keep_bytes
            if not self._may_go(number) or not (is_too_much or self._is_too_old(segment, limits, now_ms)):
                break
            below = segment.end
        return below

    def _may_go(self, number: int) -> bool:
        """Whether it is not the active one, and lies below the log start that the leader told last."""
        if self.position is None:
            return True
        segment = self.segments[number]
        is_active = number == len(self.segments) - 1
        return not is_active and max(segment.end, segment.last_offset + 1) <= self.position.log_start

    def _is_too_old(self, segment: Segment, limits: Limits, now_ms: int) -> bool:
        """Of records without a time nobody knows how old they are."""
        newest_ms = max(segment.timestamp_max_ms, self.gone_ms)
        return limits.keep_ms != UNLIMITED and segment.timestamp_max_ms >= 0 and newest_ms + limits.keep_ms < now_ms


def is_known(shape: TopicShape, told: Mapping[str, Retention]) -> bool:
    """Whether it is known for how long the records of a topic stay: told by the cluster, or in its own settings."""
    names = dict(shape.configs)
    return shape.topic in told or "retention.ms" in names or (POLICY in names and "delete" not in names[POLICY])
