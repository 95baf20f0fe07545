"""Create and delete topics (the CreateTopics and DeleteTopics APIs). The controller handles both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder

CREATE_VERSION = 4
DELETE_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `replication_factor` -1: the cluster's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """The result for one topic: `error_code` 0 means success."""

    name: str
    error_code: int
    detail: str = ""


def create_topics_request(
    topics: Iterable[NewTopic], *, timeout_ms: int, validate_only: bool = False
) -> Request[Sequence[TopicOutcome]]:
    body = Encoder().array(topics, _put_topic).i32(timeout_ms).boolean(validate_only).done()
    return Request(api=Api.CREATE_TOPICS, version=CREATE_VERSION, body=body, parse=_parse_created)


def delete_topics_request(names: Iterable[str], *, timeout_ms: int) -> Request[Sequence[TopicOutcome]]:
    body = Encoder().array(names, Encoder.string).i32(timeout_ms).done()
    return Request(api=Api.DELETE_TOPICS, version=DELETE_VERSION, body=body, parse=_parse_deleted)


def _put_topic(out: Encoder, topic: NewTopic) -> None:
    out.string(topic.name).i32(topic.partitions).i16(topic.replication_factor)
    out.array([], Encoder.i32)  # no replica assignment of our own
    out.array(topic.configs.items(), lambda _, setting: out.string(setting[0]).string(setting[1]))


def _parse_created(answer: Decoder) -> Sequence[TopicOutcome]:
    answer.i32()  # throttle time
    return answer.array(lambda topic: TopicOutcome(name=topic.string(), error_code=topic.i16(), detail=topic.string()))


def _parse_deleted(answer: Decoder) -> Sequence[TopicOutcome]:
    answer.i32()  # throttle time
    return answer.array(lambda topic: TopicOutcome(name=topic.string(), error_code=topic.i16()))
