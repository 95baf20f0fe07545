"""Finds all obstacles of a restore before a byte is written, and reports them together.

Reads only: brokers validate the creation of a topic, and create none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.protocol.broker_errors import INVALID_CONFIG, POLICY_VIOLATION, broker_error
from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.bounds import setting_number
from offsite.model.errors import KafkaNotAuthorized, OffsiteError, RestoreRefused
from offsite.model.options import RetentionMode
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.restore.request import RestoreRequest
from offsite.restore.target_topics import new_topic, rights_problems
from offsite.restore.write.plan import TargetTopic, TopicRestore, batches_too_large, target_problems
from offsite.restore.write.target_settings import (
    KAFKA_BATCH_LIMIT_BYTES,
    BrokerDefaults,
    Circumstances,
    batch_limit_bytes,
    decide_settings,
    without_settings,
)

_SETTING_REFUSED = frozenset({INVALID_CONFIG, POLICY_VIOLATION})
"""A policy may refuse the topic itself: a try without the settings shows such a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Result of the checks. `problems` stop the restore; `settings` are the settings of every target topic
    otherwise."""

    problems: tuple[OffsiteError, ...]
    settings: tuple[TargetTopicSettings, ...]


def check_targets(
    admin: ClusterAdmin, topics: Sequence[TopicRestore], existing: Iterable[TargetTopic], facts: Circumstances
) -> Preflight:
    """The problems and settings of every target topic, existing or new. Changes nothing."""
    by_topic = {target.topic: target for target in existing}
    may_override = facts.retention == RetentionMode.OVERRIDE
    problems = [
        problem
        for topic in topics
        if topic.target in by_topic
        for problem in target_problems(by_topic[topic.target], topic, may_override_retention=may_override)
    ]
    settings = [decide_settings(topic, by_topic.get(topic.target), facts) for topic in topics]
    accepted, more = _check_settings(admin, settings)
    large = [
        batches_too_large(topic, limit_bytes)
        for topic, decided in zip(topics, accepted, strict=True)
        if decided.create and topic.largest_batch_bytes > (limit_bytes := batch_limit_bytes(decided, facts.defaults))
    ]
    return Preflight(problems=(*problems, *more, *large), settings=tuple(accepted))


def read_circumstances(admin: ClusterAdmin, request: RestoreRequest, *, now_ms: int) -> Circumstances:
    """The facts for decisions about topics. Reads only."""
    return Circumstances(
        brokers=len(admin.cluster().brokers),
        now_ms=now_ms,
        retention=request.retention,
        defaults=read_broker_defaults(admin),
    )


def check_settings(
    admin: ClusterAdmin,
    topics: Sequence[TopicRestore],
    existing: Iterable[TargetTopic],
    facts: Circumstances,
    *,
    also: Sequence[OffsiteError] = (),
) -> tuple[TargetTopicSettings, ...]:
    """The settings of every target topic. Raises all problems, including `also`, as one error."""
    preflight = check_targets(admin, topics, existing, facts)
    raise_problems((*preflight.problems, *also))
    return preflight.settings


def raise_problems(problems: Sequence[OffsiteError]) -> None:
    """Raise one error that lists all of `problems`: of their own class if all have the same class, else
    `RestoreRefused`."""
    if not problems:
        return
    kinds = {type(problem) for problem in problems}
    kind = kinds.pop() if len(kinds) == 1 else RestoreRefused
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    raise kind("; ".join(problem.message for problem in problems), hint="; ".join(hints))


def _check_settings(
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


_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_KAFKA_RETENTION_HOURS = 168


def read_broker_defaults(admin: ClusterAdmin) -> BrokerDefaults:
    """The defaults of brokers for topics without a setting of their own; defaults can delete records, too. For every
    setting the strictest value of any broker; Kafka's own defaults without the right to read. Reads only."""
    try:
        defaults = [_defaults(configs) for configs in admin.broker_configs()]
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
