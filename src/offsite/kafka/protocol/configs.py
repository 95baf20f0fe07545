"""Settings of topics beyond the cluster's defaults, of brokers and of further resources.

Read: DescribeConfigs. Change single settings of topics: IncrementalAlterConfigs (KIP-339). Names of groups and client
metrics subscriptions: ListConfigResources (KIP-1142; before Kafka 4.1 ListClientMetricsResources, KIP-1000, with
subscriptions alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from offsite.kafka.protocol.broker_errors import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, broker_error
from offsite.kafka.protocol.metadata import TopicOutcome
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.cleanup_policy import DELETE_RETENTION
from offsite.model.errors import OffsiteError

T = TypeVar("T")

DESCRIBE_VERSION = 2
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""Types of resources."""
_SET_ON_TOPIC, _SET_ON_BROKER, _SET_ON_BROKERS, _SET_ON_GROUP = 1, 2, 3, 8
ALTER_VERSION = 0
_SET, _DELETE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigs:
    """Settings of topics. `configs`: by topic and name. `denied`: topics with unreadable settings, with the error.
    `delete_retention`: the value of `delete.retention.ms` in force by topic, also where brokers set it."""

    configs: Mapping[str, Mapping[str, str]]
    denied: Mapping[str, OffsiteError] = field(default_factory=dict)
    delete_retention: Mapping[str, str] = field(default_factory=dict)

    def with_more(self, more: TopicConfigs) -> TopicConfigs:
        """The settings of these topics and of those of `more`."""
        return TopicConfigs(
            configs={**self.configs, **more.configs},
            denied={**self.denied, **more.denied},
            delete_retention={**self.delete_retention, **more.delete_retention},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A setting. `synonyms`: value and source at every level, the effective level first. A secret has no value, even
    from a broker that tells it."""

    name: str
    value: str | None
    source: int
    synonyms: Sequence[tuple[str | None, int]]

    @property
    def is_changed(self) -> bool:
        """Whether the value differs, as far as visible, from the value without the dynamic setting."""
        below = [value for value, source in self.synonyms if source not in {_SET_ON_BROKER, _SET_ON_BROKERS}]
        return self.value is None or below[:1] != [self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """A topic or a broker with settings, or with an error instead."""

    name: str
    entries: Sequence[_Entry]
    code: int
    error: OffsiteError | None


def topic_configs_request(topics: Iterable[str], *, with_defaults: bool = False) -> Request[TopicConfigs]:
    """Request the own settings of topics; `with_defaults`: the settings inherited from brokers too.

    Raises the mapped error of the first topic without a description, except a denied topic.
    """
    return _request(TOPIC, topics, _read_all if with_defaults else _read_own)


def broker_configs_request(node_id: int) -> Request[Mapping[str, Mapping[str, str]]]:
    """Broker id as text → settings by name. Only the broker itself knows its settings."""
    return _request(BROKER, [str(node_id)], _read_broker)


def dynamic_configs_request(node_id: int) -> Request[Mapping[str, Mapping[str, str | None]]]:
    """Request the settings made while the broker ran, with a value different from the value without them; None for a
    secret. Keys: the broker's id as text, or an empty name for settings of all brokers.

    New clusters of Kafka 4.1 set min.insync.replicas of all brokers to the default value.
    """
    return _request(BROKER, [str(node_id)], _read_dynamic, with_synonyms=True)


def group_configs_request(groups: Iterable[str]) -> Request[Mapping[str, Mapping[str, str] | None]]:
    """Request the own settings of `groups`; None for a group whose settings may not be read. Brokers continue to list a
    group after its settings were removed. Raises the mapped error of the first group without a description."""
    return _request(GROUP, groups, _read_groups)


def group_values_request(groups: Iterable[str]) -> Request[Mapping[str, Mapping[str, str]]]:
    """Request the settings of groups, defaults included. A group without a description is absent."""
    return _request(GROUP, groups, _read_group_values)


def _request(
    kind: int, names: Iterable[str], read: Callable[[Decoder], T], *, with_synonyms: bool = False
) -> Request[T]:
    def put(out: Encoder, name: str) -> None:
        out.i8(kind).string(name).array(None, Encoder.string)

    body = Encoder().array(names, put).boolean(with_synonyms).done()
    return Request(api=Api.DESCRIBE_CONFIGS, version=DESCRIBE_VERSION, body=body, read=read)


def _read_own(answer: Decoder) -> TopicConfigs:
    return _topics(answer.array(_resource), lambda entry: entry.source == _SET_ON_TOPIC)


def _read_all(answer: Decoder) -> TopicConfigs:
    return _topics(answer.array(_resource), lambda _: True)


def _read_broker(answer: Decoder) -> Mapping[str, Mapping[str, str]]:
    return {resource.name: _values(resource.entries) for resource in _described(answer)}


def _read_dynamic(answer: Decoder) -> Mapping[str, Mapping[str, str | None]]:
    (broker,) = _described(answer)
    by_source = {_SET_ON_BROKER: broker.name, _SET_ON_BROKERS: ""}
    return {
        whose: {entry.name: entry.value for entry in broker.entries if entry.source == source and entry.is_changed}
        for source, whose in by_source.items()
    }


def _read_groups(answer: Decoder) -> Mapping[str, Mapping[str, str] | None]:
    resources = answer.array(_resource)
    for resource in resources:
        if resource.error is not None and resource.code != GROUP_AUTHORIZATION_FAILED:
            raise resource.error
    return {
        resource.name: _values(entry for entry in resource.entries if entry.source == _SET_ON_GROUP)
        if resource.error is None
        else None
        for resource in resources
    }


def _read_group_values(answer: Decoder) -> Mapping[str, Mapping[str, str]]:
    return {resource.name: _values(resource.entries) for resource in answer.array(_resource) if resource.error is None}


def _topics(resources: Sequence[_Resource], is_wanted: Callable[[_Entry], bool]) -> TopicConfigs:
    denied: dict[str, OffsiteError] = {}
    for resource in resources:
        if resource.error is not None:
            if resource.code != TOPIC_AUTHORIZATION_FAILED:
                raise resource.error
            denied[resource.name] = resource.error
    described = [resource for resource in resources if resource.error is None]
    return TopicConfigs(
        configs={resource.name: _values(filter(is_wanted, resource.entries)) for resource in described},
        denied=denied,
        delete_retention={
            resource.name: entry.value
            for resource in described
            for entry in resource.entries
            if entry.name == DELETE_RETENTION and entry.value is not None
        },
    )


def _described(answer: Decoder) -> Sequence[_Resource]:
    """The resources of an answer. Raises the error of the first resource without a description."""
    resources = answer.array(_resource)
    for resource in resources:
        if resource.error is not None:
            raise resource.error
    return resources


def _values(entries: Iterable[_Entry]) -> Mapping[str, str]:
    return {entry.name: entry.value for entry in entries if entry.value is not None}


def _resource(answer: Decoder) -> _Resource:
    code, message = answer.i16(), answer.nullable_string()
    answer.i8()  # resource type
    name, entries = answer.string(), answer.array(_entry)
    error = broker_error(code, f"describing the configuration of {name}", detail=message or "") if code else None
    return _Resource(name=name, entries=entries, code=code, error=error)


def _entry(answer: Decoder) -> _Entry:
    name, value = answer.string(), answer.nullable_string()
    answer.boolean()  # read only
    source = answer.i8()
    is_secret = answer.boolean()
    return _Entry(name=name, value=None if is_secret else value, source=source, synonyms=answer.array(_synonym))


def _synonym(answer: Decoder) -> tuple[str | None, int]:
    answer.string()
    return answer.nullable_string(), answer.i8()


def alter_configs_request(
    changes: Mapping[str, Mapping[str, str | None]], *, kind: int = TOPIC
) -> Request[Sequence[TopicOutcome]]:
    """Topic, or another resource of `kind`, → setting → new value, or None to return to the cluster's default. Unnamed
    settings stay."""

    def put_setting(out: Encoder, setting: tuple[str, str | None]) -> None:
        name, value = setting
        out.string(name).i8(_DELETE if value is None else _SET).string(value)

    def put_resource(out: Encoder, change: tuple[str, Mapping[str, str | None]]) -> None:
        out.i8(kind).string(change[0]).array(change[1].items(), put_setting)

    body = Encoder().array(changes.items(), put_resource).boolean(False).done()
    return Request(api=Api.INCREMENTAL_ALTER_CONFIGS, version=ALTER_VERSION, body=body, read=_read_outcomes)


def _read_outcomes(answer: Decoder) -> Sequence[TopicOutcome]:
    return answer.array(_outcome)


def _outcome(answer: Decoder) -> TopicOutcome:
    code, detail = answer.i16(), answer.nullable_string()
    answer.i8()  # resource type
    return TopicOutcome(name=answer.string(), error_code=code, detail=detail or "")


LIST_VERSIONS = (0, 1)
_TYPES_VERSION = 1


def config_resources_request(version: int) -> Request[Mapping[int, Sequence[str]]]:
    """Request the names of resources with settings, by type. Raises the mapped error of the answer."""
    out = Encoder(flexible=True)
    if version >= _TYPES_VERSION:
        out.array([CLIENT_METRICS, GROUP], Encoder.i8)

    def read(answer: Decoder) -> Mapping[int, Sequence[str]]:
        code, resources = answer.i16(), answer.array(lambda resource: _named_resource(resource, version))
        if code:
            raise broker_error(code, "listing what has settings")
        return {kind: sorted(name for name, of in resources if of == kind) for kind in (CLIENT_METRICS, GROUP)}

    return Request(api=Api.LIST_CONFIG_RESOURCES, version=version, body=out.end().done(), read=read, flexible=True)


def _named_resource(answer: Decoder, version: int) -> tuple[str, int]:
    name, kind = answer.string(), answer.i8() if version >= _TYPES_VERSION else CLIENT_METRICS
    answer.end()
    return name, kind
