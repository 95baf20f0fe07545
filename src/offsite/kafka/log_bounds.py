"""Start and end of logs, told by a partition's leader in a known epoch.

`LeaderAnswers` asks a single leader, in the epoch of the read, on a connection without a fetch in flight. A broker that
no longer leads, or leads again, refuses (KIP-320). `find_bounds` and `find_epoch_ends` ask about many partitions at
once, and name the partitions without an answer: a leaderless partition, a dead broker or a failed disk holds back
nothing but the partitions on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from offsite.kafka.evidence import GIVEN_UP_MAX_S
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import EpochEnd
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.logs import EARLIEST, LATEST, ListedOffset, epoch_ends_request, list_offsets_request
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaUnavailable, LeaderUnavailable, OffsiteError

T = TypeVar("T")

_Answers: TypeAlias = Mapping[TopicPartition, T | OffsiteError]

SICK_AFTER_S = 30.0
"""How long to wait for partitions without leader while the rest could continue: an election takes seconds, and the next
run copies what this run leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """A log holds `[start, end)`; `end` is the high watermark. `leader_epoch`: the epoch of the answering leader."""

    start: int
    end: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAnswers:
    """Answers of the leader of one partition about the log: bounds, and ends of epochs.

    Raises `LeaderUnavailable` where the broker does not lead the partition in the epoch, or does not answer about the
    partition.
    """

    connection: Connection
    partition: TopicPartition
    leader_epoch: int

    def bounds(self) -> LogBounds:
        return LogBounds(start=self._bound(EARLIEST), end=self._bound(LATEST), leader_epoch=self.leader_epoch)

    def end_of(self, epoch: int) -> EpochEnd:
        """End of the log part that leaders up to `epoch` wrote."""
        here = {self.partition: self.leader_epoch}
        listed = self._ask(epoch_ends_request({self.partition: epoch}, led_in=here))
        return EpochEnd(epoch=listed.leader_epoch, end=listed.offset)

    def _bound(self, which: int) -> int:
        epochs = {self.partition: self.leader_epoch}
        return self._ask(list_offsets_request([self.partition], which, epochs=epochs)).offset

    def _ask(self, request: Request[Mapping[TopicPartition, ListedOffset]]) -> ListedOffset:
        listed = self.connection.call(request).get(self.partition)
        if listed is None:
            raise LeaderUnavailable(f"{self.connection.address} gave no answer for {self.partition}")
        if listed.error_code:
            raise broker_error(listed.error_code, f"asking for the bounds of {self.partition}")
        return listed


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBounds:
    """Bounds and failures. Every requested partition is in exactly one of the two mappings."""

    bounds: Mapping[TopicPartition, LogBounds]
    failed: Mapping[TopicPartition, OffsiteError]


def find_bounds(
    router: Router, clock: Clock, partitions: Iterable[TopicPartition], *, patience_s: float = SICK_AFTER_S
) -> ListedBounds:
    """Ask the leaders, again for `patience_s` where a leader does not answer. Never raises for a partition."""
    search = _Search(router, _ask_bounds, patience_s)
    search.find(set(partitions), clock)
    return ListedBounds(bounds=search.found, failed=search.failed)


def find_epoch_ends(
    router: Router, clock: Clock, epochs: Mapping[TopicPartition, int], *, patience_s: float = SICK_AFTER_S
) -> Mapping[TopicPartition, EpochEnd | OffsiteError]:
    """Partition → end of the log part that leaders up to the given epoch wrote, or the reason why no leader answers.
    Asks the known leaders first, and continues as `find_bounds` where a leader does not answer."""

    def ask(connection: Connection, led_in: Mapping[TopicPartition, int]) -> _Answers[EpochEnd]:
        listed = connection.call(epoch_ends_request({key: epochs[key] for key in led_in}, led_in=led_in))
        return {key: _epoch_end(key, listed.get(key)) for key in led_in}

    search = _Search(router, ask, patience_s)
    search.find(set(epochs), clock, leaders_are_fresh=True)
    return {**search.found, **search.failed}


