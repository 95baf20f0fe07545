"""Topics become KafkaTopic resources under names that Kubernetes takes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offsite.archives.strimzi.manifest import is_name
from offsite.archives.strimzi.topics import kafka_topics, resource_names
from offsite.model.options import StrimziVersion
from offsite.repository.commit import TopicShape

TOPIC_NAMES = st.sets(st.from_regex(r"\A[A-Za-z0-9._-]{1,249}\Z"), max_size=6)


def spec(shape: TopicShape) -> dict[str, Any]:
    ((written),) = kafka_topics([shape], cluster="shop", version=StrimziVersion.V1)
    of_topic: dict[str, Any] = written["spec"]  # type: ignore[assignment]
    return of_topic


def shape_of(topic: str = "orders", *, replication_factor: int = 3, **configs: str) -> TopicShape:
    pairs = tuple((name.replace("_", "."), value) for name, value in configs.items())
    return TopicShape(topic=topic, topic_id="id", partitions=12, replication_factor=replication_factor, configs=pairs)


def test_a_topic_has_its_partitions_replicas_and_settings() -> None:
    assert spec(shape_of(retention_ms="60000", cleanup_policy="compact,delete")) == {
        "partitions": 12,
        "replicas": 3,
        "config": {"retention.ms": "60000", "cleanup.policy": "compact,delete"},
    }


def test_settings_that_name_brokers_of_the_source_stay_out() -> None:
    assert "config" not in spec(shape_of(leader_replication_throttled_replicas="0:1"))


def test_an_unknown_replication_factor_is_left_to_the_brokers() -> None:
    assert "replicas" not in spec(shape_of(replication_factor=0))


def test_a_topic_whose_name_kubernetes_refuses_is_named_in_the_spec() -> None:
    (name,) = resource_names(["Orders_EU"]).values()
    assert name == "orders-eu-" + name[-8:]
    assert spec(shape_of("Orders_EU"))["topicName"] == "Orders_EU"
    assert "topicName" not in spec(shape_of("orders.eu"))


def test_topics_that_differ_in_case_alone_have_different_resources() -> None:
    names = resource_names(["orders", "Orders", "ORDERS", "orders_", "___", "-"])
    assert names["orders"] == "orders"
    assert len(set(names.values())) == 6


def test_a_name_does_not_depend_on_the_other_topics() -> None:
    alone = resource_names(["Orders"])["Orders"]
    assert resource_names(["Orders", "a", "ORDERS", "orders"])["Orders"] == alone
    taken = resource_names(["Orders", alone])
    assert taken[alone] == alone
    assert taken["Orders"] not in {alone, "Orders"}, "unless a topic has that very name"


@given(TOPIC_NAMES)
def test_names_are_valid_and_unique(topics: set[str]) -> None:
    names = resource_names(topics)
    assert names.keys() == topics
    assert len(set(names.values())) == len(topics)
    assert all(map(is_name, names.values()))
