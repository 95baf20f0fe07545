"""Offsets of partitions, told by their leaders.

Of many partitions at once: one request per broker, repeated only for partitions whose leader moved, or whose leader
left them out of its answer. Of one partition: its end, which says how far a restore has come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.log_offsets import (
    LATEST,
    READ_UNCOMMITTED,
    ListedOffset,
    list_offsets_request,
)
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaTimeout,
    KafkaUnavailable,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    TargetNotEmpty,
)
from offsite.model.journal import decided
from offsite.model.named import named

RequestFor: TypeAlias = Callable[[list[TopicPartition]], Request[Mapping[TopicPartition, ListedOffset]]]
"""What a broker is asked about the partitions it leads."""
_NAMED_MAX = 5  # partitions in one message: a broker that leaves out all of its thousands must not fill the screen
SETTLE_S = 0.5
"""A broker takes what a dead connection left behind within milliseconds; this is a hundred times that."""
SETTLE_MAX_S = 60.0
"""A writer that was told to stop has stopped by then."""
PROMISED_POLL_S = 0.001
"""A marker is in the log within a few milliseconds of its transaction's end."""
PROMISED_MAX_S = 120.0
"""As long as an outage may last: coordinators write markers again and again until the leader takes them."""


def find_offsets(
    router: Router,
    clock: Clock,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> Mapping[TopicPartition, int]:
    """The offset of each partition for a time, `LATEST` or `EARLIEST`; -1 where no record is that late.

    Waits for partitions without leader, and for those that answers leave out, as `Backoff` allows, then raises
    `LeaderUnavailable`; also `NoSuchTopic`, `Denied`.
    """

    def request(share: list[TopicPartition]) -> Request[Mapping[TopicPartition, ListedOffset]]:
        return list_offsets_request(share, timestamp_ms, isolation=isolation)

    return {key: each.offset for key, each in _find(router, clock, partitions, request).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """What a leader says of an epoch (KIP-101, KIP-279): `epoch` is the last one that its log knows up to the one asked
    about, and `end` where the first later one begins, or the log's end. -1: it knows nothing."""

    epoch: int
    end: int


def not_told(partitions: Collection[TopicPartition]) -> LeaderUnavailable:
    """The error for an answer that leaves out what it was asked about: worth another try, and evidence of nothing."""
    for each in partitions:
        decided("retry", why="the answer left out its offset", topic=each.topic, partition=each.partition)
    return LeaderUnavailable(
        f"the leader's answer left out the offset of {named(list(map(str, sorted(partitions))), most=_NAMED_MAX)}",
        hint="run the command again; if that does not help, look at the broker's log",
    )


def _find(
    router: Router, clock: Clock, partitions: Iterable[TopicPartition], request: RequestFor
) -> Mapping[TopicPartition, ListedOffset]:
    found: dict[TopicPartition, ListedOffset] = {}
    missing = list(partitions)
    outage, absence = Backoff(clock), Backoff(clock, limit_s=MISSING_TOPIC_MAX_S)
    while missing:
        try:
            for key, listed in _ask(router, missing, request):
                if listed.error_code:
                    raise broker_error(listed.error_code, f"listing offsets of {key}")
                found[key] = listed
            if left_out := [key for key in missing if key not in found]:
                raise not_told(left_out)
        except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
            outage.wait(error)
        except NoSuchTopic as error:
            absence.wait(error)
        missing = [key for key in missing if key not in found]
        for key in missing:
            router.forget(key)
    return found


def _ask(
    router: Router, partitions: Iterable[TopicPartition], request: RequestFor
) -> Iterable[tuple[TopicPartition, ListedOffset]]:
    """All answers about `partitions`, those that count first, so that one error does not hide what the others said."""
    shares = router.by_leader(partitions)
    told = router.call_each({node_id: request(share) for node_id, share in shares.items()})
    answers = [(key, told[node_id][key]) for node_id, share in shares.items() for key in share if key in told[node_id]]
    return sorted(answers, key=lambda item: item[1].error_code != 0)


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
    """The end offset of a partition whose last writer may have been killed a moment ago.

    `end_offset`, read again until it stands still when it is beyond `start`: the last requests of a writer that was
    killed a moment ago may still be in the broker's hands. Raises `TargetNotEmpty` when it goes on growing.
    """
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
