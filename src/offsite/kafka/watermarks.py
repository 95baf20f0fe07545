"""The high watermarks of many partitions, read repeatedly and as fast as possible.

A cut needs ends read between two further answers of the cluster. The shorter the time between the two answers, the
fewer transactions change meanwhile. So the requests are prepared before, one per broker, all brokers are asked at the
same time, and answers are decoded later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import missing_offsets_error
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.logs import LATEST, READ_UNCOMMITTED, ListedOffset, list_offsets_request
from offsite.kafka.protocol.request import Request
from offsite.kafka.protocol.wire import UNREADABLE, Decoder
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import Denied, KafkaProtocolError, KafkaUnavailable, OffsiteError

GIVEN_UP_AFTER_S = 5.0
"""A planned election takes well under this time. A partition without leader for longer must not hold up the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The partitions that one broker leads, and the request about the partitions."""

    partitions: list[TopicPartition]
    request: Request[Mapping[TopicPartition, ListedOffset]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadEnds:
    """Undecoded answers of the asked brokers, or errors."""

    shares: Mapping[int, _Share]
    answers: Mapping[int, bytes | OffsiteError]


class LogEndReader:
    """The ends of a fixed set of partitions. A partition without an answer is given up for good, and is in `failed`
    afterwards.

    With `isolation` `READ_COMMITTED` the ends are last stable offsets.
    """

    def __init__(
        self,
        router: Router,
        clock: Clock,
        partitions: Iterable[TopicPartition],
        *,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self.failed: dict[TopicPartition, OffsiteError] = {}
        self._router, self._clock, self._isolation = router, clock, isolation
        self._wanted = set(partitions)
        self._shares: dict[int, _Share] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Return the ends of all partitions that are not given up. Asks again where a repetition helps, and gives up
        the rest."""
        backoff = Backoff(self._clock, limit_s=GIVEN_UP_AFTER_S)
        ends, errors = self._sort_answers(self.ask())
        while missing := self._wanted - ends.keys():
            self._give_up(missing, errors, backoff)
            self._shares = None
            if self._wanted - ends.keys():
                more, errors = self._sort_answers(self.ask())
                ends |= more
        self._shares = self._shares or self._make_shares()
        return {key: ends[key] for key in self._wanted}

    def ask(self) -> UnreadEnds:
        """Ask every leader once. All answers have arrived when the method returns. Raises nothing."""
        if self._shares is None:
            self._shares = self._make_shares()
        answers: dict[int, bytes | OffsiteError] = {}
        with ExitStack() as stack:
            posted: dict[int, Connection] = {}
            for node_id, share in self._shares.items():
                try:
                    connection = stack.enter_context(self._router.lease_broker(node_id))
                    connection.post(share.request)
                    posted[node_id] = connection
                except OffsiteError as error:
                    answers[node_id] = error
            for node_id, connection in posted.items():
                try:
                    answers[node_id] = connection.collect(_undecoded(self._shares[node_id].request))
                except OffsiteError as error:
                    answers[node_id] = error
        return UnreadEnds(shares=self._shares, answers=answers)

    def decode(self, unread: UnreadEnds) -> dict[TopicPartition, int] | None:
        """Return the ends in an answer; None where an end is missing (`read` finds the reason)."""
        ends, _ = self._sort_answers(unread)
        return {key: ends[key] for key in self._wanted} if ends.keys() >= self._wanted else None

    def _give_up(
        self, missing: set[TopicPartition], errors: Mapping[TopicPartition, OffsiteError], backoff: Backoff
    ) -> None:
        """Wait before another attempt. Give up partitions that no wait can cure, and all missing partitions when the
        time is used up."""
        why = {key: errors.get(key) or missing_offsets_error([key]) for key in missing}
        curable = sorted(key for key in missing if isinstance(why[key], KafkaUnavailable))
        hopeless = missing - set(curable)
        if curable:
            for key in curable:
                self._router.forget(key)
            try:
                backoff.wait(why[curable[0]])
            except OffsiteError:
                hopeless = missing
        self.failed |= {key: why[key] for key in hopeless}
        self._wanted -= hopeless

    def _sort_answers(self, unread: UnreadEnds) -> tuple[dict[TopicPartition, int], dict[TopicPartition, OffsiteError]]:
        ends: dict[TopicPartition, int] = {}
        errors: dict[TopicPartition, OffsiteError] = {}
        for node_id, answer in unread.answers.items():
            share = unread.shares[node_id]
            listing = answer if isinstance(answer, OffsiteError) else _decoded(share, answer)
            for key in share.partitions:
                if isinstance(listing, OffsiteError):
                    errors[key] = listing
                elif (listed := listing.get(key)) is None:
                    continue
                elif listed.error_code:
                    errors[key] = broker_error(listed.error_code, f"reading the end of {key}")
                elif key in self._wanted:
                    ends[key] = listed.offset
        return ends, errors

    def _make_shares(self) -> dict[int, _Share]:
        """Prepare the requests. Partitions without leader are in no share."""
        led: dict[int, list[TopicPartition]] = {}
        with suppress(KafkaUnavailable, Denied):
            if any(self._router.known_leader(key) is None for key in self._wanted):
                self._router.metadata(sorted({key.topic for key in self._wanted}))
        for key in self._wanted:
            if (leader := self._router.known_leader(key)) is not None:
                led.setdefault(leader.node_id, []).append(key)
        return {
            node_id: _Share(partitions=keys, request=list_offsets_request(keys, LATEST, isolation=self._isolation))
            for node_id, keys in led.items()
        }


def _undecoded(request: Request[Mapping[TopicPartition, ListedOffset]]) -> Request[bytes]:
    def keep(answer: Decoder) -> bytes:
        body = bytes(answer.data[answer.position :])
        answer.position = len(answer.data)
        return body

    return Request(api=request.api, version=request.version, body=request.body, read=keep)


def _decoded(share: _Share, body: bytes) -> Mapping[TopicPartition, ListedOffset] | OffsiteError:
    decoder = Decoder(memoryview(body))
    try:
        offsets = share.request.read(decoder)
        decoder.done()
    except UNREADABLE as error:
        return KafkaProtocolError(f"the answer to ListOffsets cannot be read: {error}")
    return offsets
