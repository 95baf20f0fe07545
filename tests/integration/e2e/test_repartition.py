"""Topics that come back with another number of partitions, judged by librdkafka's own murmur2 partitioner."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest
from confluent_kafka import Producer

from offsite.demo.data import BASE_MS, DemoMessage, TopicRecords
from offsite.log.range import TopicPartition
from offsite.model.errors import KeylessRecord, StoreUnreachable, TargetMismatch
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_renames
from offsite.model.units import KIB
from offsite.repository.restores.layout import RestoreLayout
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.restore.write.attempt import RestoreEnds
from offsite.restore.write.repartition import repartition_tasks, repartition_topic
from offsite.stores.store import Store
from tests.faulty_store import FaultyStore
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import with_transaction

SEED = 4


def prepared_for(
    site: Site, topic: str, target: str, count: int, *, keyless_in_turn: bool = False, batch_bytes: int | None = None
) -> PlannedRestore:
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={target}"]),
        repartition=parse_partition_counts(
            [f"{topic}={count}"], keyless_in_turn=keyless_in_turn, batch_bytes=batch_bytes
        ),
    )
    return prepare_restore(site.backup, site.cluster.admin, request)


def run(site: Site, prepared: PlannedRestore) -> RestoreResult:
    return run_restore(prepared, cluster=site.cluster, runner=site.spark)


def produce_as_java(site: Site, topic: str, messages: Iterable[DemoMessage]) -> None:
    """Placed by key as Java's producer does it, and in order even where a new topic makes it try again."""
    settings = {"bootstrap.servers": site.cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5}
    producer = Producer({**settings, "partitioner": "murmur2_random"})
    for each in messages:
        producer.produce(topic, key=each.key, value=each.value, timestamp=each.timestamp_ms, headers=list(each.headers))
    assert producer.flush(60) == 0


def history(count: int, *, keys: int) -> list[DemoMessage]:
    rolls = random.Random(SEED)
    return [
        DemoMessage(
            key=b"" if (k := rolls.randrange(keys)) == 0 else b"customer-%d" % k,
            value=None if n % 97 == 0 else b"%d" % n,
            timestamp_ms=BASE_MS + n,
            headers=(("n", b"%d" % n), ("n", None)),
        )
        for n in range(count)
    ]


def by_key(reading: TopicRecords) -> Mapping[bytes | None, list[object]]:
    """What a key's records say, in order; that they all stand in one partition is checked on the way."""
    found, places = defaultdict(list), {}
    for partition, records in reading.items():
        for record in records:
            assert places.setdefault(record.key, partition) == partition
            found[record.key].append((record.value, record.headers, record.timestamp_ms))
    return found


@pytest.mark.parametrize("count", [1, 5, 40])
def test_each_key_goes_where_a_producer_would_write_it_and_keeps_its_order(site: Site, count: int) -> None:
    messages = history(6000, keys=300)
    topic, expected = site.make_topic(partitions=3), site.make_topic(partitions=count)
    produce_as_java(site, topic, messages)
    produce_as_java(site, expected, messages)
    site.back_up(topic)
    target = new_name(topic)
    result = run(site, prepared_for(site, topic, target, count))
    assert (result.records, result.topics[target].partitions) == (6000, count)
    wanted, reading = site.read(expected), site.read(target)
    assert {p: len(r) for p, r in reading.items()} == {p: len(r) for p, r in wanted.items()}
    assert by_key(reading) == by_key(wanted)


def test_a_record_without_a_key_is_refused_before_anything_is_made(site: Site) -> None:
    topic = site.make_topic(partitions=2)
    site.produce(
        topic,
        [
            DemoMessage(key=b"k", value=b"1", timestamp_ms=BASE_MS),
            DemoMessage(key=None, value=b"2", timestamp_ms=BASE_MS),
        ],
    )
    site.back_up(topic)
    target = new_name(topic)
    with pytest.raises(KeylessRecord, match=f"{topic}/0: the record at offset 1"):
        run(site, prepared_for(site, topic, target, 3))
    assert target not in site.cluster.admin.topics()
    assert not prepared_for(site, topic, target, 3).resumes


def test_records_without_a_key_go_round_when_asked_and_keyed_ones_stay_in_place(site: Site) -> None:
    topic = site.make_topic(partitions=2)
    keyed = [DemoMessage(key=None if n % 4 else b"k", value=b"%d" % n, timestamp_ms=BASE_MS) for n in range(400)]
    site.produce(topic, keyed)
    site.back_up(topic)
    target = new_name(topic)
    run(site, prepared_for(site, topic, target, 3, keyless_in_turn=True))
    reading = site.read(target)
    assert [sum(r.key is None for r in reading[p]) for p in range(3)] == [100, 100, 100]
    assert [r.value for p in range(3) for r in reading[p] if r.key] == [b"%d" % n for n in range(0, 400, 4)]


def test_aborted_records_stay_behind(site: Site) -> None:
    topic = site.make_topic()
    with_transaction(site, topic, history(50, keys=5), commit=True)
    with_transaction(site, topic, history(30, keys=5), commit=False)
    site.back_up(topic)
    target = new_name(topic)
    result = run(site, prepared_for(site, topic, target, 20))
    assert (result.records, result.topics[target].invisible_records) == (50, 30)
    assert by_key(site.read(target)) == by_key(site.read(topic))


def test_an_existing_topic_of_another_shape_is_refused_unless_the_records_are_distributed_anew(site: Site) -> None:
    topic, target = site.make_topic(partitions=2), site.make_topic(partitions=5)
    produce_as_java(site, topic, history(200, keys=20))
    site.back_up(topic)
    with pytest.raises(TargetMismatch) as refusal:
        prepared_for(site, topic, target, 2)
    assert f"--repartition {topic}=5" in refusal.value.hint
    assert run(site, prepared_for(site, topic, target, 5)).records == 200


@pytest.mark.parametrize("reads", [2, 5])
def test_a_second_attempt_adds_what_is_missing_and_doubles_nothing(site: Site, reads: int) -> None:
    messages = history(6000, keys=300)
    topic, target = site.make_topic(partitions=2), site.make_topic(partitions=5)
    for first in range(0, 6000, 2000):
        produce_as_java(site, topic, messages[first : first + 2000])
        site.back_up(topic) if first == 0 else site.back_up()
    # a few records make many batches
    (plan,) = prepared_for(site, topic, target, 5, batch_bytes=4 * KIB).plan.repartitions
    (task,) = repartition_tasks(plan, dict.fromkeys(partitions_of(target, 5), 0))
    with pytest.raises(StoreUnreachable):
        repartition_topic(task, ends=ends(site, FailingReads(site.backup.store, reads=reads)))
    written = sum(map(len, site.read(target).values()))
    receipts = repartition_topic(task, ends=ends(site, site.backup.store))
    assert 0 < written <= sum(each.resumed_records for each in receipts) < 6000
    assert sum(each.records for each in receipts) == 6000
    assert by_key(site.read(target)) == by_key(site.read(topic))


class FailingReads(FaultyStore):
    """Reads so many segments, then is away."""

    def __init__(self, inner: Store, *, reads: int) -> None:
        super().__init__(inner)
        self._left = reads

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        self._left -= 1
        if self._left < 0:
            raise StoreUnreachable("the store is away")
        return super().get_range(key, start, length)


def ends(site: Site, store: Store) -> RestoreEnds:
    layout = RestoreLayout(backup=site.backup.layout, restore="r")
    return RestoreEnds(kafka=site.cluster.config, store=store, records=store, layout=layout, read_committed=True)


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic=topic, partition=number) for number in range(count)]
