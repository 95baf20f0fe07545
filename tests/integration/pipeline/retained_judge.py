"""What a kept restore point must give back of topics that brokers delete from and compact, from acknowledgements alone.

Commits are read as the JSON that they are, as soon as they are there, and restored topics by a plain client; nothing of
offsite's code is used. Of each partition a point holds offsets `[log start, end)` as its own commits say, but for holes
that they name. What comes back was written so, at that offset, below the end; it may begin before the log start, where
the backup still holds more than the topic did. Of a topic that is not compacted each record of the range comes back, of
a compacted one the latest record of each key in it.

One thing no copy of a running compacted topic can promise: brokers may have compacted a record away because of a later
one that lies behind the end of the round, before the round could read it. Such keys are counted, not faults, and only
where that later record was old enough for that when the round committed. Nor can it promise a tombstone that brokers
had removed before a round read it, because that round came late: an older record of the key stays in the backup then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.integration.pipeline.retained_topics import LAG_S, LIMIT_S, TOMBSTONE_S, Row, WrittenTopic

FILLER = b"\0offsite-filler"
"""Records in the place of a compacted log's longest gaps."""
SILENT_MAX = 60

Read = Mapping[int, Mapping[int, Row]]
"""Partition to offset to record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a point says that it holds of a partition: `[start, end)` but for `holes`."""

    start: int
    end: int
    holes: tuple[tuple[int, int], ...] = ()

    def offsets(self) -> Iterator[int]:
        return (o for o in range(self.start, self.end) if not any(low <= o < high for low, high in self.holes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPoint:
    """A restore point as it was when it was made, by topic and partition. `reads`: end and time of each read."""

    seq: int
    at_s: float
    is_complete: bool
    held: Mapping[tuple[str, int], Held]
    reads: Mapping[tuple[str, int], tuple[tuple[int, float], ...]]

    def read_by_s(self, key: tuple[str, int], offset: int) -> float:
        """When an offset had been read, at the latest."""
        return next(at_s for end, at_s in self.reads[key] if end > offset)


@dataclass(slots=True, kw_only=True)
class CommitReader:
    """Folds commits, one after the other. `data`: their bytes, by number, as they were when they were new."""

    data: dict[int, bytes] = field(default_factory=dict)
    points: dict[int, ReadPoint] = field(default_factory=dict)
    forgotten: int = 0
    expired: int = 0
    compacted: int = 0
    roll_ups: int = 0
    _held: dict[tuple[str, int], Held] = field(default_factory=dict)
    _reads: dict[tuple[str, int], tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def take(self, data: bytes) -> None:
        item = json.loads(data)
        at_s = item["committed_at_ms"] / 1000
        for each in item.get("positions", []):
            self._reads[_key(each)] = (*self._reads.get(_key(each), ()), (each["end"], at_s))
            before = self._held.get(_key(each), Held(start=0, end=0))
            self._held[_key(each)] = Held(start=each["log_start"], end=each["end"], holes=before.holes)
        for each in item.get("holes", []):
            before = self._held[_key(each)]
            holes = (*before.holes, (each["start"], each["end"]))
            self._held[_key(each)] = Held(start=before.start, end=before.end, holes=holes)
        self.data[item["seq"]] = data
        self.points[item["seq"]] = ReadPoint(
            seq=item["seq"],
            at_s=at_s,
            is_complete=not item.get("incomplete"),
            held=dict(self._held),
            reads=dict(self._reads),
        )
        self.forgotten += sum(each["end"] - each["start"] for each in item.get("forgotten", []))
        self.expired += len(item.get("expired", []))
        self.compacted += len(item.get("compacted", []))
        self.roll_ups += bool(item.get("removed")) and not item.get("compacted")


def _key(each: dict[str, Any]) -> tuple[str, int]:
    return each["topic"], each["partition"]


@dataclass(slots=True, kw_only=True)
class Judged:
    """`overtaken`: keys whose latest record brokers had compacted away because of a later one behind the end, or whose
    tombstone they had removed before it was read."""

    faults: list[str] = field(default_factory=list)
    records: int = 0
    keys: int = 0
    overtaken: int = 0


def judge(point: ReadPoint, written: WrittenTopic, found: Read, judged: Judged) -> None:
    """Add what is wrong with `found`, the topic as it came back from the point."""
    for partition, rows in written.rows.items():
        held = point.held.get((written.topic, partition), Held(start=0, end=0))
        read = found.get(partition, {})
        where = f"commit {point.seq}, {written.topic}/{partition} [{held.start}, {held.end})"
        judged.records += len(read)
        strange = [o for o, row in read.items() if not (o < held.end and rows[o].is_same(row))]
        if strange:
            judged.faults.append(f"{where}: {len(strange)} records never were there so, from {strange[0]}")
        elif not written.is_compacted:
            missing = [offset for offset in held.offsets() if offset not in read]
            if missing:
                judged.faults.append(f"{where}: {len(missing)} are missing, from {missing[0]} to {missing[-1]}")
        else:
            for fault in _by_key(point, (written.topic, partition), rows, read, judged):
                judged.faults.append(f"{where}: {fault}")


def _by_key(
    point: ReadPoint, where: tuple[str, int], rows: Sequence[Row], read: Mapping[int, Row], judged: Judged
) -> Iterator[str]:
    held = point.held.get(where, Held(start=0, end=0))
    wanted = {rows[offset].key: offset for offset in held.offsets()}
    latest = {row.key: offset for offset, row in sorted(read.items())}
    judged.keys += len(wanted)
    for key, offset in wanted.items():
        got = latest.get(key)
        if got == offset or (got is None and rows[offset].value is None):
            continue
        is_gone = rows[offset].value is None and rows[offset].acked_s < point.read_by_s(where, offset) - TOMBSTONE_S
        if is_gone or any(row.key == key and row.acked_s < point.at_s - LAG_S for row in rows[held.end :]):
            judged.overtaken += 1
            continue
        yield f"{key!r} is {got}, and was {offset}{' (a tombstone)' if rows[offset].value is None else ''}"


def read_topic(bootstrap: str, topic: str) -> Read:
    """All that a consumer sees of it now."""
    settings = {"group.id": "judge", "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0}
    quick = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
    client = Consumer({"bootstrap.servers": bootstrap, **quick, **settings})
    try:
        partitions = client.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        client.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: dict[int, dict[int, Row]] = {each: {} for each in partitions}
        ended: set[int | None] = set()
        silent = 0
        while len(ended) < len(found):
            messages = client.consume(10_000, timeout=1)
            silent = 0 if messages else silent + 1
            assert silent < SILENT_MAX, f"{topic}: brokers are silent"
            for message in messages:
                partition, error, key = message.partition() or 0, message.error(), message.key()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(partition)
                elif not (isinstance(key, bytes) and key.startswith(FILLER)):
                    row = Row(key, message.value(), message.timestamp()[1])  # type: ignore[arg-type]
                    found[partition][message.offset() or 0] = row
        return found
    finally:
        client.close()
