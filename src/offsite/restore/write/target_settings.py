"""The settings of a target topic: during the write, and at the end. Pure.

During the write a topic must not judge the records: no retention, no compaction, times as given by the producer,
however old or far ahead, batches of any size. At the end a created topic has the source's settings, an existing one its
own. A batch limit that the source had from its brokers stays on the topic when the target's brokers allow less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.model.bounds import setting_number
from offsite.model.options import RetentionMode
from offsite.model.units import KIB
from offsite.repository.restores.topic_settings import LeftOutSetting, TargetTopicSettings
from offsite.restore.write.plan import UNLIMITED, TargetTopic, TopicRestore, is_too_much, is_too_old

BATCH_LIMIT = "max.message.bytes"
KAFKA_BATCH_LIMIT_BYTES = 1024 * KIB + 12
"""Largest batch that a broker takes by default, in bytes."""
REENCODED_GROWTH = 2
"""Most growth of a batch by re-encoding, as a factor: the producer may have compressed much harder."""
REENCODED_MARGIN_BYTES = 64 * KIB
"""Additional growth in bytes, for batches too small to compress."""
AT_ONCE = "it would delete restored records immediately"
_RETENTION = {"retention.ms": "-1", "retention.bytes": "-1"}
_TIME_TYPE = {"message.timestamp.type": "CreateTime"}
_OLD_TIMES = {"message.timestamp.before.max.ms": str(UNLIMITED)}
_NEW_TIMES = {"message.timestamp.after.max.ms": str(UNLIMITED)}
WHILE_RESTORING = {"cleanup.policy": "delete"} | _RETENTION | _TIME_TYPE | _OLD_TIMES | _NEW_TIMES
_MIN_IN_SYNC = "min.insync.replicas"
_OF_THE_SOURCE = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDefaults:
    """Settings of the target's brokers for topics without settings of their own. A negative retention is no limit."""

    retention_ms: int = -1
    retention_bytes: int = -1
    deletes: bool = True
    min_in_sync: int = 1
    max_batch_bytes: int = KAFKA_BATCH_LIMIT_BYTES
    replication_factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Facts besides the topics for the decision. `brokers`: number of the target's brokers."""

    brokers: int
    now_ms: int
    retention: RetentionMode = RetentionMode.DEFAULT
    defaults: BrokerDefaults = BrokerDefaults()


def decide_settings(
    topic: TopicRestore, target: TargetTopic | None, circumstances: Circumstances
) -> TargetTopicSettings:
    """The settings of one target topic: of a topic to create (`target` None), or of an empty topic accepted by
    `target_problems`."""
    return _of_existing(topic, target, circumstances) if target is not None else _of_created(topic, circumstances)


def batch_limit_bytes(settings: TargetTopicSettings, defaults: BrokerDefaults) -> int:
    """The largest batch accepted by a topic to create, during the write."""
    return setting_number(dict(settings.configs) | dict(settings.meanwhile), BATCH_LIMIT, defaults.max_batch_bytes)


def without_settings(settings: TargetTopicSettings, refused: Mapping[str, str]) -> TargetTopicSettings:
    """The settings of a topic to create, less the settings refused by the target: setting → reason."""
    values = dict(settings.configs)
    lost = tuple(LeftOutSetting(setting=n, value=values[n], reason=why) for n, why in refused.items() if n in values)
    return replace(
        settings,
        configs=tuple((name, value) for name, value in settings.configs if name not in refused),
        meanwhile=tuple((name, value) for name, value in settings.meanwhile if name not in refused),
        at_end=tuple((name, value) for name, value in settings.at_end if name not in refused),
        left_out=(*settings.left_out, *lost),
    )


