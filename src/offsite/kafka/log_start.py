"""Move a partition's log start, as part of writing the partition."""

from __future__ import annotations

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable


def delete_before(router: Router, partition: TopicPartition, offset: int, *, clock: Clock | None = None) -> None:
    """Move the partition's log start to `offset`, through outages. May be repeated.

    Raises `Denied`, `KafkaProtocolError` (a topic with `cleanup.policy=compact` alone deletes nothing),
    `KafkaUnavailable`.
    """
    admin, outage = ClusterAdmin(router), Backoff(clock or SystemClock())
    while True:
        try:
            admin.delete_records({partition: offset})
        except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
            router.forget(partition)
            outage.wait(error)
        else:
            return
