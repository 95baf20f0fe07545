"""What must hold of the readings of a cut on any Kafka, found out again by other means: all logs read from their
beginning when everything is over."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsite.backup.cut.observed_ends import GroupTail, read_group_tail
from offsite.backup.cut.readings import STATE_TOPIC, ReadingsBaseline, ReadingSeries, begin_readings, take_readings
from offsite.cut.readings import EndsReading
from offsite.log.range import PartitionId
from offsite.log.transaction_state import TransactionChange
from tests.integration.e2e.transacting import at_work, keys_of, markers_of
from tests.integration.kafka.cluster import Cluster

PARTITIONS, WORKERS, TAKINGS, READINGS = 20, 3, 4, 30
PREPARING = {2, 3, 7}

Markers = Mapping[PartitionId, Mapping[int, Sequence[int]]]
States = Mapping[int, Sequence[tuple[int, int, int, int]]]
"""Producer id → log, position, epoch and status of each of its changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    begun: ReadingsBaseline
    taken: ReadingSeries
    tail: GroupTail


class Seen:
    """Readings taken several times under load, and all logs as they were when it was over."""

    def __init__(self, cluster: Cluster) -> None:
        self.topic = cluster.make_topic(partitions=PARTITIONS)
        self.keys = keys_of(cluster, self.topic)
        with at_work(cluster, self.topic, partitions=PARTITIONS, workers=WORKERS):
            self.takings = [self._take(cluster) for _ in range(TAKINGS)]
        self.readings = [reading for each in self.takings for reading in each.taken.readings]
        self.groups = [key for key in self.readings[0].ends if key.topic == "__consumer_offsets"]
        self.markers = markers_of(cluster, [*self.keys, *self.groups])
        self.states = states_of(cluster)
        self.producers = sorted(self.markers[self.keys[0]])

    def _take(self, cluster: Cluster) -> Taking:
        def unclean(readings: Sequence[EndsReading], *_: object) -> Sequence[int]:
            return range(READINGS - len(readings))

        begun = begin_readings(cluster.admin)
        taken = take_readings(cluster.admin, begun, self.keys, unclean=unclean)
        return Taking(begun=begun, taken=taken, tail=read_group_tail(cluster.admin, begun, taken, {self.topic: "id"}))

    def clean(self, reading: EndsReading) -> list[int]:
        return [each for each in self.producers if is_clean(self.states[each], reading)]

    def kept(self, producer_id: int, ends: Mapping[PartitionId, int]) -> set[int]:
        """How many transactions end below `ends`, one number for each partition: every transaction has a marker in
        each, and in one log of groups."""
        logs = [*self.keys, *(key for key in self.groups if producer_id in self.markers[key])]
        return {sum(offset < ends[key] for offset in self.markers[key][producer_id]) for key in logs}


def states_of(cluster: Cluster) -> States:
    """By our own reading of the bytes: the prefix that both versions have."""
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    for number in range(len(cluster.admin.topics([STATE_TOPIC])[STATE_TOPIC].partitions)):
        for batch in cluster.read(cluster.whole(STATE_TOPIC, number)):
            for record in batch.records():
                _, producer_id, epoch, _, status = struct.unpack_from(">hqhib", record.value or b"")
                found.setdefault(producer_id, []).append((number, record.offset, epoch, status))
    return found


def is_clean(states: Sequence[tuple[int, int, int, int]], reading: EndsReading) -> bool:
    before = [status for log, position, _, status in states if position < reading.before[log]]
    during = [status for log, position, _, status in states if reading.before[log] <= position < reading.after[log]]
    return not ({*before[-1:], *during} & PREPARING)


def assert_whole_where_clean(seen: Seen) -> None:
    for before, after in pairwise(seen.readings):
        assert all(before.ends[key] <= after.ends[key] for key in before.ends)
    pairs = [(reading, each) for reading in seen.readings for each in seen.clean(reading)]
    assert {each for _, each in pairs} == set(seen.producers)
    broken = [(each, kept) for reading, each in pairs if len(kept := seen.kept(each, reading.ends)) > 1]
    assert broken == []


def seen_at_work(cluster: Cluster) -> Seen:
    """Again where, by chance, no reading fell amid the end of a transaction: it would prove nothing."""
    for _ in range(5):
        seen = Seen(cluster)
        if _cut_in_half(seen):
            break
    return seen


def assert_ends_alone_cut_transactions_in_half(seen: Seen) -> None:
    """Where a producer was not clean; otherwise this workload would prove nothing."""
    assert _cut_in_half(seen)


def _cut_in_half(seen: Seen) -> list[int]:
    """The producers with a transaction that is in some logs below the ends of a reading, and not in others."""
    pairs = [(reading, each) for reading in seen.readings for each in seen.producers if each not in seen.clean(reading)]
    return [each for reading, each in pairs if len(seen.kept(each, reading.ends)) > 1]


def assert_changes_are_all(seen: Seen) -> None:
    """Every record between the two looks, and no other."""
    for each in seen.takings:
        start, end = each.begun.starts, each.taken.readings[-1].after
        expected = sorted(
            (log, position, producer_id, epoch, status)
            for producer_id, states in seen.states.items()
            for log, position, epoch, status in states
            if start[log] <= position < end[log]
        )
        changes: Sequence[TransactionChange] = each.taken.changes or ()
        assert [(c.log, c.position, c.producer_id, c.epoch, c.status) for c in changes] == expected
        assert expected
        assert not each.taken.failed


def assert_commits_are_all(seen: Seen) -> None:
    """Markers of `__consumer_offsets` from the first reading on, and what began there is known to begin there."""
    for each in seen.takings:
        assert_tail_is_whole(seen, each)


def assert_tail_is_whole(seen: Seen, taking: Taking) -> None:
    first, last, tail = taking.taken.readings[0].ends, taking.taken.readings[-1].ends, taking.tail
    assert not tail.failed
    for key in seen.groups:
        expected = sorted(at for some in seen.markers[key].values() for at in some if first[key] <= at < last[key])
        markers = tail.tails[key].markers if key in tail.tails else ()
        assert [each.offset for each in markers if each.offset >= first[key]] == expected
        assert all(each.first_offset >= 0 for each in markers if each.producer_id in seen.producers)
    mine = [each for each in tail.commits if each.commit.group.startswith(seen.topic)]
    assert mine
    assert all(each.commit.exactly_once and each.producer_id in seen.producers for each in mine)
    assert {each.commit.partition for each in mine} == {PartitionId(seen.topic, "id", 0)}
