"""Target topics of a restore: judged where they exist, made where they do not, and at the end given their settings.

While records are written, a created topic must not judge them: no retention, no compaction, times as the producer gave
them, however old or far ahead, batches as large as they are. `finish_topics` puts the source's own settings in place;
until then a crash leaves the safe ones, and the next run of the same command finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.topic_changes import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.size import KIB
from offsite.pipeline.restore_plan import TopicRestore
from offsite.pipeline.target_topic import TargetTopic

_UNLIMITED = 2**63 - 1
WHILE_RESTORING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(_UNLIMITED),
    "message.timestamp.after.max.ms": str(_UNLIMITED),
}
BATCH_LIMIT = "max.message.bytes"
KAFKA_BATCH_LIMIT_BYTES = 1024 * KIB + 12
"""What a broker takes unless it is configured otherwise."""
REENCODED_GROWTH_BYTES = 64 * KIB
"""By how much a batch may grow when its gaps are closed: another encoder compresses a little differently."""


def read_targets(admin: ClusterAdmin, names: Iterable[str], *, now_ms: int) -> list[TargetTopic]:
    """Those of the named topics that exist."""
    wanted = set(names)
    existing = {name: topic for name, topic in admin.topics().items() if name in wanted}
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in existing.values() for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    configs = admin.topic_configs(existing, with_defaults=True)
    records = dict.fromkeys(existing, 0)
    for each in partitions:
        records[each.topic] += ends[each] - starts[each]
    return [
        _target(name, len(topic.partitions), records[name], configs[name], now_ms) for name, topic in existing.items()
    ]


def create_topics(admin: ClusterAdmin, topics: Iterable[TopicRestore]) -> None:
    """Create those that do not exist, with the source's partitions, and as many replicas as there are brokers for."""
    wanted = [topic for topic in topics if topic.create]
    existing = admin.topics()
    brokers = len(admin.cluster().brokers)
    admin.create_topics(
        [
            NewTopic(
                name=topic.target,
                partitions=topic.source.partitions,
                replication_factor=max(1, min(topic.source.replication_factor, brokers)),
                configs=dict(topic.source.configs) | WHILE_RESTORING | _room_for_batches(topic),
            )
            for topic in wanted
            if topic.target not in existing
        ]
    )


def finish_topics(admin: ClusterAdmin, topics: Iterable[TopicRestore], *, now_ms: int) -> None:
    """Give created topics the source's settings, but for those that are held back. May be repeated.

    A batch limit that the source had from its brokers is kept on the topic where the target's brokers allow less.
    """
    created = [topic for topic in topics if topic.create]
    if not created:
        return
    admin.alter_topic_configs({topic.target: _final_settings(topic, now_ms) for topic in created})
    if large := [topic for topic in created if _needs_limit_of_its_own(topic)]:
        _raise_limits(admin, large)


def held_back(topic: TopicRestore, *, now_ms: int) -> dict[str, str]:
    """Settings of the source that would delete restored records at once, so that a created topic does without them
    until a person sets them. Only a retention that the topic itself has is known; the brokers' default is theirs."""
    source = dict(topic.source.configs)
    retention_ms = int(source.get("retention.ms", -1))
    deletes = "delete" in source.get("cleanup.policy", "delete") and retention_ms >= 0
    if topic.create and deletes and 0 <= topic.oldest_ms < now_ms - retention_ms:
        return {"retention.ms": source["retention.ms"]}
    return {}


def _target(name: str, partitions: int, records: int, configs: Mapping[str, str], now_ms: int) -> TargetTopic:
    keeps_times = configs.get("message.timestamp.type", "CreateTime") == "CreateTime"
    policies = configs.get("cleanup.policy", "delete").split(",")
    retention_ms = int(configs.get("retention.ms", -1)) if "delete" in policies else -1
    return TargetTopic(
        topic=name,
        partitions=partitions,
        records=records,
        max_batch_bytes=int(configs.get(BATCH_LIMIT, _UNLIMITED)),
        oldest_taken_ms=now_ms - int(configs.get("message.timestamp.before.max.ms", _UNLIMITED)),
        newest_taken_ms=now_ms + int(configs.get("message.timestamp.after.max.ms", _UNLIMITED)),
        oldest_kept_ms=now_ms - retention_ms if retention_ms >= 0 else -_UNLIMITED,
        keeps_times=keeps_times,
        compacts="compact" in policies,
    )


def _room_for_batches(topic: TopicRestore) -> dict[str, str]:
    needed_bytes = topic.largest_batch_bytes + REENCODED_GROWTH_BYTES
    own_bytes = int(dict(topic.source.configs).get(BATCH_LIMIT, KAFKA_BATCH_LIMIT_BYTES))
    return {BATCH_LIMIT: str(needed_bytes)} if needed_bytes > own_bytes else {}


def _final_settings(topic: TopicRestore, now_ms: int) -> dict[str, str | None]:
    source, held = dict(topic.source.configs), held_back(topic, now_ms=now_ms)
    names = (name for name in (*WHILE_RESTORING, BATCH_LIMIT) if name not in held)
    return {name: source.get(name) for name in names}


def _needs_limit_of_its_own(topic: TopicRestore) -> bool:
    return topic.largest_batch_bytes > KAFKA_BATCH_LIMIT_BYTES and BATCH_LIMIT not in dict(topic.source.configs)


def _raise_limits(admin: ClusterAdmin, topics: Sequence[TopicRestore]) -> None:
    found = admin.topic_configs([topic.target for topic in topics], with_defaults=True)
    changes = {
        topic.target: {BATCH_LIMIT: str(topic.largest_batch_bytes)}
        for topic in topics
        if topic.largest_batch_bytes > int(found[topic.target].get(BATCH_LIMIT, _UNLIMITED))
    }
    if changes:
        admin.alter_topic_configs(changes)
