"""Restores as of a point between commits, of some partitions, under other names: on a real broker, judged by others."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from offsite.demo.data import BASE_MS, DemoMessage, TopicRecords
from offsite.engine.runner import Runner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.offset_vector import parse_before
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, NoSuchRestorePoint
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_partitions, parse_renames
from offsite.model.units import format_time
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import RestorePlanReport, report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from tests.begun_restores import put_own_record
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import Site, new_name, values
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import wait_until

SEED = 20261121


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: which records a point takes does not depend on who runs the tasks (`test_records` has a Spark)."""
    return CrossingRunner()


def restored(site: Site, topic: str, **request: object) -> TopicRecords:
    target = new_name(topic)
    renames = parse_renames([f"{topic}={target}"])
    wanted = RestoreRequest(selection=parse_selection([topic]), renames=renames, **request)  # type: ignore[arg-type]
    prepared = prepare_restore(site.backup, site.cluster.admin, wanted)
    run_restore(prepared, cluster=site.cluster, runner=site.spark)
    return site.read(target)


def shuffled(count: int) -> list[DemoMessage]:
    """Times that rise and fall, some of them the same."""
    offsets_ms = [random.Random(SEED).randrange(count) for _ in range(count)]
    return [DemoMessage(key=b"%d" % n, value=b"%d" % n, timestamp_ms=BASE_MS + t) for n, t in enumerate(offsets_ms)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_time_takes_exactly_the_records_of_then_and_before_in_whatever_order_they_stand(
    site: Site, codec: str
) -> None:
    topic = site.make_topic()
    messages = shuffled(5000)
    for first in range(0, 5000, 500):
        site.produce(topic, messages[first : first + 500], compression_type=codec, linger_ms=50)
        if first == 2000:
            site.back_up(topic)
    site.back_up()
    for until_ms in (BASE_MS - 1, BASE_MS + 1234, BASE_MS + 5000):
        reading = restored(site, topic, at=format_time(until_ms))
        assert values(reading) == [each.value for each in messages if (each.timestamp_ms or 0) <= until_ms]
        assert [r.timestamp_ms for r in reading[0]] == [
            each.timestamp_ms for each in messages if (each.timestamp_ms or 0) <= until_ms
        ]


def test_a_time_on_a_topic_that_its_broker_dates_cuts_where_the_broker_was_then(site: Site) -> None:
    topic = site.make_topic(message_timestamp_type="LogAppendTime")
    for first in range(0, 300, 100):
        site.produce(topic, numbered(first, first + 100))
    site.back_up(topic)
    source = site.read(topic)[0]
    until_ms = source[150].timestamp_ms
    expected = [record.value for record in source if record.timestamp_ms <= until_ms]
    assert values(restored(site, topic, at=str(until_ms))) == expected


def test_before_takes_one_partition_up_to_an_offset_and_the_others_whole(site: Site) -> None:
    topic = site.make_topic(partitions=3)
    for partition in range(3):
        site.produce(topic, numbered(0, 1000, partition=partition), linger_ms=50)
    site.back_up(topic)
    reading = restored(site, topic, before=parse_before([f"topic={topic},partition=1,offset=437"]))
    assert [len(reading[partition]) for partition in range(3)] == [1000, 437, 1000]
    assert values(reading, 1) == [b"%d" % n for n in range(437)]


def test_what_was_undecided_at_the_offset_is_left_out_and_what_was_committed_is_not(site: Site) -> None:
    topic = site.make_topic()
    with_transaction(site, topic, numbered(0, 10), commit=True)
    with_transaction(site, topic, numbered(10, 20), commit=False)
    with_transaction(site, topic, numbered(20, 30), commit=True)
    site.back_up(topic)
    first_marker, last_data = 10, 32
    cuts = {first_marker: 0, first_marker + 1: 10, last_data: 10, last_data + 1: 20}
    for end, visible in cuts.items():
        reading = restored(site, topic, before=parse_before([f"topic={topic},partition=0,offset={end}"]))
        assert len(reading[0]) == visible, f"before offset {end}"


def test_a_cut_given_as_offsets_is_taken_exactly_and_has_to_be_whole(site: Site) -> None:
    topic = site.make_topic(partitions=3)
    for partition in range(2):
        site.produce(topic, numbered(0, 100, partition=partition))
    site.back_up(topic)
    cut = {TopicPartition(topic=topic, partition=0): 7, TopicPartition(topic=topic, partition=1): 0}
    elsewhere = {TopicPartition(topic="elsewhere", partition=0): 5}
    assert [len(each) for each in restored(site, topic, ends=cut | elsewhere).values()] == [7, 0, 0]
    with pytest.raises(BadOption, match=f"{topic}/1"):
        restored(site, topic, ends={TopicPartition(topic=topic, partition=0): 7})
    with pytest.raises(NoSuchRestorePoint, match="to offset 100, not to 101"):
        restored(site, topic, ends=cut | {TopicPartition(topic=topic, partition=0): 101})


def test_an_older_commit_is_cut_by_the_same_options(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 100))
    first = site.back_up(topic).commit
    site.produce(topic, numbered(100, 200))
    site.back_up()
    assert len(restored(site, topic, at=str(BASE_MS + 150), commit=first)[0]) == 100
    assert len(restored(site, topic, at=str(BASE_MS + 49), commit=first)[0]) == 50
    with pytest.raises(NoSuchRestorePoint):
        restored(site, topic, before=parse_before([f"topic={topic},partition=0,offset=101"]), commit=first)


