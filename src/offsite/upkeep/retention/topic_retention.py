"""The topics' own retention, applied to a backup that mirrors them: by time and by size, as a broker would. A cluster
tells the defaults that commits do not know.

A broker deletes whole segments from the beginning of a partition: a segment with its newest record older than
`retention.ms`, or with at least `retention.bytes` behind the segment; never the active segment. The same rules apply to
the segments of the backup, and only below the log start last reported by the leader. So the source has already deleted
the data, whatever a clock or a setting says. A deleted topic has no active segment and reports no log start; its
records stay for `retention.ms` after its deletion was found.

A shortened setting, by mistake or malice, must not empty the backup too. So data needed by a restore point expires only
if too old by the current settings *and* by the topic's settings at the point's time. An unknown setting of the point's
time counts as Kafka's default; an unknown current setting expires nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.admin import ClusterAdmin
from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, NO_LIMITS, POLICY, UNLIMITED, KeepLimits, Retention
from offsite.model.errors import OtherCluster
from offsite.repository.backup import Backup
from offsite.repository.commit import Position, TopicShape
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState


def limits_now(shape: TopicShape, cluster_retention: Mapping[str, Retention]) -> KeepLimits:
    """The current limits: from `cluster_retention` by topic, else from the newest commit, which omits defaults. No
    limit if nothing is known."""
    if shape.configs_unread and shape.topic not in cluster_retention:
        return NO_LIMITS
    return KeepLimits.of(cluster_retention.get(shape.topic) or Retention.of(dict(shape.configs)))


def limits_then(shape: TopicShape) -> KeepLimits:
    """The limits promised by a restore point whose commit describes the topic as `shape`."""
    return KeepLimits.of(Retention.of(dict(shape.configs)), default_ms=KAFKA_RETENTION_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition:
    """The stored data of a history of a partition: its `segments`, and whether the source continues the history
    (`position` of the newest commit, else None). `deleted_ms`: when the deletion was found."""

    segments: Sequence[Segment]
    position: Position | None
    deleted_ms: int = 0

    @property
    def start(self) -> int:
        return self.segments[0].start if self.segments else 0

    def expired_below(self, limits: KeepLimits, *, now_ms: int) -> int:
        """The offset below which all stored data expires by `limits`; 0 if none does."""
        left_bytes = sum(segment.raw_bytes for segment in self.segments) if limits.keep_bytes != UNLIMITED else 0
        below = 0
        for number, segment in enumerate(self.segments):
            left_bytes -= segment.raw_bytes
            is_too_much = limits.keep_bytes != UNLIMITED and left_bytes >= limits.keep_bytes
            if not self._may_go(number) or not (is_too_much or self._is_too_old(segment, limits, now_ms)):
                break
            below = segment.end
        return below

    def _may_go(self, number: int) -> bool:
        """Whether the segment is not active, and lies below the log start last reported by the leader."""
        if self.position is None:
            return True
        segment = self.segments[number]
        is_active = number == len(self.segments) - 1
        return not is_active and max(segment.end, segment.last_offset + 1) <= self.position.log_start

    def _is_too_old(self, segment: Segment, limits: KeepLimits, now_ms: int) -> bool:
        """The age of records without a time is unknown: they are never too old."""
        newest_ms = max(segment.timestamp_max_ms, self.deleted_ms)
        return limits.keep_ms != UNLIMITED and segment.timestamp_max_ms >= 0 and newest_ms + limits.keep_ms < now_ms


def is_retention_known(shape: TopicShape, cluster_retention: Mapping[str, Retention]) -> bool:
    """Whether the topic's retention is known: from the cluster, or from the topic's own settings."""
    names = dict(shape.configs)
    return (
        shape.topic in cluster_retention
        or "retention.ms" in names
        or (POLICY in names and "delete" not in names[POLICY])
    )


def read_cluster_retention(cluster: ClusterAdmin, backup: Backup, state: BackupState) -> Mapping[str, Retention]:
    """The retention of the topics of `state` still present in the cluster, by name. Topics without the right to
    describe are left out. Raises `OtherCluster` if the cluster is not the source of `backup`, and `KafkaUnavailable`.
    """
    expected, actual = backup.descriptor.cluster_id, cluster.cluster().cluster_id
    if actual != expected:
        raise OtherCluster(
            f"backup {state.backup} was made on cluster {expected}, but this cluster is {actual}",
            hint="check --bootstrap",
        )
    topics = cluster.topics()
    same = [
        shape.topic
        for shape in state.latest_shapes().values()
        if shape.topic in topics and str(topics[shape.topic].topic_id or "") == shape.topic_id
    ]
    if not same:
        return {}
    configs = cluster.readable_topic_configs(same, with_defaults=True).configs
    return {topic: Retention.of(settings) for topic, settings in configs.items()}
