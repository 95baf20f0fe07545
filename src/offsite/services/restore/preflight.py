"""Finds all obstacles of a restore before a byte is written, and reports them together.

Reads only: brokers validate the creation of a topic, and create none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol

from offsite.copy.restore.plan import TopicRestore
from offsite.copy.restore.target_settings import (
    KAFKA_BATCH_LIMIT_BYTES,
    BrokerDefaults,
    Circumstances,
    batch_limit_bytes,
    decide_settings,
    without,
)
from offsite.copy.restore.target_topic import TargetTopic, batches_too_large, target_problems
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.protocol.broker_errors import INVALID_CONFIG, POLICY_VIOLATION, broker_error
from offsite.kafka.protocol.topic_changes import NewTopic
from offsite.model.choices import RetentionMode
from offsite.model.errors import KafkaNotAuthorized, OffsiteError, RestoreRefused
from offsite.model.untrusted.whole_number import setting_number
from offsite.repository.restores.topic_settings import TopicSettings
from offsite.services.restore.request import RestoreRequest
from offsite.services.restore.topics import new_topic, rights_problems

_SETTING_REFUSED = frozenset({INVALID_CONFIG, POLICY_VIOLATION})
"""A policy may refuse the topic itself: a try without the settings shows such a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Result of the checks. `problems` stop the restore; `settings` are the settings of every target topic
    otherwise."""

    problems: tuple[OffsiteError, ...]
    settings: tuple[TopicSettings, ...]


def check_targets(
    admin: ClusterAdmin, topics: Sequence[TopicRestore], existing: Iterable[TargetTopic], given: Circumstances
) -> Preflight:
    """The problems and settings of every target topic, existing or new. Changes nothing."""
    found = {target.topic: target for target in existing}
    may_override = given.retention == RetentionMode.OVERRIDE
    problems = [
        problem
        for topic in topics
        if topic.target in found
        for problem in target_problems(found[topic.target], topic, may_override_retention=may_override)
    ]
    settings = [decide_settings(topic, found.get(topic.target), given) for topic in topics]
    kept, more = _check_settings(admin, settings)
    large = [
        batches_too_large(topic, limit_bytes)
        for topic, decided in zip(topics, kept, strict=True)
        if decided.create and topic.largest_batch_bytes > (limit_bytes := batch_limit_bytes(decided, given.defaults))
    ]
    return Preflight(problems=(*problems, *more, *large), settings=tuple(kept))


def circumstances(admin: ClusterAdmin, request: RestoreRequest, *, now_ms: int) -> Circumstances:
    """The facts for decisions about topics. Reads only."""
    return Circumstances(
        brokers=len(admin.cluster().brokers),
        now_ms=now_ms,
        retention=request.retention,
        defaults=read_broker_defaults(admin),
    )


def checked_settings(
    admin: ClusterAdmin,
    topics: Sequence[TopicRestore],
    existing: Iterable[TargetTopic],
    given: Circumstances,
    *,
    also: Sequence[OffsiteError] = (),
) -> tuple[TopicSettings, ...]:
    """The settings of every target topic. Raises all problems, including `also`, as one error."""
    found = check_targets(admin, topics, existing, given)
    refuse((*found.problems, *also))
    return found.settings


def refuse(problems: Sequence[OffsiteError]) -> None:
    """Raise one error that lists all of `problems`: of their own class if all have the same class, else
    `RestoreRefused`."""
    if not problems:
        return
    kinds = {type(problem) for problem in problems}
    kind = kinds.pop() if len(kinds) == 1 else RestoreRefused
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    raise kind("; ".join(problem.message for problem in problems), hint="; ".join(hints))


def _check_settings(
    admin: ClusterAdmin, settings: Sequence[TopicSettings]
) -> tuple[list[TopicSettings], list[OffsiteError]]:
    """Settings that the target refuses are left out of its topics; refusals for other reasons stop the restore."""
    made = [new_topic(each) for each in settings if each.create]
    at_end = [replace(new_topic(each), configs=dict(each.configs)) for each in settings if each.create]
    refused, refused_then = _refused_settings(admin, made), _refused_settings(admin, at_end)
    kept = [without(each, {**refused.get(each.topic, {}), **refused_then.get(each.topic, {})}) for each in settings]
    outcomes = admin.refused_topics([new_topic(each) for each in kept if each.create])
    problems = [broker_error(o.error_code, f"creating topic {o.name}", detail=o.detail) for o in outcomes.values()]
    denied = rights_problems(admin, [each for each in kept if not each.create])
    hint = "grant the principal these operations on the topics"
    return kept, [*problems, *(KafkaNotAuthorized(problem, hint=hint) for problem in denied)]


def _refused_settings(admin: ClusterAdmin, topics: Sequence[NewTopic]) -> Mapping[str, Mapping[str, str]]:
    """Topic → setting → the broker's reason. Settings are tried one by one only for a refused topic: in turns, every
    turn with one request for all such topics."""
    bad = _invalid(admin, topics)
    alone = [
        [replace(each, configs=dict([setting])) for setting in each.configs.items()]
        for each in topics
        if each.name in bad
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
    return {name: each.detail for name, each in outcomes.items() if each.error_code in _SETTING_REFUSED}


_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_KAFKA_RETENTION_HOURS = 168


class BrokerConfigs(Protocol):
    """The settings of all brokers."""

    def broker_configs(self) -> Sequence[Mapping[str, str]]: ...


def read_broker_defaults(admin: BrokerConfigs) -> BrokerDefaults:
    """The defaults of brokers for topics without a setting of their own; defaults can delete records, too. For every
    setting the strictest value of any broker; Kafka's own defaults without the right to read. Reads only."""
    try:
        found = [_defaults(configs) for configs in admin.broker_configs()]
    except KafkaNotAuthorized:
        found = [_defaults({})]
    return BrokerDefaults(
        retention_ms=_strictest([each.retention_ms for each in found]),
        retention_bytes=_strictest([each.retention_bytes for each in found]),
        deletes=any(each.deletes for each in found),
        min_in_sync=max(each.min_in_sync for each in found),
        max_batch_bytes=min(each.max_batch_bytes for each in found),
        replication_factor=max(each.replication_factor for each in found),
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
    return min((each for each in limits if each >= 0), default=-1)
