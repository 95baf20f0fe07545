"""A leader made of a list of batches and a script of what it does instead of answering well."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.net.routing import Leader, SilentPartitions
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.logs import EARLIEST, ListedOffset
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Encoder
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import scan
from offsite.log.range import Chunk, Gap, Hole, LogRange, TopicPartition
from tests.virtual_time import VirtualClock

TOPIC = TopicPartition(topic="orders", partition=3)
_HEAD = struct.Struct(">iiiibii")  # of a Fetch request, before its topics
_OFFSET_POSITION = _HEAD.size + 4 + 2 + len(TOPIC.topic) + 4 + 4 + 4
_OUT_OF_RANGE = 1

BLANK, THROTTLED, LEFT_OUT, BEHIND = "blank", "throttled", "left out", "behind"
REDIRECTED, GARBLED, DELETED = "redirected", "garbled", "deleted"


@dataclass
class ScriptedLeader:
    """Answers fetches from `batches`, one batch each, unless `script` has something else for the next fetch; the last
    entry of `forever` is what it does when the script is over."""

    batches: Sequence[bytes]
    log_start: int = 0
    high_watermark: int = -1
    deleted_to: int = 0
    epoch: int = 5
    epoch_ends: dict[int, int] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    script: deque[str] = field(default_factory=deque)
    forever: str = ""
    asked: list[int] = field(default_factory=list)
    asked_bytes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.high_watermark < 0:
            self.high_watermark = scan(b"".join(self.batches))[-1].next_offset if self.batches else 0

    def answer(self, offset: int) -> memoryview:
        self.asked.append(offset)
        kind = self.script.popleft() if self.script else self.forever
        misbehaves: dict[str, Callable[[], memoryview]] = {
            THROTTLED: lambda: self._nothing(throttle_ms=2000),
            LEFT_OUT: lambda: self._nothing(throttle_ms=0),
            BEHIND: lambda: self._partition(b"", high_watermark=offset),
            BLANK: lambda: self._partition(b""),
            REDIRECTED: lambda: self._partition(b"", preferred_replica=2),
            GARBLED: lambda: memoryview(b"\x00\x01"),
        }
        if kind in misbehaves:
            return misbehaves[kind]()
        if kind == DELETED:
            self.log_start = self.deleted_to
        if not self.log_start <= offset <= self.high_watermark:
            return self._partition(b"", error_code=_OUT_OF_RANGE)
        records = next((b for b in self.batches if scan(b)[0].next_offset > offset), b"")
        return self._partition(records)

    def _nothing(self, *, throttle_ms: int) -> memoryview:
        return memoryview(Encoder().i32(throttle_ms).i16(0).i32(0).array([], Encoder.i8).done())

    def _partition(
        self, records: bytes, *, error_code: int = 0, high_watermark: int | None = None, preferred_replica: int = -1
    ) -> memoryview:
        end = self.high_watermark if high_watermark is None else high_watermark

        def put_partition(out: Encoder, _: int) -> None:
            out.i32(TOPIC.partition).i16(error_code).i64(end).i64(end).i64(self.log_start)
            out.array(None, Encoder.i8).i32(preferred_replica).blob(records)

        def put_topic(out: Encoder, _: int) -> None:
            out.string(TOPIC.topic).array([0], put_partition)

        return memoryview(Encoder().i32(0).i16(0).i32(0).array([0], put_topic).done())

    def list_offset(self, which: int) -> int:
        return self.log_start if which == EARLIEST else self.high_watermark


class ScriptedRouter:
    """Stands for `Router` and for the one connection it leases."""

    def __init__(self, leader: ScriptedLeader) -> None:
        self.config = KafkaConfig(bootstrap=(BrokerAddress(host="h", port=1),))
        self.silent_partitions = SilentPartitions()
        self.address = "h:1"
        self._leader = leader
        self._fetches: deque[memoryview] = deque()

    def leader(self, _: TopicPartition) -> Leader:
        return Leader(node_id=1, address=BrokerAddress(host="h", port=1), epoch=self._leader.epoch, topic_id=None)

    def forget(self, _: TopicPartition) -> None: ...

    @contextmanager
    def lease_leader(self, _: TopicPartition) -> Iterator[ScriptedRouter]:
        self._fetches.clear()
        yield self

    @contextmanager
    def lease_broker(self, node_id: int) -> Iterator[ScriptedRouter]:
        """The follower: as silent as the script says."""
        assert node_id == 2
        self._fetches.clear()
        yield self

    def has_version(self, _api: int, _version: int) -> bool:
        return False

    def check_version(self, _api: int, _version: int) -> None: ...

    def close(self) -> None: ...

    def send(self, api: int, _version: int, parts: Sequence[bytes], *, flexible: bool) -> None:
        assert (api, flexible) == (Api.FETCH, False)
        (offset,) = struct.unpack_from(">q", parts[0], _OFFSET_POSITION)
        self._leader.asked_bytes.append(_HEAD.unpack_from(parts[0])[3])
        self._fetches.append(self._leader.answer(offset))

    def receive(self, _buffer: object) -> memoryview:
        return self._fetches.popleft()

    def call(self, request: Request[Any]) -> Any:
        if request.api is Api.LIST_OFFSETS:
            (which,) = struct.unpack(">q", request.body[-8:])
            return {TOPIC: _listed(self._leader.list_offset(which))}
        if request.api is Api.OFFSET_FOR_LEADER_EPOCH:
            (epoch,) = struct.unpack(">i", request.body[-4:])
            return {TOPIC: _listed(self._leader.epoch_ends.get(epoch, -1))}
        assert request.api is Api.DESCRIBE_CONFIGS
        return TopicConfigs(configs={TOPIC.topic: self._leader.configs})


def _listed(offset: int) -> ListedOffset:
    return ListedOffset(offset=offset, timestamp_ms=-1, leader_epoch=-1, error_code=0)


@dataclass
class Reading:
    """What a reader made of it: base offsets of the batches, `(kind, start, end)` of the rest."""

    bases: list[int] = field(default_factory=list)
    others: list[tuple[str, int, int]] = field(default_factory=list)
    throttles_ms: list[int] = field(default_factory=list)


def read(leader: ScriptedLeader, start: int, end: int, *, into: Reading | None = None, **task: Any) -> Reading:
    """Read `[start, end)` to its end, or as far as `into` tells when it fails."""
    from offsite.kafka.read_task import ReadTask

    reading = Reading() if into is None else into
    router: Any = ScriptedRouter(leader)
    reader = PartitionReader(router, clock=VirtualClock(), on_throttle=reading.throttles_ms.append)
    log_range = LogRange(topic=TOPIC.topic, partition=TOPIC.partition, start=start, end=end)
    for item in reader.read_task(ReadTask(range=log_range, **task)):
        match item:
            case Chunk():
                reading.bases += [header.base_offset for header in item.batches]
            case Hole():
                reading.others.append((item.reason, item.start, item.end))
            case Gap():
                reading.others.append((item.evidence.value, item.start, item.end))
    return reading
