"""What is set on a topic beyond the cluster's defaults, and on brokers (the DescribeConfigs API)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder

VERSION = 2
_TOPIC, _BROKER = 2, 4
_SET_ON_TOPIC = 1


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
    return Request(api=Api.DESCRIBE_CONFIGS, version=VERSION, body=body, parse=parse)


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
