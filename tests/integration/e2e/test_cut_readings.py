"""The evidence for a cut, taken while exactly-once producers are at work."""

from __future__ import annotations

import pytest

from offsite.backup.cut.observed_ends import read_group_tail
from offsite.backup.cut.readings import begin_readings, take_readings
from offsite.log.transaction_state import TransactionStatus
from offsite.sandbox import SandboxInfo
from tests.conftest import StartSandbox
from tests.integration.e2e.cut_evidence import (
    Seen,
    assert_changes_are_all,
    assert_commits_are_all,
    assert_ends_alone_cut_transactions_in_half,
    assert_whole_where_clean,
    seen_at_work,
)
from tests.integration.e2e.transacting import keys_of, member, producer, write
from tests.integration.kafka.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(broker: SandboxInfo) -> Cluster:
    return Cluster(broker.bootstrap)


@pytest.fixture(scope="module")
def seen(cluster: Cluster) -> Seen:
    return seen_at_work(cluster)


def test_transactions_of_a_clean_producer_are_whole_or_not_there(seen: Seen) -> None:
    assert_whole_where_clean(seen)
    assert_ends_alone_cut_transactions_in_half(seen)


def test_all_that_coordinators_wrote_meanwhile_is_there(seen: Seen) -> None:
    assert_changes_are_all(seen)


def test_group_commits_are_there_with_their_markers(seen: Seen) -> None:
    assert_commits_are_all(seen)


def test_an_idle_id_is_listed_and_an_open_one_is_known_from_its_beginning(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    idle, hanging = producer(cluster, f"{topic}-idle"), producer(cluster, f"{topic}-open")
    write(idle, topic, 1, member(cluster, f"{topic}-idle"), 1)
    idle.commit_transaction()
    write(hanging, topic, 1, member(cluster, f"{topic}-open"), 1)
    begun = begin_readings(cluster.admin)
    taken = take_readings(cluster.admin, begun, keys_of(cluster, topic), unclean=lambda *_: ())
    tail = read_group_tail(cluster.admin, begun, taken, {})
    hanging.abort_transaction()
    listed = {each.transactional_id: each for each in taken.listed.values()}
    assert listed[f"{topic}-open"].status is TransactionStatus.ONGOING
    assert listed[f"{topic}-idle"].producer_id != listed[f"{topic}-open"].producer_id
    (commit,) = [each for each in tail.commits if each.commit.group == f"{topic}-open"]
    (still_open,) = tail.tails[commit.commit.log].open
    assert (still_open.producer_id, still_open.first_offset) == (commit.producer_id, commit.commit.position)
    assert commit.producer_id == listed[f"{topic}-open"].producer_id


def test_a_topic_that_is_not_there_and_then_is_has_begun_at_nothing(start_sandbox: StartSandbox) -> None:
    _, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    topic = cluster.make_topic()
    begun = begin_readings(cluster.admin)
    before = take_readings(cluster.admin, begun, keys_of(cluster, topic), unclean=lambda *_: ())
    made = producer(cluster, topic)
    write(made, topic, 1, member(cluster, topic), 1)
    made.commit_transaction()
    after = take_readings(cluster.admin, begun, keys_of(cluster, topic), unclean=lambda *_: ())
    assert (begun.state.is_absent, before.changes, dict(before.readings[0].after)) == (True, (), {})
    statuses = [each.status for each in after.changes or ()]
    assert statuses[:2] == [TransactionStatus.EMPTY, TransactionStatus.ONGOING]
    assert min(each.position for each in after.changes or ()) == 0
