"""Offsets of partitions, told by the leaders: ask for them, and wait until a log grows.

For many partitions: one request per broker, repeated only for partitions with a moved leader, and for partitions
missing in an answer. For a single partition: the end, which shows how far a restore has come.

`await_data` is one Fetch that the leader holds back while the log has nothing new (`fetch.max.wait.ms`). The wait
costs the broker nothing and ends within a millisecond of new data; repeated requests for the end do neither. The answer
proves nothing and is not used: the caller reads the log as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, PASSING, Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import NONE, broker_error
from offsite.kafka.protocol.fetch import NAME_VERSION, FetchFormat, FetchQuery
from offsite.kafka.protocol.logs import LATEST, READ_UNCOMMITTED, ListedOffset, list_offsets_request
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    KafkaUnavailable,
    LeaderUnavailable,
    NoSuchTopic,
    TargetNotEmpty,
)
from offsite.model.journal import decided
from offsite.model.names import named

RequestFor: TypeAlias = Callable[[list[TopicPartition]], Request[Mapping[TopicPartition, ListedOffset]]]
"""The request to a broker about the partitions that the broker leads."""
_NAMED_MAX = 5  # partitions in one message: thousands of missing partitions must not fill the screen
SETTLE_S = 0.5
"""A broker handles the remains of a dead connection within milliseconds; the pause is a hundred times as long."""
SETTLE_MAX_S = 60.0
"""A stopped writer has stopped by then."""
PROMISED_POLL_S = 0.001
"""A marker is in the log within a few milliseconds of the transaction's end."""
PROMISED_MAX_S = 120.0
"""As long as an outage may last: coordinators repeat markers until the leader takes them."""


