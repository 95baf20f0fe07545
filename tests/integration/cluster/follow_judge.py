"""What a backup that followed a busy source must hold, reckoned from acknowledgements alone.

The judge reads commits as the JSON that they are, and records as a plain client reads them from restored topics, or as
`offsite cat` prints them; of offsite's code it uses nothing. Each fault is a line of text: none means that the promise
was kept.

1. Kept up: what was acknowledged before a commit is behind the position of the next round's commit. Only a partition
   that this round names as left behind may be late.
2. Held: each acknowledged record below the position is there once, at its offset, or in a hole with a reason.
3. Holes are only where brokers delete, and only where they have.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.integration.cluster.busy_source import Life, Records

LATE_S = 2.0
"""What was acknowledged in the last moments before a plan may be unknown to a broker: new topics, new leaders."""
LIMIT_S = 60.0
SILENT_MAX = 60
STRANGE = -1

Key = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommit:
    """One commit as its bytes say. `is_round`: it completes a pass; a roll-up does not. `held`, `removed`: segments."""

    at_s: float
    is_round: bool
    positions: Mapping[Key, int]
    starts: Mapping[Key, int]
    holes: Sequence[tuple[Key, Hole]]
    left_behind: frozenset[Key]
    deleted: frozenset[str]
    added: Mapping[str, Key]
    removed: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Told:
    """What all commits together tell."""

    positions: dict[Key, int] = field(default_factory=dict)
    starts: dict[Key, int] = field(default_factory=dict)
    holes: dict[Key, list[Hole]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    segments: dict[str, Key] = field(default_factory=dict)
    roll_ups: int = 0

    def add(self, commit: ReadCommit) -> None:
        self.positions |= commit.positions
        self.starts = dict(commit.starts) | self.starts  # the first word counts
        for key, hole in commit.holes:
            self.holes.setdefault(key, []).append(hole)
        self.deleted |= commit.deleted
        self.segments |= commit.added
        for each in commit.removed:
            del self.segments[each]
        self.roll_ups += bool(commit.removed)


def read_commits(backup: Path) -> list[ReadCommit]:
    return [_commit(json.loads(path.read_bytes())) for path in sorted((backup / "commits").glob("*.json"))]


def told_by(commits: Sequence[ReadCommit]) -> Told:
    told = Told()
    for each in commits:
        told.add(each)
    return told


def _commit(item: dict[str, Any]) -> ReadCommit:
    positions = item.get("positions", [])
    holes = [(_key(each), Hole(**{n: each[n] for n in ("start", "end", "reason")})) for each in item.get("holes", [])]
    return ReadCommit(
        at_s=item["committed_at_ms"] / 1000,
        is_round=not item.get("incomplete") and "removed" not in item,
        positions={_key(each): each["end"] for each in positions},
        starts={_key(each): each["log_start"] for each in positions},
        holes=holes,
        left_behind=frozenset(_key(each) for each in item.get("left_behind", [])),
        deleted=frozenset(each["topic_id"] for each in item.get("topics", []) if "deleted_ms" in each),
        added={each["key"]: _key(each) for each in item.get("segments", [])},
        removed=frozenset(item.get("removed", [])),
    )


def _key(item: dict[str, Any]) -> Key:
    return item["topic_id"], item["partition"]


def late(commits: Sequence[ReadCommit], lives: Sequence[Life]) -> Iterator[str]:
    """Faults of the first kind."""
    told, before = Told(), None
    for number, commit in enumerate(commits, 1):
        told.add(commit)
        if commit.is_round and before is not None:
            for life in lives:
                if commit.at_s < life.deleted_s:
                    yield from _late(life, told, commit, until_s=before.at_s - LATE_S, number=number)
        before = commit


def _late(life: Life, told: Told, commit: ReadCommit, *, until_s: float, number: int) -> Iterator[str]:
    for partition, records in life.acked.items():
        key = (life.topic_id, partition)
        due = bisect_right(records.times_s, until_s)
        end = told.positions.get(key, 0)
        if due and records.offsets[due - 1] >= end and key not in commit.left_behind:
            missed = due - bisect_left(records.offsets, end)
            yield f"{life.topic}/{partition}: commit {number} ends at {end}: {missed} records had been there {LATE_S} s"


def not_held(life: Life, told: Told, found: Mapping[int, Records]) -> Iterator[str]:
    """Faults of the second kind, of one life as it was restored into a topic of its own: `found`."""
    for partition, acked in life.acked.items():
        key, read = (life.topic_id, partition), found.get(partition, Records())
        where = f"{life.topic}/{partition} ({life.topic_id})"
        yield from (f"{where}: {fault}" for fault in _not_held(acked, read, key, told))


def _not_held(acked: Records, read: Records, key: Key, told: Told) -> Iterator[str]:
    start, end, holes = told.starts.get(key, 0), told.positions.get(key, 0), told.holes.get(key, [])
    there = dict(zip(read.offsets, read.numbers, strict=True))
    if list(read.offsets) != sorted(set(read.offsets)) or list(read.numbers) != sorted(set(read.numbers)):
        yield "records are doubled, or in another order"
    if STRANGE in there.values():
        yield "records of another topic or partition"
    sent = zip(acked.offsets, acked.numbers, strict=True)
    gone = sorted((hole.start, hole.end) for hole in holes)
    for low, high in gone:
        if bisect_left(read.offsets, low) != bisect_left(read.offsets, high):
            yield f"records in the hole from {low} to {high}"
    lost = [o for o, number in sent if start <= o < end and there.get(o) != number and not _is_in(gone, o)]
    if lost:
        yield f"{len(lost)} acknowledged records are not there, from {lost[0]} to {lost[-1]}"
    if never := {o for o in there if not start <= o < end}:
        yield f"{len(never)} records are outside of [{start}, {end}), from {min(never)}"


def _is_in(spans: Sequence[tuple[int, int]], offset: int) -> bool:
    before = bisect_right(spans, (offset, math.inf))
    return before > 0 and offset < spans[before - 1][1]


def false_holes(life: Life, told: Told, low: Mapping[int, int]) -> Iterator[str]:
    """Faults of the third kind. `low`: where the log of each partition begins now."""
    for partition in life.acked:
        key = (life.topic_id, partition)
        gone = low.get(partition, 0) if life.is_losing else 0
        for hole in told.holes.get(key, []):
            if hole.end > gone or hole.reason != "retention":
                yield f"{life.topic}/{partition}: {hole}, while brokers have everything from {gone} on"
        if told.starts.get(key, 0) > gone:
            yield f"{life.topic}/{partition}: said to begin at {told.starts[key]}, while it does at {gone}"


def read_restored(bootstrap: str, topic: str, life: Life) -> dict[int, Records]:
    """All that a consumer sees of `topic`, which is to hold what `life` held."""
    settings = {"group.id": "judge", "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0}
    quick = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
    client = Consumer({"bootstrap.servers": bootstrap, **quick, **settings})
    try:
        partitions = client.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        client.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: dict[int, Records] = {each: Records() for each in partitions}
        ended: set[int | None] = set()
        silent = 0
        while len(ended) < len(found):
            messages = client.consume(10_000, timeout=1)
            silent = 0 if messages else silent + 1
            assert silent < SILENT_MAX, f"{topic}: brokers are silent"
            for message in messages:
                partition = message.partition() or 0
                if message.error() is None:
                    found[partition].offsets.append(message.offset() or 0)
                    found[partition].numbers.append(_number(message.value(), life, partition))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(partition)
        return found
    finally:
        client.close()


def read_shown(lines: Iterable[str], life: Life) -> dict[int, Records]:
    """All that `offsite cat -o jsonl` shows of the topic."""
    found = {each: Records() for each in life.acked}
    for line in lines:
        record = json.loads(line)
        of = found.setdefault(record["partition"], Records())
        of.offsets.append(record["offset"])
        of.numbers.append(_number(record["value"]["data"].encode(), life, record["partition"]))
    return found


def _number(value: bytes | None, life: Life, partition: int) -> int:
    topic_id, of, number, _ = (value or b"").split(b" ", 3)
    return int(number) if (topic_id.decode(), int(of)) == (life.topic_id, partition) else STRANGE
