"""Brokers before 2.8 give topics no ids: each has a position of its own, and one that was made anew is told apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.errors import TopicReplaced
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxSettings
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import Cluster
from tests.shared_brokers import running

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("2.7.2"), SandboxSettings(kafka_version="2.7.2")) as (_, info):
        yield Cluster(info.bootstrap)


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    return Site(cluster, Repository.init(open_store(str(tmp_path / "repository"))), InlineRunner())


def numbered(name: str, count: int) -> list[bytes]:
    return [b"%s %d" % (name.encode(), number) for number in range(count)]


def test_topics_do_not_share_a_position(site: Site) -> None:
    long, short = site.make_topic(), site.make_topic()
    site.cluster.produce(long, numbered("long", 500))
    site.cluster.produce(short, numbered("short", 10))
    assert site.back_up(long, short).records == 510
    site.cluster.produce(short, numbered("more", 300))
    result = site.back_up()
    assert (result.records, result.complete) == (300, True)
    site.assert_comes_back(short)


def test_a_topic_made_anew_is_left_out_and_named(site: Site) -> None:
    topic, other = site.make_topic(), site.make_topic()
    site.cluster.produce(topic, numbered("old", 100))
    site.back_up(topic, other)
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([NewTopic(name=topic, partitions=1, configs={})])
    site.cluster.produce(topic, numbered("new", 200))
    site.cluster.produce(other, numbered("other", 20))
    result = site.back_up()
    assert [(each.topic, each.error) for each in result.failed] == [(topic, TopicReplaced.id)]
    assert result.records == 20
