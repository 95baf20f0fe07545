"""Offsets of many partitions at once: one request per broker, repeated only for partitions whose leader moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.kafka.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.broker_errors import broker_error
from offsite.kafka.list_offsets import READ_UNCOMMITTED, ListedOffset, list_offsets_request
from offsite.kafka.routing import Router
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable, NoSuchTopic


def find_offsets(
    router: Router,
    clock: Clock,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> Mapping[TopicPartition, int]:
    """The offset of each partition for a time, `LATEST` or `EARLIEST`; -1 where no record is that late.

    Waits for partitions without leader as `Backoff` allows, then raises `LeaderUnavailable`; also `NoSuchTopic`,
    `Denied`.
    """
    found: dict[TopicPartition, int] = {}
    missing = list(partitions)
    outage, absence = Backoff(clock), Backoff(clock, limit_s=MISSING_TOPIC_MAX_S)
    while missing:
        try:
            for key, listed in _ask(router, missing, timestamp_ms, isolation):
                if listed.error_code:
                    raise broker_error(listed.error_code, f"listing offsets of {key}")
                found[key] = listed.offset
        except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
            outage.wait(error)
        except NoSuchTopic as error:
            absence.wait(error)
        missing = [key for key in missing if key not in found]
        for key in missing:
            router.forget(key)
    return found


def _ask(
    router: Router, partitions: Iterable[TopicPartition], timestamp_ms: int, isolation: int
) -> Iterable[tuple[TopicPartition, ListedOffset]]:
    """All answers, those that count first, so that one error does not hide what the others said."""
    requests = {
        node_id: list_offsets_request(share, timestamp_ms, isolation=isolation)
        for node_id, share in router.by_leader(partitions).items()
    }
    answers = [item for answer in router.call_each(requests).values() for item in answer.items()]
    return sorted(answers, key=lambda item: item[1].error_code != 0)
