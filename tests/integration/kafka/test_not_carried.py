"""What a real cluster has besides what is backed up: settings made while it runs, and of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from offsite.backup.cluster_settings import read_cluster_settings, read_configs, with_not_carried
from offsite.kafka.protocol.configs import GROUP
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.cluster_settings import ResourceConfigs
from offsite.sandbox import SandboxInfo
from tests.integration.kafka.cluster import Cluster, wait_until

BROKER, SET, DELETE = 4, 0, 1
SETTINGS = (
    (BROKER, "", "log.cleaner.threads", "2"),
    (BROKER, "1", "background.threads", "8"),
    (GROUP, "payers", "consumer.session.timeout.ms", "50000"),
)


@pytest.fixture
def configured(broker: SandboxInfo) -> Iterator[Cluster]:
    cluster = Cluster(broker.bootstrap)
    assert _altered(cluster, SET) == [0] * len(SETTINGS)
    yield cluster
    _altered(cluster, DELETE)


def _altered(cluster: Cluster, how: int) -> Sequence[int]:
    """The error codes of an IncrementalAlterConfigs."""

    def put(out: Encoder, setting: tuple[int, str, str, str]) -> None:
        kind, whose, name, value = setting
        out.i8(kind).string(whose).array([(name, value)], lambda to, each: to.string(each[0]).i8(how).string(each[1]))

    def read(answer: Decoder) -> Sequence[int]:
        return answer.array(_code)

    body = Encoder().array(SETTINGS, put).boolean(False).done()
    return cluster.router.call(Request(api=Api.INCREMENTAL_ALTER_CONFIGS, version=0, body=body, read=read))


def _code(answer: Decoder) -> int:
    code = answer.i16()
    answer.nullable_string()
    answer.i8()
    answer.string()
    return code


def _kept(cluster: Cluster) -> Sequence[ResourceConfigs]:
    return read_configs(Cluster(cluster.bootstrap).admin.settings)


def _named(cluster: Cluster) -> Sequence[str]:
    admin = Cluster(cluster.bootstrap).admin  # which remembers nothing
    return with_not_carried(read_cluster_settings(admin.settings), admin.settings, None).settings.not_carried


def test_what_was_set_while_it_ran_is_named(configured: Cluster) -> None:
    expected = ("settings of broker 1: background.threads",)
    wait_until(lambda: _named(configured) == expected)  # a controller answers before its brokers have heard


def test_settings_of_groups_and_of_all_brokers_are_kept_and_can_be_set_again(configured: Cluster) -> None:
    kept = (
        ResourceConfigs(kind="brokers", name="", configs=(("log.cleaner.threads", "2"),)),
        ResourceConfigs(kind="groups", name="payers", configs=(("consumer.session.timeout.ms", "50000"),)),
    )
    wait_until(lambda: _kept(configured) == kept)
    _altered(configured, DELETE)
    wait_until(lambda: _kept(configured) == ())
    unknown = ResourceConfigs(kind="groups", name="payers", configs=(("shiny.ms", "1"), kept[1].configs[0]))
    problems = configured.admin.settings.set_configs([kept[0], unknown])
    assert [bool(problem) for problem in problems] == [False, True, False]
    assert "shiny.ms" in problems[1]
    wait_until(lambda: _kept(configured) == kept)


def test_a_new_cluster_has_nothing_of_the_kind(broker: SandboxInfo) -> None:
    """Though Kafka 4.1 sets min.insync.replicas of all brokers by itself."""
    wait_until(lambda: not _named(Cluster(broker.bootstrap)))
