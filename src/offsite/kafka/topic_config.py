"""What is set on a topic beyond the cluster's defaults (the DescribeConfigs API)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsite.kafka.broker_errors import broker_error
from offsite.kafka.request import Api, Request
from offsite.kafka.wire import Decoder, Encoder

VERSION = 2
_TOPIC = 2
_SET_ON_TOPIC = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    value: str | None
    source: int


def topic_configs_request(topics: Iterable[str]) -> Request[Mapping[str, Mapping[str, str]]]:
    """Topic → its own settings by name. Raises the mapped error of the first topic that cannot be described."""

    def put(out: Encoder, topic: str) -> None:
        out.i8(_TOPIC).string(topic).array(None, Encoder.string)

    body = Encoder().array(topics, put).boolean(False).done()
    return Request(api=Api.DESCRIBE_CONFIGS, version=VERSION, body=body, parse=_parse)


def _parse(answer: Decoder) -> Mapping[str, Mapping[str, str]]:
    answer.i32()  # throttle time
    return dict(answer.array(_resource))


def _resource(answer: Decoder) -> tuple[str, Mapping[str, str]]:
    code, message = answer.i16(), answer.string()
    answer.i8()  # resource type
    topic, entries = answer.string(), answer.array(_entry)
    if code:
        raise broker_error(code, f"describing the configuration of {topic}", detail=message)
    return topic, {each.name: each.value for each in entries if each.source == _SET_ON_TOPIC and each.value is not None}


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