def find_offsets(
    router: Router,
    clock: Clock,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> Mapping[TopicPartition, int]:
    """Return the offset of every partition for a time, `LATEST` or `EARLIEST`; -1 where no record is as late.

    Waits for partitions without leader, and for partitions missing in answers, as long as `Backoff` allows, and then
    raises `LeaderUnavailable`. Also raises `NoSuchTopic`, `Denied`.
    """

    def request(share: list[TopicPartition]) -> Request[Mapping[TopicPartition, ListedOffset]]:
        return list_offsets_request(share, timestamp_ms, isolation=isolation)

    return {key: listed.offset for key, listed in _find(router, clock, partitions, request).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """A leader's answer about an epoch (KIP-101, KIP-279). `epoch`: the last epoch in the leader's log up to the
    requested epoch. `end`: the start of the first later epoch, or the log's end. -1: the leader knows nothing."""

    epoch: int
    end: int


def missing_offsets_error(partitions: Collection[TopicPartition]) -> LeaderUnavailable:
    """The error for an answer that leaves out requested partitions: worth a retry, and evidence of nothing."""
    for partition in partitions:
        decided(
            "retry",
            why="the answer does not contain its offset",
            topic=partition.topic,
            partition=partition.partition,
        )
    return LeaderUnavailable(
        "the leader's answer does not contain the offset of "
        f"{named(list(map(str, sorted(partitions))), most=_NAMED_MAX)}",
        hint="run the command again; if the error stays, check the broker's log",
    )


def _find(
    router: Router, clock: Clock, partitions: Iterable[TopicPartition], request: RequestFor
) -> Mapping[TopicPartition, ListedOffset]:
    offsets: dict[TopicPartition, ListedOffset] = {}
    missing = list(partitions)
    outage, absence = Backoff(clock), Backoff(clock, limit_s=MISSING_TOPIC_MAX_S)
    while missing:
        try:
            for key, listed in _ask(router, missing, request):
                if listed.error_code:
                    raise broker_error(listed.error_code, f"listing offsets of {key}")
                offsets[key] = listed
            if left_out := [key for key in missing if key not in offsets]:
                raise missing_offsets_error(left_out)
        except PASSING as error:
            outage.wait(error)
        except NoSuchTopic as error:
            absence.wait(error)
        missing = [key for key in missing if key not in offsets]
        for key in missing:
            router.forget(key)
    return offsets


def _ask(
    router: Router, partitions: Iterable[TopicPartition], request: RequestFor
) -> Iterable[tuple[TopicPartition, ListedOffset]]:
    """Return all answers about `partitions`, successful answers first, so that an error hides no success."""
    shares = router.by_leader(partitions)
    by_node = router.call_each({node_id: request(share) for node_id, share in shares.items()})
    answers = [
        (key, by_node[node_id][key]) for node_id, share in shares.items() for key in share if key in by_node[node_id]
    ]
    return sorted(answers, key=lambda answer: answer[1].error_code != 0)


def high_watermark(router: Router, topic_partition: TopicPartition) -> int:
    """Ask the leader once for the partition's end. Raises `KafkaUnavailable`, `NoSuchTopic`.

    An answer without the partition, or without an end, raises `LeaderUnavailable`: such an answer proves nothing, least
    of all an end.
    """
    with router.lease_leader(topic_partition) as connection:
        listed = connection.call(list_offsets_request([topic_partition], LATEST)).get(topic_partition)
    if listed is not None and listed.error_code:
        raise broker_error(listed.error_code, f"listing the end of {topic_partition}")
    if listed is None or listed.offset < 0:
        raise missing_offsets_error([topic_partition])
    return listed.offset


def end_offset(router: Router, topic_partition: TopicPartition, *, clock: Clock | None = None) -> int:
    """Ask the leader for the high watermark, through outages and the first moments of a new topic.

    Raises `NoSuchTopic` or `KafkaUnavailable` when either lasts too long.
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
    """Return the end offset of a partition whose last writer may have been killed a moment ago.

    An end beyond `start` is read again until the end stands still: the last requests of a killed writer may still be in
    the broker's hands. Raises `TargetNotEmpty` when the end keeps growing.
    """
    clock = clock or SystemClock()
    end = end_offset(router, topic_partition, clock=clock)
    deadline_s = clock.monotonic_s() + SETTLE_MAX_S
    while end > start:
        if clock.monotonic_s() >= deadline_s:
            raise TargetNotEmpty(f"{topic_partition} keeps growing", hint="stop all other writers of the partition")
        clock.sleep(SETTLE_S)
        before, end = end, end_offset(router, topic_partition, clock=clock)
        if end == before:
            break
    return end


def await_end_offset(
    router: Router, topic_partition: TopicPartition, offset: int, *, clock: Clock | None = None
) -> int:
    """Return the high watermark as soon as the log reaches `offset`: the coordinator's promised markers are written by
    then.

    Raises `KafkaTimeout` after `PROMISED_MAX_S`, and the errors of `end_offset`.
    """
    clock = clock or SystemClock()
    deadline_s = clock.monotonic_s() + PROMISED_MAX_S
    while (end := end_offset(router, topic_partition, clock=clock)) < offset:
        if clock.monotonic_s() >= deadline_s:
            raise KafkaTimeout(
                f"{topic_partition} ends at offset {end} instead of {offset}: a transaction marker was not written"
            )
        clock.sleep(PROMISED_POLL_S)
    return end


_ONE_BATCH = 1
"""Bytes: a broker returns one batch whole, however few bytes are asked for (KIP-74)."""


def await_data(router: Router, where: TopicPartition, offset: int, *, max_wait_ms: int) -> bool:
    """Return True when the leader has data at `offset`, committed or not, and False after `max_wait_ms` without data.
    Raises `LeaderUnavailable`, `NoSuchTopic`, `KafkaUnreachable`, `KafkaTimeout`, `Denied`, and `SourceTruncated` where
    the log no longer has the offset."""
    query = FetchQuery(offset=offset, max_bytes=_ONE_BATCH, max_wait_ms=max_wait_ms, min_bytes=1)
    format_ = FetchFormat(where, topic_id=None, rack_id="")
    try:
        with router.lease_leader(where) as connection:
            connection.check_version(Api.FETCH, NAME_VERSION)
            connection.send(Api.FETCH, NAME_VERSION, [format_.encode(query)])
            return _has_data(format_, connection, where)
    except BaseException:
        router.forget(where)
        raise


def _has_data(format_: FetchFormat, connection: Connection, where: TopicPartition) -> bool:
    try:
        answer = format_.decode(connection.receive())
    except UNREADABLE as error:
        connection.close()
        raise KafkaProtocolError(f"{connection.address} sent an unreadable answer to Fetch") from error
    if answer.error_code != NONE:
        raise broker_error(answer.error_code, f"waiting for {where}")
    return bool(answer.records)
