"""Offsets of many partitions at once: one request per broker, repeated only for partitions whose leader moved, or whose
leader left them out of its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import TypeAlias

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.epoch_ends import epoch_ends_request
from offsite.kafka.protocol.list_offsets import READ_UNCOMMITTED, ListedOffset, list_offsets_request
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable, NoSuchTopic
from offsite.model.journal import decided

RequestFor: TypeAlias = Callable[[list[TopicPartition]], Request[Mapping[TopicPartition, ListedOffset]]]
"""What a broker is asked about the partitions it leads."""
_NAMED_MAX = 5  # partitions in one message: a broker that leaves out all of its thousands must not fill the screen


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

    return _find(router, clock, partitions, request)


def find_epoch_ends(router: Router, clock: Clock, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    """Where that part of each partition's log ends which leaders up to the given epoch wrote; -1 where its leader does
    not know. Waits and raises as `find_offsets` does."""

    def request(share: list[TopicPartition]) -> Request[Mapping[TopicPartition, ListedOffset]]:
        led_in = {key: router.leader(key).epoch for key in share}
        return epoch_ends_request({key: epochs[key] for key in share}, led_in=led_in)

    return _find(router, clock, epochs, request)


def not_told(partitions: Collection[TopicPartition]) -> LeaderUnavailable:
    """The error for an answer that leaves out what it was asked about: worth another try, and evidence of nothing."""
    for each in partitions:
        decided("retry", why="the answer left out its offset", topic=each.topic, partition=each.partition)
    named = ", ".join(str(each) for each in islice(sorted(partitions), _NAMED_MAX))
    more = "" if len(partitions) <= _NAMED_MAX else f" and {len(partitions) - _NAMED_MAX} more"
    return LeaderUnavailable(
        f"the leader's answer left out the offset of {named}{more}",
        hint="run the command again; if that does not help, look at the broker's log",
    )


def _find(
    router: Router, clock: Clock, partitions: Iterable[TopicPartition], request: RequestFor
) -> Mapping[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    missing = list(partitions)
    outage, absence = Backoff(clock), Backoff(clock, limit_s=MISSING_TOPIC_MAX_S)
    while missing:
        try:
            for key, listed in _ask(router, missing, request):
                if listed.error_code:
                    raise broker_error(listed.error_code, f"listing offsets of {key}")
                found[key] = listed.offset
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
