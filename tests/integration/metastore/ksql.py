"""A ksqlDB service as its command topic shows it: commands written as ksqlDB writes them, each in a transaction."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.records.record import Record
from offsite.metastore.folder import topic_of_service
from offsite.metastore.source import CommandSource
from tests.integration.kafka.cluster import Cluster, wait_until

_numbers = itertools.count()
Written = tuple[bytes | None, bytes | None]


def create_stream(number: int, *, size: int = 0) -> Written:
    """A command, with a plan of about `size` bytes."""
    name = f"S{number}"
    command = {
        "statement": f"CREATE STREAM {name} (ID INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
        "streamsProperties": {},
        "originalProperties": {},
        "plan": {"@type": "ksqlPlanV1", "statementText": "x" * size} if size else None,
        "version": 18,
    }
    return f'"stream/`{name}`/create"'.encode(), json.dumps(command, separators=(",", ":")).encode()


@dataclass(slots=True)
class Ksql:
    """A service of its own in a cluster."""

    cluster: Cluster
    service: str = field(default_factory=lambda: f"Test{next(_numbers)}_")

    @property
    def topic(self) -> str:
        return topic_of_service(self.service)

    def make_topic(self) -> None:
        self.cluster.admin.create_topics(
            [NewTopic(name=self.topic, partitions=1, configs={"retention.ms": "-1", "cleanup.policy": "delete"})]
        )

    def write(self, commands: Sequence[Written], *, commit: bool = True, at_once: bool = False) -> None:
        """Each in a transaction of its own, or all in one. Outcomes are in the log on return: a coordinator answers
        before that."""
        end = self.cluster.end(self.topic)
        ends = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": self.service}
        producer = Producer({**ends, "message.max.bytes": 20_000_000})
        producer.init_transactions(30)
        for some in [commands] if at_once else [[each] for each in commands]:
            producer.begin_transaction()
            for key, value in some:
                producer.produce(self.topic, value, key=key, headers=[("h", b"1")])
            if commit:
                producer.commit_transaction(30)
            else:
                producer.flush(30)
                producer.abort_transaction(30)
            end += len(some) + 1
        wait_until(lambda: self.cluster.end(self.topic) >= end)

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """A transaction of somebody else, open in this block and aborted then."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "transactional.id": f"{self.service}-other"})
        producer.init_transactions(30)
        producer.begin_transaction()
        try:
            yield producer
        finally:
            producer.abort_transaction(30)

    def records(self, topic: str = "") -> list[Record]:
        """What ksqlDB reads, of its own topic or of another one."""
        source = CommandSource(self.cluster.router, topic or self.topic)
        found = source.find()
        return [] if found is None else list(source.read(source.start(), topic_id=found.topic_id).records)

    def written(self) -> list[Written]:
        return [(each.key, each.value) for each in self.records()]
