"""Changing settings of topics, one by one (the IncrementalAlterConfigs API, KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.topic_changes import TopicOutcome
from offsite.kafka.protocol.wire import Decoder, Encoder

VERSION = 0
_TOPIC = 2
_SET, _DELETE = 0, 1


def alter_topic_configs_request(changes: Mapping[str, Mapping[str, str | None]]) -> Request[Sequence[TopicOutcome]]:
    """Topic → setting → new value, or None to go back to the cluster's default. Settings not named stay as they are."""

    def put_setting(out: Encoder, setting: tuple[str, str | None]) -> None:
        name, value = setting
        out.string(name).i8(_DELETE if value is None else _SET).string(value)

    def put_topic(out: Encoder, item: tuple[str, Mapping[str, str | None]]) -> None:
        out.i8(_TOPIC).string(item[0]).array(item[1].items(), put_setting)

    body = Encoder().array(changes.items(), put_topic).boolean(False).done()
    return Request(api=Api.INCREMENTAL_ALTER_CONFIGS, version=VERSION, body=body, parse=_parse)


def _parse(answer: Decoder) -> Sequence[TopicOutcome]:
    answer.i32()  # throttle time
    return answer.array(_outcome)


def _outcome(answer: Decoder) -> TopicOutcome:
    code, detail = answer.i16(), answer.nullable_string()
    answer.i8()  # resource type
    return TopicOutcome(name=answer.string(), error_code=code, detail=detail or "")
