"""Target topics of a restore: read if they exist, made if not, their settings set aside and put back.

`target_settings` has decided the settings before, and the decision is recorded: until the end, a crash leaves settings
that keep every record, and the next run of the same command finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import ConfiguredTopics
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.bounds import setting_number
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.journal import decided
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.restore.write.target_settings import BATCH_LIMIT
from offsite.restore.write.target_topic import UNLIMITED, TargetTopic

THE_DEFAULT = "(the brokers' default)"
READ, WRITE, ALTER_CONFIGS = {"READ": 3}, {"WRITE": 4}, {"ALTER_CONFIGS": 11}
"""Operations that must be allowed on a target topic, with the codes of Kafka's AclOperation. A lost acknowledgement
needs READ."""


def read_targets(admin: ClusterAdmin, names: Iterable[str], *, now_ms: int) -> list[TargetTopic]:
    """The existing topics out of `names`."""
    requested = set(names)
    existing = {name: topic for name, topic in admin.topics().items() if name in requested}
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in existing.values() for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    configs, own_configs = admin.topic_configs(existing, with_defaults=True), admin.topic_configs(existing)
    records = dict.fromkeys(existing, 0)
    for partition in partitions:
        records[partition.topic] += ends[partition] - starts[partition]
    return [
        replace(
            _target(name, len(topic.partitions), records[name], configs[name], now_ms),
            configs=tuple(sorted(own_configs[name].items())),
            ends=tuple(ends[TopicPartition(topic=name, partition=number)] for number in range(len(topic.partitions))),
        )
        for name, topic in existing.items()
    ]


def new_topic(settings: TargetTopicSettings) -> NewTopic:
    """The topic to create: with the settings for the write."""
    return NewTopic(
        name=settings.topic,
        partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        configs=dict(settings.configs) | dict(settings.meanwhile),
    )


def create_topics(admin: ClusterAdmin, topics: Iterable[TargetTopicSettings]) -> None:
    """Create the topics to create that do not exist yet; set obstacles aside on existing topics, including topics that
    an earlier run made and may have finished.

    Raises `KafkaNotAuthorized` when records could not be written: no record was written yet.
    """
    all_settings = list(topics)
    existing = admin.topics()
    admin.create_topics(
        [
            new_topic(topic_settings)
            for topic_settings in all_settings
            if topic_settings.create and topic_settings.topic not in existing
        ]
    )
    overrides = {
        topic_settings.topic: dict(topic_settings.meanwhile)
        for topic_settings in all_settings
        if topic_settings.meanwhile and topic_settings.topic in existing
    }
    if overrides:
        admin.alter_topic_configs(overrides)
    if problems := rights_problems(admin, all_settings):
        raise KafkaNotAuthorized("; ".join(problems), hint="grant the principal these operations on the topics")


def rights_problems(admin: ClusterAdmin, topics: Iterable[TargetTopicSettings]) -> list[str]:
    """Descriptions of operations that are needed on existing topics, and not allowed."""
    by_topic = {topic_settings.topic: topic_settings for topic_settings in topics}
    denied = admin.not_allowed(by_topic, READ | WRITE | ALTER_CONFIGS) if by_topic else {}
    needed = {
        name: [operation for operation in missing if by_topic[name].at_end or operation not in ALTER_CONFIGS]
        for name, missing in denied.items()
    }
    return [f"the principal may not {', '.join(missing)} on {name}" for name, missing in needed.items() if missing]


def finish_topics(admin: ConfiguredTopics, topics: Iterable[TargetTopicSettings]) -> tuple[str, ...]:
    """Give the topics their final settings, except settings changed by somebody else since the restore set them: such
    settings stay, and are returned as sentences, one per setting. May be repeated."""
    by_topic = {topic_settings.topic: topic_settings for topic_settings in topics if topic_settings.at_end}
    current = admin.topic_configs(by_topic.keys() & admin.topics().keys()) if by_topic else {}
    changed_by_others = {name: _changed_since(by_topic[name], configs) for name, configs in current.items()}
    changes = {
        name: {
            setting: value for setting, value in topic_settings.at_end if setting not in changed_by_others.get(name, {})
        }
        for name, topic_settings in by_topic.items()
    }
    if changes := {name: topic_changes for name, topic_changes in changes.items() if topic_changes}:
        admin.alter_topic_configs(changes)
    return tuple(
        _left_as_found(name, setting, value, dict(by_topic[name].at_end)[setting])
        for name, topic_changes in changed_by_others.items()
        for setting, value in topic_changes.items()
    )


def _changed_since(settings: TargetTopicSettings, current: Mapping[str, str]) -> dict[str, str | None]:
    """Settings that neither the restore set nor the final settings contain."""
    created = dict(settings.configs) if settings.create else {}
    ours = created | dict(settings.meanwhile)
    return {
        name: current.get(name) for name, value in settings.at_end if current.get(name) not in (ours.get(name), value)
    }


def _left_as_found(topic: str, setting: str, value: str | None, otherwise: str | None) -> str:
    decided("setting_left", why="somebody changed the setting during the restore", topic=topic, setting=setting)
    return (
        f"{topic} keeps {setting}={value or THE_DEFAULT}: somebody changed the setting during the restore; the "
        f"restore would have set {otherwise or THE_DEFAULT}"
    )


def _target(name: str, partitions: int, records: int, configs: Mapping[str, str], now_ms: int) -> TargetTopic:
    policies = configs.get("cleanup.policy", "delete").split(",")
    deletes = "delete" in policies
    retention_ms = setting_number(configs, "retention.ms", -1) if deletes else -1
    retention_bytes = setting_number(configs, "retention.bytes", -1) if deletes else -1
    return TargetTopic(
        topic=name,
        partitions=partitions,
        records=records,
        max_batch_bytes=setting_number(configs, BATCH_LIMIT, UNLIMITED),
        oldest_taken_ms=now_ms - setting_number(configs, "message.timestamp.before.max.ms", UNLIMITED),
        newest_taken_ms=now_ms + setting_number(configs, "message.timestamp.after.max.ms", UNLIMITED),
        oldest_kept_ms=now_ms - retention_ms if retention_ms >= 0 else -UNLIMITED,
        kept_bytes=retention_bytes if retention_bytes >= 0 else UNLIMITED,
        keeps_times=configs.get("message.timestamp.type", "CreateTime") == "CreateTime",
        compacts="compact" in policies,
        deletes=deletes,
    )
