"""Where a stream processor lives: its topics in Kafka, its folder of snapshots, and its part of the backup store.

`begun.json` in the store says that it exists, and what it was restored from. It is written once, as the last step of
`create` and of a restore, and nobody leads a partition before.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from offsite.stores.open_store import open_store
from offsite.stores.store import PutResult, Store

FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
ADMIN_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """How many partitions, and for a restored one the `parent` whose `checkpoint` it goes on from."""

    partitions: int
    parent: str = ""
    checkpoint: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`folder` holds the snapshots, and is shared by all nodes; `store_url` is a folder or a bucket."""

    name: str
    bootstrap: str
    folder: Path
    store_url: str

    @property
    def log_topic(self) -> str:
        """One topic partition per partition, from 0. Only leaders write to it."""
        return f"{self.name}-log"

    @property
    def inbox_topic(self) -> str:
        """The network: what it loses is sent again, and it is in no backup."""
        return f"{self.name}-inbox"

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    def snapshots(self, partition: int) -> Path:
        return self.folder / self.name / f"partition-{partition}"

    def store(self) -> Store:
        return open_store(self.store_url)

    def transactional_id(self, partition: int) -> str:
        return f"{self.name}-{partition}"


def create(place: Place, partitions: int, *, replicas: int) -> None:
    """Make a new, empty stream processor. Raises `ValueError` if there is one."""
    create_topics(place, partitions, replicas=replicas)
    place.store().prepare()
    begin(place, Begun(partitions=partitions))


def create_topics(place: Place, partitions: int, *, replicas: int) -> None:
    """Raises `ValueError` if one of them exists: what is in it would be taken for this one's."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    settings = {**FOR_EVER, "min.insync.replicas": str(min(replicas, 2))}
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)
        for name in (place.log_topic, place.inbox_topic)
    ]
    if taken := {each.topic for each in topics} & admin.list_topics(timeout=ADMIN_PATIENCE_S).topics.keys():
        raise ValueError(f"{sorted(taken)} exist already: take another name")
    for made in admin.create_topics(topics, operation_timeout=ADMIN_PATIENCE_S).values():
        made.result(ADMIN_PATIENCE_S)


def begin(place: Place, begun: Begun) -> None:
    """Let leaders begin. Raises `ValueError` if another one did."""
    data = json.dumps(asdict(begun)).encode()
    if place.store().put_if_absent(f"{place.prefix}begun.json", data) is not PutResult.CREATED:
        raise ValueError(f"{place.name} exists already in {place.store_url}")


def begun_of(place: Place) -> Begun:
    """Raises `ValueError` as long as it is not complete."""
    data = place.store().get(f"{place.prefix}begun.json")
    if data is None:
        raise ValueError(f"{place.name} was never created, or its restore is not complete")
    return Begun(**json.loads(data))