def test_chosen_partitions_come_back_under_their_numbers_and_the_others_are_empty(site: Site) -> None:
    topic = site.make_topic(partitions=4)
    for partition in range(4):
        site.produce(topic, numbered(0, 50, partition=partition))
    site.back_up(topic)
    reading = restored(site, topic, partitions=parse_partitions([f"{topic}:0,2-3"]))
    assert [len(reading[partition]) for partition in range(4)] == [50, 0, 50, 50]
    with pytest.raises(BadOption, match=f"{topic}:4"):
        restored(site, topic, partitions=parse_partitions([f"{topic}:4"]))


def test_a_pattern_renames_every_topic_it_matches(site: Site) -> None:
    topics = [site.make_topic() for _ in range(2)]
    for topic in topics:
        site.produce(topic, numbered(0, 10))
    site.back_up(*topics)
    suffix = new_name("x")
    request = RestoreRequest(selection=parse_selection(["*"]), renames=parse_renames([f"*=*-{suffix}"]))
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    run_restore(prepared, cluster=site.cluster, runner=site.spark)
    for topic in topics:
        site.assert_same(site.read(topic), site.read(f"{topic}-{suffix}"))


def test_a_relative_time_is_read_once_and_remembered_for_the_run_that_continues(site: Site) -> None:
    topic, target = site.make_topic(), new_name("target")
    now_ms = site.repository.store.now_ms()
    times_ms = range(now_ms - 60_000, now_ms + 60_000, 100)
    site.produce(topic, [DemoMessage(key=b"k", value=b"%d" % each, timestamp_ms=each) for each in times_ms])
    site.back_up(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]), at="20s-ago"
    )
    first = prepare_restore(site.backup, site.cluster.admin, request)
    until_ms = first.point.until_ms
    assert until_ms is not None
    put_own_record(first.backup.store, first.layout, first.record)
    site.cluster.admin.create_topics([NewTopic(name=target, partitions=1)])
    wait_until(lambda: first.backup.store.now_ms() > first.record.created_at_ms + 200)
    second = prepare_restore(site.backup, site.cluster.admin, request)
    assert second.resumes
    assert second.point.until_ms == until_ms
    result = run_restore(second, cluster=site.cluster, runner=site.spark)
    assert result.records == sum(each <= until_ms for each in times_ms)


def test_a_plan_says_what_a_cut_leaves_out(site: Site) -> None:
    topic = site.make_topic(partitions=2)
    for run in range(3):
        for partition in range(2):
            site.produce(topic, numbered(run * 100, run * 100 + 100, partition=partition))
        site.back_up(topic) if run == 0 else site.back_up()
    by_time = planned(site, topic, at=str(BASE_MS + 150))
    assert by_time.until_ms == BASE_MS + 150
    assert [(c.end, c.whole_segments, c.edge_segments, c.left_out_segments) for c in by_time.cuts] == [
        (300, 1, 2, 0)
    ] * 2
    by_offset = planned(site, topic, before=parse_before([f"topic={topic},partition=1,offset=120"]))
    (cut,) = by_offset.cuts
    assert (cut.partition, cut.end, cut.commit_end) == (1, 120, 300)
    assert (cut.whole_segments, cut.edge_segments, cut.left_out_segments) == (1, 1, 1)
    assert by_offset.records == 300 + 200
    assert planned(site, topic).cuts == ()


def planned(site: Site, topic: str, **request: object) -> RestorePlanReport:
    renames = parse_renames([f"{topic}={new_name(topic)}"])
    wanted = RestoreRequest(selection=parse_selection([topic]), renames=renames, **request)  # type: ignore[arg-type]
    return report_plan(prepare_restore(site.backup, site.cluster.admin, wanted))


def numbered(start: int, end: int, *, partition: int = 0) -> Sequence[DemoMessage]:
    return [
        DemoMessage(key=b"%d" % n, value=b"%d" % n, timestamp_ms=BASE_MS + n, partition=partition)
        for n in range(start, end)
    ]