def _ask_bounds(connection: Connection, led_in: Mapping[TopicPartition, int]) -> _Answers[LogBounds]:
    partitions = list(led_in)
    starts = connection.call(list_offsets_request(partitions, EARLIEST, epochs=led_in))
    ends = connection.call(list_offsets_request(partitions, LATEST, epochs=led_in))
    return {key: _bounds(key, starts.get(key), ends.get(key), epoch) for key, epoch in led_in.items()}


def _bounds(
    key: TopicPartition, start: ListedOffset | None, end: ListedOffset | None, epoch: int
) -> LogBounds | OffsiteError:
    if start is None or end is None:
        return _says_nothing(key)
    if code := start.error_code or end.error_code:
        return broker_error(code, f"listing offsets of {key}")
    return LogBounds(start=start.offset, end=max(start.offset, end.offset), leader_epoch=epoch)


def _epoch_end(key: TopicPartition, end: ListedOffset | None) -> EpochEnd | OffsiteError:
    if end is None:
        return _says_nothing(key)
    if end.error_code:
        return broker_error(end.error_code, f"asking for the end of an epoch of {key}")
    return EpochEnd(epoch=end.leader_epoch, end=end.offset)


def _says_nothing(key: TopicPartition) -> LeaderUnavailable:
    return LeaderUnavailable(f"the leader gave no answer for {key}")


class _Search(Generic[T]):
    """A search among leaders. At the end, every requested partition is in `found` or in `failed`; `failed` holds the
    last error. `ask` asks one broker about the partitions that the broker leads, with leader epochs."""

    def __init__(
        self,
        router: Router,
        ask: Callable[[Connection, Mapping[TopicPartition, int]], _Answers[T]],
        patience_s: float,
    ) -> None:
        self._router, self._ask, self._patience_s = router, ask, patience_s
        self.found: dict[TopicPartition, T] = {}
        self.failed: dict[TopicPartition, OffsiteError] = {}

    def find(self, missing: set[TopicPartition], clock: Clock, *, leaders_are_fresh: bool = False) -> None:
        """Ask, and repeat while missing answers may still come. A partition that failed before is awaited for a shorter
        time: else a partition without a leader would make every round of a following run half a minute longer."""
        outage = Backoff(clock, limit_s=self._patience_s)
        short_outage = Backoff(clock, limit_s=min(self._patience_s, GIVEN_UP_MAX_S))
        sick, now_s = self._router.boundless_partitions, clock.monotonic_s()
        already_sick = {key for key in missing if sick.holds(key, now_s)}
        while missing:
            self._ask_leaders(sorted(missing), refresh=not leaders_are_fresh)
            leaders_are_fresh = False
            missing -= self.found.keys()
            curable = [key for key in sorted(missing) if isinstance(self.failed[key], KafkaUnavailable)]
            try:
                if not curable:
                    break
                (short_outage if already_sick.issuperset(curable) else outage).wait(self.failed[curable[0]])
            except KafkaUnavailable:
                for key in curable:
                    sick.add(key, clock.monotonic_s())
                break
        for key in self.found:
            sick.discard(key)

    def _ask_leaders(self, partitions: Sequence[TopicPartition], *, refresh: bool) -> None:
        try:
            if refresh:
                self._router.metadata(sorted({partition.topic for partition in partitions}))
        except KafkaUnavailable as error:
            self.failed.update(dict.fromkeys(partitions, error))
            return
        for node_id, share in self._by_leader(partitions).items():
            try:
                with self._router.lease_broker(node_id) as connection:
                    self._take(self._ask(connection, share))
            except KafkaUnavailable as error:
                self.failed.update(dict.fromkeys(share, error))

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, dict[TopicPartition, int]]:
        """Node id → partitions of the leader, with leader epochs."""
        shares: dict[int, dict[TopicPartition, int]] = {}
        for partition in partitions:
            leader = self._router.known_leader(partition)
            if leader is None:
                hint = "start a broker that has a replica of the partition, then run again"
                self.failed[partition] = LeaderUnavailable(f"{partition} has no leader", hint=hint)
            else:
                shares.setdefault(leader.node_id, {})[partition] = leader.epoch
        return shares

    def _take(self, answers: _Answers[T]) -> None:
        for key, answer in answers.items():
            if isinstance(answer, OffsiteError):
                self.failed[key] = answer
            else:
                self.found[key] = answer
                self.failed.pop(key, None)
