"""One partition's end, asked of its leader: how far a restore has come."""

from __future__ import annotations

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import not_told
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.list_offsets import LATEST, list_offsets_request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaTimeout, KafkaUnavailable, NoSuchTopic, TargetNotEmpty

SETTLE_S = 0.5
"""A broker takes what a dead connection left behind within milliseconds; this is a hundred times that."""
SETTLE_MAX_S = 60.0
"""A writer that was told to stop has stopped by then."""
PROMISED_POLL_S = 0.001
"""A marker is in the log within a few milliseconds of its transaction's end."""
PROMISED_MAX_S = 120.0
"""As long as an outage may last: coordinators write markers again and again until the leader takes them."""


def high_watermark(router: Router, topic_partition: TopicPartition) -> int:
    """The partition's end as its leader tells it now. Raises `KafkaUnavailable`, `NoSuchTopic`; never tries twice.

    An answer without the partition, or without an end, is `LeaderUnavailable`: it tells nothing, least of all an end.
    """
    with router.lease_leader(topic_partition) as connection:
        listed = connection.call(list_offsets_request([topic_partition], LATEST)).get(topic_partition)
    if listed is not None and listed.error_code:
        raise broker_error(listed.error_code, f"listing the end of {topic_partition}")
    if listed is None or listed.offset < 0:
        raise not_told([topic_partition])
    return listed.offset


def end_offset(router: Router, topic_partition: TopicPartition, *, clock: Clock | None = None) -> int:
    """The high watermark, from the leader, through outages and the first moments of a new topic.

    Raises `NoSuchTopic` or `KafkaUnavailable` when these last too long.
    """
    outage = Backoff(clock or SystemClock())
    absence = Backoff(clock or SystemClock(), limit_s=MISSING_TOPIC_MAX_S)
    while True:
        try:
            return high_watermark(router, topic_partition)
        except NoSuchTopic as error:
            absence.wait(error)
        except KafkaUnavailable as error:
            outage.wait(error)
        router.forget(topic_partition)


def settled_end_offset(
    router: Router, topic_partition: TopicPartition, *, start: int, clock: Clock | None = None
) -> int:
    """`end_offset`, read again until it stands still when it is beyond `start`: the last requests of a writer that was
    killed a moment ago may still be in the broker's hands. Raises `TargetNotEmpty` when it goes on growing."""
    clock = clock or SystemClock()
    end = end_offset(router, topic_partition, clock=clock)
    deadline_s = clock.monotonic_s() + SETTLE_MAX_S
    while end > start:
        if clock.monotonic_s() >= deadline_s:
            raise TargetNotEmpty(f"{topic_partition} goes on growing", hint="stop whatever else writes to it")
        clock.sleep(SETTLE_S)
        before, end = end, end_offset(router, topic_partition, clock=clock)
        if end == before:
            break
    return end


def await_end_offset(
    router: Router, topic_partition: TopicPartition, offset: int, *, clock: Clock | None = None
) -> int:
    """The high watermark as soon as it is at `offset` or beyond: what a coordinator has promised to write is there.

    Raises `KafkaTimeout` after `PROMISED_MAX_S`, and what `end_offset` raises.
    """
    clock = clock or SystemClock()
    deadline_s = clock.monotonic_s() + PROMISED_MAX_S
    while (end := end_offset(router, topic_partition, clock=clock)) < offset:
        if clock.monotonic_s() >= deadline_s:
            raise KafkaTimeout(f"{topic_partition} ends at {end} and not at {offset}: a marker was not written")
        clock.sleep(PROMISED_POLL_S)
    return end
