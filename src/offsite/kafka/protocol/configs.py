"""The settings of topics beyond the cluster's defaults, and of brokers (the DescribeConfigs API); and changing those of
topics, one by one (the IncrementalAlterConfigs API, KIP-339)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.topic_changes import TopicOutcome
from offsite.kafka.protocol.wire import Decoder, Encoder

DESCRIBE_VERSION = 2
_TOPIC, _BROKER = 2, 4
_SET_ON_TOPIC = 1
ALTER_VERSION = 0
_SET, _DELETE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    value: str | None
    source: int


def topic_configs_request(
    topics: Iterable[str], *, with_defaults: bool = False
) -> Request[Mapping[str, Mapping[str, str]]]:
    """Topic → its own settings by name, `with_defaults` also those it has from its brokers.

    Raises the mapped error of the first topic that cannot be described.
    """
    return _request(_TOPIC, topics, _parse_all if with_defaults else _parse_own)


def broker_configs_request(node_id: int) -> Request[Mapping[str, Mapping[str, str]]]:
    """The broker's id as text → its settings by name. Only that broker knows."""
    return _request(_BROKER, [str(node_id)], _parse_all)


def _request(
    kind: int, names: Iterable[str], parse: Callable[[Decoder], Mapping[str, Mapping[str, str]]]
) -> Request[Mapping[str, Mapping[str, str]]]:
    def put(out: Encoder, name: str) -> None:
        out.i8(kind).string(name).array(None, Encoder.string)

    body = Encoder().array(names, put).boolean(False).done()
    return Request(api=Api.DESCRIBE_CONFIGS, version=DESCRIBE_VERSION, body=body, parse=parse)


def _parse_own(answer: Decoder) -> Mapping[str, Mapping[str, str]]:
    return {topic: _values(e for e in entries if e.source == _SET_ON_TOPIC) for topic, entries in _parse(answer)}


def _parse_all(answer: Decoder) -> Mapping[str, Mapping[str, str]]:
    return {topic: _values(entries) for topic, entries in _parse(answer)}


def _parse(answer: Decoder) -> Sequence[tuple[str, Sequence[_Entry]]]:
    answer.i32()  # throttle time
    return answer.array(_resource)


def _values(entries: Iterable[_Entry]) -> Mapping[str, str]:
    return {each.name: each.value for each in entries if each.value is not None}


def _resource(answer: Decoder) -> tuple[str, Sequence[_Entry]]:
    code, message = answer.i16(), answer.string()
    answer.i8()  # resource type
    topic, entries = answer.string(), answer.array(_entry)
    if code:
        raise broker_error(code, f"describing the configuration of {topic}", detail=message)
    return topic, entries


def _entry(answer: Decoder) -> _Entry:
    name, value = answer.string(), answer.nullable_string()
    answer.boolean()  # read only
    source = answer.i8()
    answer.boolean()  # sensitive
    answer.array(_synonym)
    return _Entry(name=name, value=value, source=source)


def _synonym(answer: Decoder) -> None:
    answer.string()
    answer.nullable_string()
    answer.i8()


def alter_topic_configs_request(changes: Mapping[str, Mapping[str, str | None]]) -> Request[Sequence[TopicOutcome]]:
    """Topic → setting → new value, or None to go back to the cluster's default. Settings not named stay as they are."""

    def put_setting(out: Encoder, setting: tuple[str, str | None]) -> None:
        name, value = setting
        out.string(name).i8(_DELETE if value is None else _SET).string(value)

    def put_topic(out: Encoder, item: tuple[str, Mapping[str, str | None]]) -> None:
        out.i8(_TOPIC).string(item[0]).array(item[1].items(), put_setting)

    body = Encoder().array(changes.items(), put_topic).boolean(False).done()
    return Request(api=Api.INCREMENTAL_ALTER_CONFIGS, version=ALTER_VERSION, body=body, parse=_parse_altered)


def _parse_altered(answer: Decoder) -> Sequence[TopicOutcome]:
    answer.i32()  # throttle time
    return answer.array(_outcome)


def _outcome(answer: Decoder) -> TopicOutcome:
    code, detail = answer.i16(), answer.nullable_string()
    answer.i8()  # resource type
    return TopicOutcome(name=answer.string(), error_code=code, detail=detail or "")
