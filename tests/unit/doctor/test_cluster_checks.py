"""What is told of a cluster: brokers, rights, clocks."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from offsite.backup.cut.readings import STATE_TOPIC
from offsite.doctor import brokers, machine, rights, spark_start
from offsite.doctor.check import CheckVerdict
from offsite.doctor.parts import Parts
from offsite.kafka.config import BrokerAddress
from offsite.kafka.groups import FetchedGroups, GroupClient, GroupFailure
from offsite.model.clock import SystemClock
from offsite.model.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store
from tests.fake_cluster.cluster import THE_CLUSTER, FakeGroup
from tests.fake_cluster.site import Site
from tests.inline_runner import InlineRunner
from tests.unit.doctor.conftest import Examine, found, parts_of

NOBODY = BrokerAddress(host="127.0.0.1", port=1)
NO_NAME = BrokerAddress(host="broker.invalid", port=9092)


def test_a_broker_that_is_not_there_is_told_and_nothing_else_fails(site: Site, examined: Examine) -> None:
    site.source.address = NOBODY
    told = examined()
    assert told["kafka.bootstrap"].verdict is CheckVerdict.FAILED
    assert "OFF-1501" in told["kafka.bootstrap"].said
    behind = {name: each.verdict for name, each in told.items() if name.startswith(("rights.", "kafka.w", "kafka.a"))}
    assert set(behind.values()) == {CheckVerdict.SKIPPED}
    assert told["store.large"].verdict is CheckVerdict.OK


@pytest.mark.parametrize(("address", "why"), [(NO_NAME, "no such host"), (NOBODY, "refused")])
def test_a_broker_is_named_that_is_not_where_it_says(
    site: Site, parts: Parts, address: BrokerAddress, why: str
) -> None:
    site.source.advertised = address
    told = found(brokers.advertised, parts)
    assert told.verdict is CheckVerdict.FAILED
    assert f"broker 1 advertises {address}" in told.said
    assert why in told.said
    assert "advertised.listeners" in told.cure


def test_workers_tell_where_they_are_that_do_not_reach_a_broker(site: Site, parts: Parts) -> None:
    assert found(brokers.from_workers, parts).verdict is CheckVerdict.OK
    site.source.advertised = NOBODY
    told = found(brokers.from_workers, parts_of(site))
    assert told.verdict is CheckVerdict.FAILED
    assert f"a worker on {socket.gethostname()}" in told.said


def test_another_cluster_at_the_advertised_name_is_told(site: Site, parts: Parts) -> None:
    site.source.advertised = site.target.address
    told = found(brokers.advertised, parts)
    assert (told.verdict, "cluster target answers there" in told.said) == (CheckVerdict.FAILED, True)


def test_spark_is_seen_at_work(parts: Parts) -> None:
    told = found(spark_start.start, parts)
    assert told.verdict is CheckVerdict.OK
    assert "tasks on" in told.said


def test_workers_that_see_another_place_than_this_machine_are_told(site: Site, parts: Parts, tmp_path: Path) -> None:
    assert found(spark_start.store, parts).verdict is CheckVerdict.OK
    other = open_folder(tmp_path / "other")
    for prepare, said in ((lambda: None, "a worker on"), (lambda: Repository.init(other), "another repository")):
        prepare()
        parts.__dict__["runner"] = Elsewhere(other)
        told = found(spark_start.store, parts)
        assert (told.verdict, said in told.said) == (CheckVerdict.FAILED, True)


class Elsewhere(InlineRunner):
    """Workers for whom the folder of the repository is another one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, tasks: Any, function: Any, *, on_progress: Any = None) -> list[Any]:
        return [function.func(each, store=self._store) for each in tasks]


@pytest.mark.parametrize(("code", "right"), [(3, "Read"), (8, "Describe"), (10, "DescribeConfigs")])
def test_a_right_that_is_missing_on_a_wanted_topic_fails(site: Site, code: int, right: str) -> None:
    site.source.make_topic("orders")
    site.source.forbidden["orders"] = {code}
    told = found(rights.topics, parts_of(site, topics=parse_selection(["orders"])))
    assert told.verdict is CheckVerdict.FAILED
    assert f"orders ({right})" in told.said
    assert found(rights.topics, parts_of(site)).verdict is CheckVerdict.WARNING


