"""Chooses the files of an archive to delete because the retention of their topic deleted the records at the source. How
long topics keep records comes from the cluster, or as recorded by the archive.

A file is deleted when the newest record is older than `retention.ms`, or when `retention.bytes` lie behind the file; by
the current settings *and* by the settings at the time of the export, because a retention shortened by mistake or malice
must not empty the archive too. Only a positive answer of the cluster permits a deletion: the topic exists, has the id
recorded in the archive, may be described, and the leaders answer; then only files below the log start of the
partition's leader are deleted: the source deleted the records first. Everything else is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.archives.indexed.index import EarlierSettings, promised_limits
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.cleanup_policy import NO_LIMITS, UNLIMITED, KeepLimits, Retention
from offsite.model.units import format_duration, format_size

_ABSENT = {
    PresenceState.DELETED: "the cluster has no topic of that name now, so its retention is unknown",
    PresenceState.DENIED: "the principal may not describe the topic",
    PresenceState.UNCLEAR: "the brokers do not agree whether the topic exists",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestFiles:
    """The first files of a partition, deleted or kept together. `starts`: first offsets; the last file ends before
    `end`; `newest_ms`: time of the newest record; `behind_bytes`: size of the partition behind the files."""

    partition: int
    starts: Sequence[int]
    end: int
    newest_ms: int
    behind_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Statements of an archive about a topic: id (empty: unknown), settings at the newest export, and earlier
    settings."""

    topic_id: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)
    earlier: Sequence[EarlierSettings] = ()

    def promised(self, oldest: OldestFiles) -> KeepLimits:
        """Return how long the files were to be kept when exported."""
        limits = KeepLimits(keep_ms=0, keep_bytes=0)
        for start in oldest.starts:
            limits = limits.longer_of_both(self._promised(oldest.partition, start))
        return limits

    def _promised(self, partition: int, start: int) -> KeepLimits:
        """Use the first settings with an end above the file: the file was written under these settings."""
        promises = (settings.configs for settings in self.earlier if start < dict(settings.ends).get(partition, 0))
        return promised_limits(next(promises, tuple(self.configs.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionVerdict:
    """Whether files are deleted, with the reason."""

    goes: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRule:
    """Decides about files of a partition. `now`: current limits of the topic. `log_start`: as answered by the leader,
    None if no cluster was asked. `keep_reason`: why nothing is deleted at all; else empty."""

    settings: TopicSettings
    now: KeepLimits = NO_LIMITS
    log_start: int | None = None
    keep_reason: str = ""

    def judge(self, oldest: OldestFiles, *, from_ms: int) -> RetentionVerdict:
        """Judge the oldest files. Ages count back from `from_ms`."""
        if self.keep_reason:
            return RetentionVerdict(goes=False, why=self.keep_reason)
        if self.log_start is not None and oldest.end > self.log_start:
            return RetentionVerdict(goes=False, why=f"the topic itself begins at offset {self.log_start}")
        limits = self.now.longer_of_both(self.settings.promised(oldest))
        if limits.keep_ms != UNLIMITED and oldest.newest_ms < from_ms - limits.keep_ms:
            return RetentionVerdict(goes=True, why=f"older than retention.ms, {format_duration(limits.keep_ms / 1000)}")
        is_too_much = limits.keep_bytes != UNLIMITED and oldest.behind_bytes >= limits.keep_bytes
        if self.log_start is not None and is_too_much:
            return RetentionVerdict(goes=True, why=f"beyond retention.bytes, {format_size(limits.keep_bytes)}")
        return RetentionVerdict(goes=False, why=self._why_kept(limits))

    def _why_kept(self, limits: KeepLimits) -> str:
        if limits.keep_ms != UNLIMITED:
            reason = f"younger than retention.ms, {format_duration(limits.keep_ms / 1000)}"
        elif limits.keep_bytes == UNLIMITED:
            reason = "its topic has no retention limit"
        elif self.log_start is None:
            reason = "the size limit can be checked only with the cluster (--bootstrap)"
        else:
            reason = f"within retention.bytes, {format_size(limits.keep_bytes)}"
        return reason if limits == self.now else f"{reason}, at the time of the export"


_UNVOUCHED = MirrorRule(
    settings=TopicSettings(), keep_reason="no digest confirms the settings that the archive recorded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSource:
    """The source of retention settings: the `cluster`, or the archive alone if `cluster` is None."""

    cluster: ClusterAdmin | None = None

    def rules(
        self, settings: Mapping[str, TopicSettings], partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, MirrorRule]:
        """Return the rule of every partition in an archive. Raises `KafkaUnavailable` if no broker answers."""
        vouched = {partition: settings[partition.topic] for partition in partitions if partition.topic in settings}
        if self.cluster is None:
            rules = {partition: _rule(topic, topic.configs) for partition, topic in vouched.items()}
        else:
            rules = _cluster_rules(self.cluster, vouched)
        return {partition: rules.get(partition, _UNVOUCHED) for partition in partitions}


def _cluster_rules(
    cluster: ClusterAdmin, settings: Mapping[TopicPartition, TopicSettings]
) -> dict[TopicPartition, MirrorRule]:
    presence = cluster.presence({partition.topic for partition in settings})
    present = sorted(topic for topic, is_there in presence.items() if is_there is PresenceState.THERE)
    metadata = cluster.topics(present) if present else {}
    doubts = {partition: _doubt(topic, metadata.get(partition.topic)) for partition, topic in settings.items()}
    same = [partition for partition, doubt in doubts.items() if not doubt]
    configs = cluster.readable_topic_configs({partition.topic for partition in same}, with_defaults=True).configs
    bounds = cluster.bounds(same)
    rules = dict[TopicPartition, MirrorRule]()
    for partition, topic in settings.items():
        doubt = _ABSENT.get(presence[partition.topic]) or doubts[partition]
        if not doubt and partition.topic not in configs:
            doubt = "the principal may not read the settings of the topic"
        if not doubt and partition in bounds.failed:
            doubt = f"its leader does not answer: {bounds.failed[partition].message}"
        if doubt:
            rules[partition] = MirrorRule(settings=topic, keep_reason=doubt)
        else:
            rule = _rule(topic, configs[partition.topic])
            rules[partition] = replace(rule, log_start=bounds.bounds[partition].start)
    return rules


def _rule(settings: TopicSettings, configs: Mapping[str, str]) -> MirrorRule:
    retention = Retention.of(configs)
    if not retention.deletes:
        return MirrorRule(
            settings=settings,
            keep_reason="its topic is compacted: the brokers delete records by key, not by age or size",
        )
    if retention.retention_ms is None:
        why = "the retention of its topic is a broker default: pass --bootstrap to read it from the cluster"
        return MirrorRule(settings=settings, keep_reason=why)
    return MirrorRule(settings=settings, now=KeepLimits.of(retention))


def _doubt(settings: TopicSettings, topic: TopicMetadata | None) -> str:
    """Return why the topic on the cluster may differ from the archived topic; empty for the same topic."""
    if topic is None:
        return "the cluster returned no metadata of the topic"
    if not settings.topic_id:
        return "the archive did not record the id of the topic"
    if topic.topic_id is None:
        return "the cluster does not give the id of the topic"
    return (
        ""
        if settings.topic_id == str(topic.topic_id)
        else "the topic on the cluster has another id: it is another topic of the same name"
    )
