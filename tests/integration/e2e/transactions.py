"""Transactions written by an independent client."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer

from offsite.demo.data import DemoMessage, produce
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import wait_until

ERRORS_ONLY = 3


def with_transaction(site: Site, topic: str, messages: Iterable[DemoMessage], *, commit: bool) -> None:
    """Write `messages` into partition 0 in one transaction; returns when its marker is in the log."""
    producer = begun(site, topic, messages)
    end = site.cluster.end(topic)
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    wait_until(lambda: site.cluster.end(topic) == end + 1)  # the answer to the client comes before the marker


def begun(site: Site, topic: str, messages: Iterable[DemoMessage]) -> Producer:
    """A producer with an open transaction whose records are in the log."""
    settings = {"bootstrap.servers": site.cluster.bootstrap, "transactional.id": new_name(topic)}
    producer = Producer({**settings, "log_level": ERRORS_ONLY})
    producer.init_transactions()
    producer.begin_transaction()
    produce(producer, topic, messages)
    producer.flush()
    return producer
