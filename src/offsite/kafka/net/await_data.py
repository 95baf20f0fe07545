"""Wait until a log grows: one Fetch that the leader holds back while the log has nothing new (`fetch.max.wait.ms`).

The wait costs the broker nothing and ends within a millisecond of new data; repeated requests for the end do neither.
The answer proves nothing and is not used: the caller reads the log as usual.
"""

from __future__ import annotations

from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import NONE, broker_error
from offsite.kafka.protocol.fetch import NAME_VERSION, FetchFormat, FetchQuery
from offsite.kafka.protocol.request import Api
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.log.range import TopicPartition
from offsite.model.errors import KafkaProtocolError

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
