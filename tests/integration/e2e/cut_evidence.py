"""What must hold of the readings of a cut on any Kafka, found out again by other means: all logs read from their
beginning when everything is over."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise

from offsite.cut.readings import Reading
from offsite.cut.window import PartitionKey
from offsite.log.transaction_state import TransactionChange
from offsite.services.cut.group_tail import GroupTail, read_group_tail
from offsite.services.cut.readings import Begun, TakenReadings, begin_readings, take_readings
from offsite.services.cut.state_log import STATE_TOPIC
from tests.integration.e2e.transfers import at_work, keys_of, markers_of
from tests.integration.kafka.cluster import Cluster

PARTITIONS, WORKERS, READINGS = 4, 3, 30
PREPARING = {2, 3, 7}

Markers = Mapping[PartitionKey, Mapping[int, Sequence[int]]]
States = Mapping[int, Sequence[tuple[int, int, int, int]]]
"""Producer id → log, position, epoch and status of each of its changes."""


class Seen:
    """One taking of readings under load, and all logs as they were when it was over."""

    def __init__(self, cluster: Cluster) -> None:
        self.topic = cluster.make_topic(partitions=PARTITIONS)
        self.keys = keys_of(cluster, self.topic)
        with at_work(cluster, self.topic, partitions=PARTITIONS, workers=WORKERS):
            self.begun: Begun = begin_readings(cluster.admin)
            self.taken: TakenReadings = take_readings(
                cluster.admin, self.begun, self.keys, unclean=lambda readings, *_: range(READINGS - len(readings))
            )
            self.tail: GroupTail = read_group_tail(cluster.admin, self.begun, self.taken, {self.topic: "id"})
        self.groups = [key for key in self.taken.readings[0].ends if key.topic == "__consumer_offsets"]
        self.markers = markers_of(cluster, [*self.keys, *self.groups])
        self.states = states_of(cluster)
        self.producers = sorted(self.markers[self.keys[0]])

    def clean(self, reading: Reading) -> list[int]:
        return [each for each in self.producers if is_clean(self.states[each], reading)]

    def kept(self, producer_id: int, ends: Mapping[PartitionKey, int]) -> set[int]:
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


def is_clean(states: Sequence[tuple[int, int, int, int]], reading: Reading) -> bool:
    before = [status for log, position, _, status in states if position < reading.before[log]]
    during = [status for log, position, _, status in states if reading.before[log] <= position < reading.after[log]]
    return not ({*before[-1:], *during} & PREPARING)


def assert_whole_where_clean(seen: Seen) -> None:
    readings = seen.taken.readings
    assert not seen.taken.failed
    for before, after in pairwise(readings):
        assert all(before.ends[key] <= after.ends[key] for key in before.ends)
    pairs = [(reading, each) for reading in readings for each in seen.clean(reading)]
    assert {each for _, each in pairs} == set(seen.producers), "nobody was ever unclean in all readings"
    broken = [
        (each, seen.kept(each, reading.ends)) for reading, each in pairs if len(seen.kept(each, reading.ends)) > 1
    ]
    assert broken == []


def assert_the_judge_can_see_half_a_transaction(seen: Seen) -> None:
    reading, each = next((reading, seen.clean(reading)[0]) for reading in seen.taken.readings if seen.clean(reading))
    last = max(offset for offset in seen.markers[seen.keys[0]][each] if offset < reading.ends[seen.keys[0]])
    assert len(seen.kept(each, {**reading.ends, seen.keys[0]: last})) > 1


def assert_changes_are_all(seen: Seen) -> None:
    """Every record between the two looks, and no other."""
    last = seen.taken.readings[-1].after
    expected = sorted(
        (log, position, producer_id, epoch, status)
        for producer_id, states in seen.states.items()
        for log, position, epoch, status in states
        if seen.begun.starts[log] <= position < last[log]
    )
    changes: Sequence[TransactionChange] = seen.taken.changes or ()
    assert [(each.log, each.position, each.producer_id, each.epoch, each.status) for each in changes] == expected
    assert expected


def assert_commits_are_all(seen: Seen) -> None:
    """Markers of `__consumer_offsets` from the first reading on, and what began there is known to begin there."""
    first, last = seen.taken.readings[0].ends, seen.taken.readings[-1].ends
    assert not seen.tail.failed
    for key in seen.groups:
        expected = sorted(at for some in seen.markers[key].values() for at in some if first[key] <= at < last[key])
        markers = seen.tail.tails[key].markers if key in seen.tail.tails else ()
        assert [each.offset for each in markers] == expected
        assert all(each.first_offset >= 0 for each in markers if each.producer_id in seen.producers)
    mine = [each for each in seen.tail.commits if each.commit.group.startswith(seen.topic)]
    assert mine
    assert all(each.commit.exactly_once and each.producer_id in seen.producers for each in mine)
    assert {each.commit.partition for each in mine} == {PartitionKey(seen.topic, "id", 0)}
