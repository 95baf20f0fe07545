"""Kafka's messages as the proxy sees them: frames on a socket, request headers, and answers that can be changed.

Decoded by kafka-python's schemas, not by offsite's own decoder: the judge must not share the mistakes of the judged.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from tests.misbehaving_broker import share_group_messages

SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_CORRELATION = struct.Struct(">i")
_MODULES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    share_group_messages,
)


def _messages(suffix: str) -> dict[int, type[ApiMessage]]:
    names = [(module, name) for module in _MODULES for name in dir(module) if name.endswith(suffix)]
    classes = [getattr(module, name) for module, name in names]
    return {int(each.API_KEY): each for each in classes}


REQUESTS = _messages("Request")
ANSWERS = _messages("Response")


class HungUpError(Exception):
    """One of the two ends closed the connection."""


def read_frame(sock: socket.socket) -> bytes:
    """The next length-prefixed message, without its length. Raises `HungUpError`."""
    (size,) = SIZE.unpack(_read_exactly(sock, SIZE.size))
    return _read_exactly(sock, size)


def framed(payload: bytes) -> bytes:
    return SIZE.pack(len(payload)) + payload


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, position = memoryview(data), 0
    while position < size:
        try:
            count = sock.recv_into(view[position:])
        except OSError as error:
            raise HungUpError from error
        if not count:
            raise HungUpError
        position += count
    return bytes(data)


@dataclass(frozen=True)
class Request:
    """A client's request. `topic_names` knows topics by their ids, as far as metadata answers told them."""

    payload: bytes
    topic_names: Mapping[UUID, str]

    @cached_property
    def api(self) -> int:
        return int(_KEY_AND_VERSION.unpack_from(self.payload)[0])

    @cached_property
    def version(self) -> int:
        return int(_KEY_AND_VERSION.unpack_from(self.payload)[1])

    @cached_property
    def message(self) -> Any:
        """The decoded body."""
        return REQUESTS[self.api].decode(self.payload[self._body_at :], version=self.version)

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What it is about, for the APIs that carry or place data; else nothing."""
        return tuple(self._partitions())

    def capped(self, limit_bytes: int) -> bytes:
        """The same Fetch, asking for no more than that: a broker still gives the first batch whole."""
        if self.api != Api.FETCH:
            return self.payload
        body = REQUESTS[self.api].decode(self.payload[self._body_at :], version=self.version)
        body._header = None
        body.max_bytes = min(body.max_bytes, limit_bytes)
        for topic in body.topics:
            for each in topic.partitions:
                each.partition_max_bytes = min(each.partition_max_bytes, limit_bytes)
        return self.payload[: self._body_at] + bytes(body.encode(version=self.version))

    @property
    def is_answered(self) -> bool:
        return self.api != Api.PRODUCE or self.message.acks != 0

    def decoded(self, answer: bytes) -> Any:
        """The body of an answer to this request."""
        body = ANSWERS[self.api].decode(answer[self._header_bytes :], version=self.version)
        body._header = None  # decoding leaves it unset, encoding looks at it
        return body

    def encoded(self, answer: bytes, body: Any) -> bytes:
        """The same answer with another body."""
        return answer[: self._header_bytes] + body.encode(version=self.version)

    def header(self) -> bytes:
        """Of an answer that the broker did not give."""
        (correlation,) = _CORRELATION.unpack_from(self.payload, _KEY_AND_VERSION.size)
        return _CORRELATION.pack(correlation) + bytes(self._header_bytes - _CORRELATION.size)

    @cached_property
    def _body_at(self) -> int:
        stream = io.BytesIO(self.payload)
        RequestHeader.decode(stream, flexible=REQUESTS[self.api].flexible_version_q(self.version))
        return stream.tell()

    @property
    def _header_bytes(self) -> int:
        """Correlation id, and in flexible versions an empty set of tags; ApiVersions never has them."""
        flexible = self.api != Api.API_VERSIONS and ANSWERS[self.api].flexible_version_q(self.version)
        return _CORRELATION.size + (1 if flexible else 0)

    def _partitions(self) -> Iterator[TopicPartition]:
        match self.api:
            case Api.FETCH:
                found = [(topic, each.partition) for topic in self.message.topics for each in topic.partitions]
            case Api.PRODUCE:
                found = [(topic, each.index) for topic in self.message.topic_data for each in topic.partition_data]
            case Api.LIST_OFFSETS:
                found = [(topic, each.partition_index) for topic in self.message.topics for each in topic.partitions]
            case Api.OFFSET_FOR_LEADER_EPOCH:
                found = [(topic, each.partition) for topic in self.message.topics for each in topic.partitions]
            case _:
                found = []
        for topic, partition in found:
            yield TopicPartition(topic=self._name(topic), partition=partition)

    def _name(self, topic: Any) -> str:
        """Either field may be absent, or empty, in a version."""
        name = getattr(topic, "topic", None) or getattr(topic, "name", None)
        return str(name or self.topic_names.get(getattr(topic, "topic_id", None), ""))
