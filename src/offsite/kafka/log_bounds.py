"""Where logs begin and end, each told by the partition's leader in a known epoch.

`LeaderAnswers` is what one leader says, in the very epoch that we read in, on a connection that has no fetch under way;
a broker that leads no more, or leads again, refuses (KIP-320). `find_bounds` asks for many partitions at once, and
tells the sick ones by name: one leaderless partition, one dead broker or one failed disk keeps nothing back but what is
on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import EpochEnd
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.log_offsets import EARLIEST, LATEST, ListedOffset, epoch_ends_request, list_offsets_request
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaUnavailable, LeaderUnavailable, OffsiteError

SICK_AFTER_S = 30.0
"""How long partitions without leader are waited for while others could go on: an election takes seconds, and the next
run takes up what this one leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """A log holds `[start, end)`; `end` is the high watermark. `leader_epoch`: the epoch of the leader that said so."""

    start: int
    end: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAnswers:
    """What the leader of one partition says of its log: bounds, and where epochs end.

    Raises `LeaderUnavailable` where the broker does not lead the partition in that epoch, or says nothing of it.
    """

    connection: Connection
    partition: TopicPartition
    leader_epoch: int

    def bounds(self) -> LogBounds:
        return LogBounds(start=self._bound(EARLIEST), end=self._bound(LATEST), leader_epoch=self.leader_epoch)

    def end_of(self, epoch: int) -> EpochEnd:
        """Where that part of the log ends which leaders up to `epoch` wrote."""
        here = {self.partition: self.leader_epoch}
        listed = self._ask(epoch_ends_request({self.partition: epoch}, led_in=here))
        return EpochEnd(epoch=listed.leader_epoch, end=listed.offset)

    def _bound(self, which: int) -> int:
        epochs = {self.partition: self.leader_epoch}
        return self._ask(list_offsets_request([self.partition], which, epochs=epochs)).offset

    def _ask(self, request: Request[Mapping[TopicPartition, ListedOffset]]) -> ListedOffset:
        listed = self.connection.call(request).get(self.partition)
        if listed is None:
            raise LeaderUnavailable(f"{self.connection.address} says nothing of {self.partition}")
        if listed.error_code:
            raise broker_error(listed.error_code, f"asking for the bounds of {self.partition}")
        return listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds:
    """Each partition asked for is in one of the two."""

    bounds: Mapping[TopicPartition, LogBounds]
    failed: Mapping[TopicPartition, OffsiteError]


def find_bounds(router: Router, clock: Clock, partitions: Iterable[TopicPartition]) -> FoundBounds:
    """Ask the leaders, again for `SICK_AFTER_S` where one does not answer. Never raises for a partition."""
    search = _Search(router)
    missing = set(partitions)
    outage = Backoff(clock, limit_s=SICK_AFTER_S)
    while missing:
        search.ask(missing)
        missing -= search.found.keys()
        curable = [search.failed[key] for key in sorted(missing) if isinstance(search.failed[key], KafkaUnavailable)]
        try:
            if not curable:
                break
            outage.wait(curable[0])
        except KafkaUnavailable:
            break
    return FoundBounds(bounds=search.found, failed={key: search.failed[key] for key in missing})


class _Search:
    """What is known so far: `failed` has why a partition that was not found was not found last time."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.found: dict[TopicPartition, LogBounds] = {}
        self.failed: dict[TopicPartition, OffsiteError] = {}

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = sorted(partitions)
        try:
            self._router.metadata(sorted({each.topic for each in wanted}))
        except KafkaUnavailable as error:
            self.failed.update(dict.fromkeys(wanted, error))
            return
        for node_id, share in self._by_leader(wanted).items():
            try:
                self._ask_broker(node_id, share)
            except KafkaUnavailable as error:
                self.failed.update(dict.fromkeys(share, error))

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        shares: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            leader = self._router.known_leader(each)
            if leader is None:
                hint = "bring one of its replicas back, then run again"
                self.failed[each] = LeaderUnavailable(f"{each} has no leader", hint=hint)
            else:
                shares.setdefault(leader.node_id, []).append(each)
        return shares

    def _ask_broker(self, node_id: int, partitions: list[TopicPartition]) -> None:
        epochs = {each: self._router.leader(each).epoch for each in partitions}
        with self._router.lease_broker(node_id) as connection:
            starts = connection.call(list_offsets_request(partitions, EARLIEST, epochs=epochs))
            ends = connection.call(list_offsets_request(partitions, LATEST, epochs=epochs))
        for each in partitions:
            self._take(each, starts.get(each), ends.get(each), epochs[each])

    def _take(
        self, partition: TopicPartition, start: ListedOffset | None, end: ListedOffset | None, epoch: int
    ) -> None:
        if start is None or end is None:
            self.failed[partition] = LeaderUnavailable(f"its leader says nothing of {partition}")
        elif code := start.error_code or end.error_code:
            self.failed[partition] = broker_error(code, f"listing offsets of {partition}")
        else:
            self.found[partition] = LogBounds(start=start.offset, end=max(start.offset, end.offset), leader_epoch=epoch)