def _of_created(topic: TopicRestore, circumstances: Circumstances) -> TargetTopicSettings:
    source_replicas = topic.source.replication_factor
    replicas = max(
        1,
        min(
            source_replicas if source_replicas > 0 else circumstances.defaults.replication_factor, circumstances.brokers
        ),
    )
    left_out = tuple(_left_out(topic, replicas, circumstances))
    omitted_names = {omitted.setting for omitted in left_out}
    configs = {name: value for name, value in topic.source.configs if name not in omitted_names}
    if _MIN_IN_SYNC in omitted_names:
        configs[_MIN_IN_SYNC] = str(replicas)
    meanwhile = WHILE_RESTORING | _room_for_batches(topic, circumstances.defaults)
    if _MIN_IN_SYNC not in configs and circumstances.defaults.min_in_sync > replicas:
        meanwhile |= {_MIN_IN_SYNC: str(replicas)}
    stay = {name: value for name, value in _RETENTION.items() if name in omitted_names}
    at_end = {name: configs.get(name, stay.get(name)) for name in meanwhile}
    if BATCH_LIMIT not in configs and topic.largest_batch_bytes > circumstances.defaults.max_batch_bytes:
        at_end[BATCH_LIMIT] = str(topic.largest_batch_bytes)
    return TargetTopicSettings(
        topic=topic.target,
        create=True,
        partitions=topic.partitions,
        replication_factor=replicas,
        configs=_pairs(configs | stay),
        meanwhile=_pairs(meanwhile),
        at_end=tuple(sorted(at_end.items())),
        left_out=left_out,
    )


def _of_existing(topic: TopicRestore, target: TargetTopic, circumstances: Circumstances) -> TargetTopicSettings:
    """Only obstacles are set aside, and put back at the end."""
    meanwhile = dict(_obstacles(topic, target, circumstances))
    own_configs = dict(target.configs)
    return TargetTopicSettings(
        topic=topic.target,
        create=False,
        partitions=target.partitions,
        replication_factor=-1,
        configs=target.configs,
        meanwhile=_pairs(meanwhile),
        at_end=tuple((name, own_configs.get(name)) for name in sorted(meanwhile)),
    )


def _obstacles(topic: TopicRestore, target: TargetTopic, circumstances: Circumstances) -> Iterator[tuple[str, str]]:
    if target.compacts:
        yield "cleanup.policy", "delete"
        if not target.deletes:  # without compaction, retention begins to count, even as the brokers' default
            yield from _RETENTION.items()
    if topic.timestamp_max_ms >= 0:
        if not target.keeps_times:
            yield from _TIME_TYPE.items()
        if 0 <= topic.oldest_ms < target.oldest_taken_ms:
            yield from _OLD_TIMES.items()
        if topic.timestamp_max_ms > target.newest_taken_ms:
            yield from _NEW_TIMES.items()
    if circumstances.retention == RetentionMode.OVERRIDE:
        if is_too_old(target, topic):
            yield "retention.ms", "-1"
        if is_too_much(target, topic):
            yield "retention.bytes", "-1"


def _left_out(topic: TopicRestore, replicas: int, circumstances: Circumstances) -> Iterator[LeftOutSetting]:
    source = dict(topic.source.configs)
    for name in sorted(_OF_THE_SOURCE & source.keys()):
        yield LeftOutSetting(setting=name, value=source[name], reason="it names brokers of the source")
    if setting_number(source, _MIN_IN_SYNC, 1) > replicas:
        reason = f"the target has only {circumstances.brokers} brokers, so the value there is {replicas}"
        yield LeftOutSetting(setting=_MIN_IN_SYNC, value=source[_MIN_IN_SYNC], reason=reason)
    if circumstances.retention == RetentionMode.HOLD:
        for name in _deleting(topic, source, circumstances):
            yield LeftOutSetting(setting=name, value=source.get(name, ""), reason=AT_ONCE)


def _deleting(topic: TopicRestore, source: Mapping[str, str], circumstances: Circumstances) -> Iterator[str]:
    """The settings that delete records, from the topic's source or from the target's brokers."""
    policy, defaults = source.get("cleanup.policy"), circumstances.defaults
    if not (defaults.deletes if policy is None else "delete" in policy):
        return
    retention_ms = setting_number(source, "retention.ms", defaults.retention_ms)
    retention_bytes = setting_number(source, "retention.bytes", defaults.retention_bytes)
    if retention_ms >= 0 and topic.records and 0 <= topic.oldest_ms < circumstances.now_ms - retention_ms:
        yield "retention.ms"
    if 0 <= retention_bytes < topic.largest_partition_bytes:
        yield "retention.bytes"


def _room_for_batches(topic: TopicRestore, defaults: BrokerDefaults) -> dict[str, str]:
    needed_bytes = topic.largest_batch_bytes * REENCODED_GROWTH + REENCODED_MARGIN_BYTES
    own_bytes = setting_number(dict(topic.source.configs), BATCH_LIMIT, defaults.max_batch_bytes)
    return {BATCH_LIMIT: str(needed_bytes)} if needed_bytes > own_bytes else {}


def _pairs(configs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(configs.items()))
