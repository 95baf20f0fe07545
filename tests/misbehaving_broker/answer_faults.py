"""What an answer can say wrongly: well formed, and not the truth; or true, and easily taken for something else."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from offsite.kafka.protocol.logs import LATEST
from offsite.kafka.protocol.request import Api
from offsite.log.batch import CRC_START, scan
from tests.misbehaving_broker.exchange import Exchange
from tests.misbehaving_broker.messages import ANSWERS

NOT_APPENDED = -1
_NO_OFFSET = -1
_BITS = 8
_OFFSETS = ("high_watermark", "last_stable_offset", "log_start_offset", "offset", "end_offset", "base_offset")


def topics_of(body: Any) -> list[Any]:
    """The topics of an answer to Fetch, Produce, ListOffsets or OffsetForLeaderEpoch."""
    return body.responses if hasattr(body, "responses") else body.topics


def set_topics(body: Any, topics: list[Any]) -> None:
    setattr(body, "responses" if hasattr(body, "responses") else "topics", topics)


def partitions_field(topic: Any) -> str:
    return "partition_responses" if hasattr(topic, "partition_responses") else "partitions"


def partitions_of(body: Any) -> Iterator[Any]:
    for topic in topics_of(body):
        yield from getattr(topic, partitions_field(topic))


@dataclass(frozen=True)
class Throttled:
    """As a broker under a client quota answers (KIP-219): Fetch without any partition, others in full; then the
    connection is not served for so long."""

    throttle_ms: int = 20
    mutes: bool = True

    def __call__(self, exchange: Exchange) -> None:
        exchange.change(self._throttle)
        if self.mutes:
            exchange.link.pause(self.throttle_ms / 1000)

    def _throttle(self, body: Any) -> None:
        body.throttle_time_ms = self.throttle_ms
        if isinstance(body, ANSWERS[Api.FETCH]):
            body.responses = []


@dataclass(frozen=True)
class Emptied:
    """Fetch: the partition is there, without error, with a valid high watermark and no record, as when remote storage
    is slow (`remote.fetch.max.wait.ms`)."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.change(_empty)


@dataclass(frozen=True)
class WithoutPartitions:
    """The topic is there, and none of its partitions."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.change(self._strip)

    def _strip(self, body: Any) -> None:
        for topic in topics_of(body):
            setattr(topic, partitions_field(topic), [])


@dataclass(frozen=True)
class WithoutTopics:
    """Not even the topic is there."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.change(lambda body: set_topics(body, []))


@dataclass(frozen=True)
class StaleHighWatermark:
    """Fetch from a replica that lags: no records, and its end lies at or before what was asked for."""

    behind: int = 0

    def __call__(self, exchange: Exchange) -> None:
        asked = {
            each.partition: each.fetch_offset for topic in exchange.request.message.topics for each in topic.partitions
        }

        def lag(body: Any) -> None:
            _empty(body)
            for each in partitions_of(body):
                each.high_watermark = max(0, min(each.high_watermark, asked[each.partition_index] - self.behind))
                each.last_stable_offset = each.high_watermark

        exchange.change(lag)


@dataclass(frozen=True)
class Failing:
    """Each partition of the answer has an error code. `heard`: a Produce was carried out nevertheless."""

    code: int
    heard: bool = False

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.api == Api.PRODUCE and not self.heard:
            exchange.reply(
                exchange.request.header() + _refusal(exchange, self.code).encode(version=exchange.request.version)
            )
        else:
            exchange.change(self._fail)

    def _fail(self, body: Any) -> None:
        for each in partitions_of(body):
            each.error_code = self.code
            for name in (
                "high_watermark",
                "last_stable_offset",
                "log_start_offset",
                "offset",
                "end_offset",
                "base_offset",
            ):
                if hasattr(each, name):
                    setattr(each, name, _NO_OFFSET)
            if hasattr(each, "records"):
                each.records = b""


@dataclass(frozen=True)
class StaleOffsets:
    """ListOffsets tells of an earlier time: an end, or a start, that lies so much before the real one."""

    by: int = 1
    ends_only: bool = False

    def __call__(self, exchange: Exchange) -> None:
        topics = exchange.request.message.topics
        asks_for_ends = any(each.timestamp == LATEST for topic in topics for each in topic.partitions)
        if self.ends_only and not asks_for_ends:
            exchange.reply(exchange.ask())
        else:
            exchange.change(self._go_back)

    def _go_back(self, body: Any) -> None:
        for each in partitions_of(body):
            each.offset = max(0, each.offset - self.by) if each.offset >= 0 else each.offset


@dataclass(frozen=True)
class RecordsCut:
    """The records end early: inside the first batch, or in a later one."""

    within_first: bool = False

    def __call__(self, exchange: Exchange) -> None:
        def cut(records: bytes) -> bytes:
            sizes = [header.size_bytes for header in scan(memoryview(records))]
            limit = sizes[0] if sizes and self.within_first else len(records)
            return records[: exchange.random.randrange(limit)] if limit else records

        exchange.change(_on_records(cut))


@dataclass(frozen=True)
class RecordsFlipped:
    """One bit of what a CRC covers is another one."""

    def __call__(self, exchange: Exchange) -> None:
        def flip(records: bytes) -> bytes:
            headers = scan(memoryview(records))
            if not headers:
                return records
            hit = exchange.random.choice(headers)
            place = exchange.random.randrange(hit.position + CRC_START, hit.end_position)
            return _flipped(records, place, exchange.random.randrange(_BITS))

        exchange.change(_on_records(flip))


def _empty(body: Any) -> None:
    for each in partitions_of(body):
        each.records = b""


def _on_records(change: Callable[[bytes], bytes]) -> Callable[[Any], None]:
    def work(body: Any) -> None:
        for each in partitions_of(body):
            each.records = change(bytes(each.records or b""))

    return work


def _flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + struct.pack("B", data[place] ^ (1 << bit)) + data[place + 1 :]


def _refusal(exchange: Exchange, code: int) -> Any:
    """An answer to a Produce request that the broker never saw."""
    kind = ANSWERS[Api.PRODUCE]
    topic_kind = kind.TopicProduceResponse
    partition_kind = topic_kind.PartitionProduceResponse
    return kind(
        responses=[
            topic_kind(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    partition_kind(index=each.index, error_code=code, base_offset=NOT_APPENDED, record_errors=[])
                    for each in topic.partition_data
                ],
            )
            for topic in exchange.request.message.topic_data
        ],
        throttle_time_ms=0,
        version=exchange.request.version,
    )
