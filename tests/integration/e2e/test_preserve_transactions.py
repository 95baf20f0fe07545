"""Transactions come back at their offsets: committed, aborted, overlapping, undecided."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from offsite.demo.data import DemoMessage, produce, read_topic
from offsite.engine.runner import Runner
from offsite.log.offset_vector import parse_before
from offsite.model.topic_choices import parse_renames
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.copies import Copy, clusters, messages
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import begun, with_transaction
from tests.integration.kafka.cluster import wait_until


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: transactions are the same whoever runs the tasks (`test_applications_go_on` has a Spark)."""
    return CrossingRunner()


@pytest.mark.soak
def test_two_hundred_committed_and_twenty_aborted_transactions_are_replayed(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    committed, aborted = replay_source(site, topic, 220)
    assert (committed, aborted) == (200, 20)
    site.back_up(topic)
    result = copy.restore(topic, offsets="auto")
    assert result.verified
    assert result.topics[topic].invisible_records > 0
    copy.assert_the_same_log(topic)
    markers = [[(b.header.base_offset, b.header.is_control) for b in c.read(c.whole(topic))] for c in clusters(copy)]
    assert markers[0] == markers[1]


def test_a_transaction_undecided_at_the_restore_point_is_aborted_in_the_place_of_its_last_record(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 5))
    with_transaction(site, topic, messages(5, 10), commit=True)
    open_ones = [begun(site, topic, messages(10, 20)), begun(site, topic, messages(20, 21))]
    site.produce(topic, messages(30, 33))
    site.back_up(topic)
    result = copy.restore(topic)
    assert result.topics[topic].undecided_transactions == 2
    assert result.verified
    (source,), (restored,) = copy.bounds(site.cluster, topic), copy.bounds(copy.target, topic)
    assert restored == source
    seen = read_topic(copy.target.bootstrap, topic)[0]
    assert [(record.offset, record.value) for record in seen] == [
        *((n, b"record %d" % n) for n in range(10)),
        *((n - 8, b"record %d" % n) for n in range(30, 33)),
    ]
    for producer in open_ones:
        producer.abort_transaction()


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("log_start", [4, 10], ids=["inside", "at the marker"])
def test_a_log_that_starts_inside_a_transaction_has_its_outcome(copy: Copy, log_start: int, commit: bool) -> None:
    site = copy.site
    topic = site.make_topic()
    with_transaction(site, topic, messages(0, 10), commit=commit)
    site.produce(topic, messages(10, 15))
    site.delete_before(topic, log_start)
    site.back_up(topic)
    assert copy.restore(topic).verified
    copy.assert_the_same_log(topic)
    site.assert_comes_back(topic)


def test_a_point_between_transactions_has_the_offsets_of_what_was_decided_then(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    for first, commit in ((0, True), (10, False), (20, True)):
        with_transaction(site, topic, messages(first, first + 10), commit=commit)
    site.back_up(topic)
    first_ones, last_ones = list(range(10)), list(range(22, 32))
    cuts = {5: [], 10: [], 11: first_ones, 16: first_ones, 32: first_ones, 33: [*first_ones, *last_ones]}
    for end, offsets in cuts.items():
        target = new_name(topic)
        before = parse_before([f"topic={topic},partition=0,offset={end}"])
        result = copy.restore(topic, before=before, renames=parse_renames([f"{topic}={target}"]))
        assert result.verified is (True if offsets else None)
        assert copy.bounds(copy.target, target) == [(0, end)]
        assert [record.offset for record in read_topic(copy.target.bootstrap, target)[0]] == offsets, end


def test_aborted_records_asked_for_as_plain_ones_are_translated(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    with_transaction(site, topic, messages(0, 5), commit=False)
    site.back_up(topic)
    assert copy.restore(topic, offsets="auto", isolation="read_uncommitted").records == 5
    assert copy.bounds(copy.target, topic) == [(0, 5)]


def replay_source(site: Site, topic: str, count: int) -> tuple[int, int]:
    """Pairs of transactions that overlap, plain records between them; every eleventh is aborted."""
    producers = [transactional(site, f"{topic}-{name}") for name in ("a", "b", "c", "d")]
    outcomes = [number % 11 != 5 for number in range(count)]
    numbers = iter(range(1_000_000))
    for (first, second), pair in zip(
        pairwise(producers * (count // 4 + 1)), zip(outcomes[::2], outcomes[1::2], strict=True), strict=False
    ):
        both = list(zip((first, second), pair, strict=True))
        for producer, _ in both:
            producer.begin_transaction()
        for _ in range(2):
            for producer, _ in both:
                produce(producer, topic, one(next(numbers)))
                producer.flush()
        site.produce(topic, one(next(numbers)), linger_ms=0)
        for producer, commit in both:
            end = site.cluster.end(topic)
            producer.commit_transaction() if commit else producer.abort_transaction()
            wait_until(lambda end=end: site.cluster.end(topic) == end + 1)  # type: ignore[misc]
    return sum(outcomes), len(outcomes) - sum(outcomes)


def one(number: int) -> Iterable[DemoMessage]:
    return messages(number, number + 1)


def transactional(site: Site, name: str) -> Producer:
    settings = {"bootstrap.servers": site.cluster.bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 3}
    producer = Producer(settings)
    producer.init_transactions()
    return producer
