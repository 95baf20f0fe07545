"""The settings of the target topics, during the write and at the end, and all obstacles of a restore, found before a
byte is written and reported together. Reads only: brokers validate the creation of a topic, and create none.

During the write a topic must not judge the records: no retention, no compaction, times as given by the producer,
however old or far ahead, batches of any size. At the end a created topic has the source's settings, an existing one its
own. A batch limit that the source had from its brokers stays on the topic when the target's brokers allow less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.protocol.broker_errors import INVALID_CONFIG, POLICY_VIOLATION, broker_error
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.settings import SettingsClient
from offsite.model.bounds import setting_number
from offsite.model.errors import KafkaNotAuthorized, OffsiteError, RestoreRefused
from offsite.model.names import amount
from offsite.model.options import RetentionMode
from offsite.model.units import KIB
from offsite.repository.restores.topic_settings import LeftOutSetting, TargetTopicSettings
from offsite.restore.request import RestoreRequest
from offsite.restore.target_topics import new_topic, rights_problems
from offsite.restore.write.plan import (
    BATCH_LIMIT,
    MIRROR,
    UNLIMITED,
    TargetTopic,
    TopicRestore,
    batches_too_large,
    is_too_much,
    is_too_old,
    target_problems,
)

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
_RECORD_LIMIT, _ANY_RECORD = "max.decompressed.message.bytes", {"max.decompressed.message.bytes": str(2**31 - 1)}
"""Since Kafka 4.4. The records of a topic may be older than its limit, and larger."""
_MIN_IN_SYNC = "min.insync.replicas"
OF_THE_SOURCE = {
    "leader.replication.throttled.replicas": "it names brokers of the source",
    "follower.replication.throttled.replicas": "it names brokers of the source",
    MIRROR: "it names a mirror of the source, and brokers refuse all other writers of a mirror",
}
_SETTING_REFUSED = frozenset({INVALID_CONFIG, POLICY_VIOLATION})
"""A policy may refuse the topic itself: a try without the settings shows such a refusal."""
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_KAFKA_RETENTION_HOURS = 168


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
    if _RECORD_LIMIT in configs:
        meanwhile |= _ANY_RECORD
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
    own_configs = dict(target.configs)
    meanwhile = dict(_obstacles(topic, target, circumstances)) | (_ANY_RECORD if _RECORD_LIMIT in own_configs else {})
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
    for name in sorted(OF_THE_SOURCE.keys() & source.keys()):
        yield LeftOutSetting(setting=name, value=source[name], reason=OF_THE_SOURCE[name])
    if setting_number(source, _MIN_IN_SYNC, 1) > replicas:
        reason = f"the target has only {amount(circumstances.brokers, 'broker')}, so the value there is {replicas}"
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


def read_circumstances(admin: ClusterAdmin, request: RestoreRequest, *, now_ms: int) -> Circumstances:
    """The facts for decisions about topics. Reads only."""
    return Circumstances(
        brokers=len(admin.cluster().brokers),
        now_ms=now_ms,
        retention=request.retention,
        defaults=read_broker_defaults(admin.settings),
    )


def check_settings(
    admin: ClusterAdmin,
    topics: Sequence[TopicRestore],
    existing: Iterable[TargetTopic],
    facts: Circumstances,
) -> tuple[tuple[TargetTopicSettings, ...], tuple[OffsiteError, ...]]:
    """The settings of every target topic, existing or new, and all problems. Changes nothing."""
    by_topic = {target.topic: target for target in existing}
    may_override = facts.retention == RetentionMode.OVERRIDE
    problems = [
        problem
        for topic in topics
        if topic.target in by_topic
        for problem in target_problems(by_topic[topic.target], topic, may_override_retention=may_override)
    ]
    settings = [decide_settings(topic, by_topic.get(topic.target), facts) for topic in topics]
    accepted, more = _without_refused(admin, settings)
    large = [
        batches_too_large(topic, limit_bytes)
        for topic, decided in zip(topics, accepted, strict=True)
        if decided.create and topic.largest_batch_bytes > (limit_bytes := batch_limit_bytes(decided, facts.defaults))
    ]
    return tuple(accepted), (*problems, *more, *large)


def raise_problems(problems: Sequence[OffsiteError]) -> None:
    """Raise one error that lists all of `problems`: of their own class if all have the same class, else
    `RestoreRefused`."""
    if not problems:
        return
    kinds = {type(problem) for problem in problems}
    kind = kinds.pop() if len(kinds) == 1 else RestoreRefused
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    raise kind("; ".join(problem.message for problem in problems), hint="; ".join(hints))


def _without_refused(
    admin: ClusterAdmin, settings: Sequence[TargetTopicSettings]
) -> tuple[list[TargetTopicSettings], list[OffsiteError]]:
    """Settings that the target refuses are left out of its topics; refusals for other reasons stop the restore."""
    new_topics = [new_topic(topic_settings) for topic_settings in settings if topic_settings.create]
    at_end = [
        replace(new_topic(topic_settings), configs=dict(topic_settings.configs))
        for topic_settings in settings
        if topic_settings.create
    ]
    refused, refused_then = _refused_settings(admin, new_topics), _refused_settings(admin, at_end)
    accepted = [
        without_settings(
            topic_settings, {**refused.get(topic_settings.topic, {}), **refused_then.get(topic_settings.topic, {})}
        )
        for topic_settings in settings
    ]
    outcomes = admin.refused_topics([new_topic(topic_settings) for topic_settings in accepted if topic_settings.create])
    problems = [broker_error(o.error_code, f"creating topic {o.name}", detail=o.detail) for o in outcomes.values()]
    denied = rights_problems(admin, [topic_settings for topic_settings in accepted if not topic_settings.create])
    hint = "grant the principal these operations on the topics"
    return accepted, [*problems, *(KafkaNotAuthorized(problem, hint=hint) for problem in denied)]


def _refused_settings(admin: ClusterAdmin, topics: Sequence[NewTopic]) -> Mapping[str, Mapping[str, str]]:
    """Topic → setting → the broker's reason. Settings are tried one by one only for a refused topic: in turns, every
    turn with one request for all such topics."""
    bad = _invalid(admin, topics)
    alone = [
        [replace(topic, configs=dict([setting])) for setting in topic.configs.items()]
        for topic in topics
        if topic.name in bad
    ]
    refused: dict[str, dict[str, str]] = {}
    for turn in zip_longest(*alone):
        tried = {topic.name: topic for topic in turn if topic is not None}
        for name, reason in _invalid(admin, list(tried.values())).items():
            (setting,) = tried[name].configs
            refused.setdefault(name, {})[setting] = f"the target refuses it: {reason}"
    return refused


def _invalid(admin: ClusterAdmin, topics: Sequence[NewTopic]) -> Mapping[str, str]:
    outcomes = admin.refused_topics(topics)
    return {name: outcome.detail for name, outcome in outcomes.items() if outcome.error_code in _SETTING_REFUSED}


def read_broker_defaults(client: SettingsClient) -> BrokerDefaults:
    """The defaults of brokers for topics without a setting of their own; defaults can delete records, too. For every
    setting the strictest value of any broker; Kafka's own defaults without the right to read. Reads only."""
    try:
        defaults = [_defaults(configs) for configs in client.broker_configs()]
    except KafkaNotAuthorized:
        defaults = [_defaults({})]
    return BrokerDefaults(
        retention_ms=_strictest([broker.retention_ms for broker in defaults]),
        retention_bytes=_strictest([broker.retention_bytes for broker in defaults]),
        deletes=any(broker.deletes for broker in defaults),
        min_in_sync=max(broker.min_in_sync for broker in defaults),
        max_batch_bytes=min(broker.max_batch_bytes for broker in defaults),
        replication_factor=max(broker.replication_factor for broker in defaults),
    )


def _defaults(configs: Mapping[str, str]) -> BrokerDefaults:
    return BrokerDefaults(
        retention_ms=_retention_ms(configs),
        retention_bytes=setting_number(configs, "log.retention.bytes", -1),
        deletes="delete" in configs.get("log.cleanup.policy", "delete"),
        min_in_sync=setting_number(configs, "min.insync.replicas", 1),
        max_batch_bytes=setting_number(configs, "message.max.bytes", KAFKA_BATCH_LIMIT_BYTES),
        replication_factor=setting_number(configs, "default.replication.factor", 1),
    )


def _retention_ms(configs: Mapping[str, str]) -> int:
    """The finest unit in the settings counts, as for brokers themselves."""
    if "log.retention.ms" in configs:
        return setting_number(configs, "log.retention.ms", -1)
    if "log.retention.minutes" in configs:
        return setting_number(configs, "log.retention.minutes", -1) * _MINUTE_MS
    return setting_number(configs, "log.retention.hours", _KAFKA_RETENTION_HOURS) * _HOUR_MS


def _strictest(limits: list[int]) -> int:
    """The smallest limit; a negative number means no limit."""
    return min((limit for limit in limits if limit >= 0), default=-1)