def test_a_wanted_topic_that_is_hidden_is_told_from_one_that_is_not_there(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.hidden.add("orders")
    hidden = found(rights.topics, parts_of(site, topics=parse_selection(["orders"])))
    assert (hidden.verdict, hidden.exit_code) == (CheckVerdict.FAILED, 17)
    missing = found(rights.topics, parts_of(site, topics=parse_selection(["payments"])))
    assert (missing.verdict, missing.exit_code, "no topic payments" in missing.said) == (CheckVerdict.FAILED, 2, True)


def test_an_empty_list_proves_no_right(site: Site, parts: Parts) -> None:
    assert found(rights.topics, parts).verdict is CheckVerdict.SKIPPED
    site.source.forbidden[THE_CLUSTER] = {8}
    assert found(rights.groups, parts_of(site)).verdict is CheckVerdict.SKIPPED


def test_sizes_need_a_right_on_the_cluster(site: Site, parts: Parts) -> None:
    site.source.make_topic("orders")
    assert found(rights.log_dirs, parts).verdict is CheckVerdict.OK
    site.source.forbidden[THE_CLUSTER] = {8}
    told = found(rights.log_dirs, parts_of(site))
    assert (told.verdict, "no sizes" in told.cure) == (CheckVerdict.WARNING, True)


def test_what_transactions_need_is_told_with_what_its_lack_costs(site: Site, parts: Parts) -> None:
    assert found(rights.transactions, parts).verdict is CheckVerdict.SKIPPED
    site.source.make_topic(STATE_TOPIC)
    assert found(rights.transactions, parts).verdict is CheckVerdict.OK
    site.source.forbidden[STATE_TOPIC] = {3}
    assert "Read" in found(rights.transactions, parts).said
    site.source.hidden.add(STATE_TOPIC)
    told = found(rights.transactions, parts)
    assert (told.verdict, "consistent cut" in told.cure) == (CheckVerdict.WARNING, True)


def test_what_makes_restores_quick_is_told_and_its_lack_is_nothing_bad(site: Site, parts: Parts) -> None:
    """The sentence said of brokers without the request that the principal may not write, and broke off after "need"."""
    assert found(rights.outcomes, parts).said.startswith("outcomes of transactions may be written")
    site.source.forbidden[THE_CLUSTER] = {9}
    told = found(rights.outcomes, parts_of(site))
    assert told.verdict is CheckVerdict.OK
    assert told.said.startswith("outcomes of transactions may not be written, which no backup needs. ")
    assert told.said.endswith("they need the right ClusterAction on the cluster")
    site.source.forbidden.clear()
    site.source.takes_only_aborts = True
    assert found(rights.outcomes, parts_of(site)).said.endswith(
        "they need brokers that let clients commit transactions (these let clients only abort)"
    )


def test_a_group_that_cannot_be_read_for_another_reason_than_rights_is_no_matter_of_grants(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.source.groups["workers"] = FakeGroup()
    for error, cure in (("GROUP_AUTHORIZATION_FAILED", "grant Describe on groups"), ("NOT_COORDINATOR", "try again")):
        failure = GroupFailure(group="workers", error=error, message="why")
        fetched = FetchedGroups(groups={}, failed=(failure,))
        monkeypatch.setattr(GroupClient, "offsets", lambda *_, fetched=fetched: fetched)
        result = found(rights.groups, parts_of(site))
        assert (result.verdict, result.said, result.cure.startswith(cure)) == (
            CheckVerdict.WARNING,
            "workers: why",
            True,
        )


class OffBy(SystemClock):
    """A clock that is some milliseconds ahead."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


@pytest.mark.parametrize(
    ("ahead_ms", "verdict"), [(0, CheckVerdict.OK), (-60_000, CheckVerdict.WARNING), (600_000, CheckVerdict.FAILED)]
)
def test_the_stores_clock_is_compared_by_what_was_put(parts: Parts, ahead_ms: int, verdict: CheckVerdict) -> None:
    parts.clock = OffBy(ahead_ms)
    told = found(machine.store_clock, parts)
    assert told.verdict is verdict
    assert [each.key for each in parts.store.list("probes/")] == ["probes/create-only"]
    if ahead_ms:
        assert ("behind" if ahead_ms > 0 else "ahead") in told.said


def test_brokers_clocks_are_told_by_commits_of_groups_alone(site: Site, parts: Parts) -> None:
    assert found(machine.cluster_clock, parts).verdict is CheckVerdict.SKIPPED
    site.source.make_topic(machine.GROUPS_TOPIC)
    assert found(machine.cluster_clock, parts).verdict is CheckVerdict.SKIPPED
    site.source.write(machine.GROUPS_TOPIC, [b"x"])
    offset, stamp_ms = site.source.topics[machine.GROUPS_TOPIC].partitions[0].first_at(0)
    assert offset == 0
    long_after = found(machine.cluster_clock, parts)
    assert (long_after.verdict, "no group has committed" in long_after.said) == (CheckVerdict.SKIPPED, True)
    now_ms = SystemClock().now_ms()
    parts.clock = OffBy(stamp_ms - now_ms + 5_000)
    assert found(machine.cluster_clock, parts).verdict is CheckVerdict.OK
    parts.clock = OffBy(stamp_ms - now_ms - 120_000)
    told = found(machine.cluster_clock, parts)
    assert (told.verdict, "ahead" in told.said) == (CheckVerdict.WARNING, True)
