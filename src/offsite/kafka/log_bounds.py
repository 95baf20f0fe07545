"""Where the logs of many partitions begin and end, each told by its leader in a known epoch; the sick ones by name.

One leaderless partition, one dead broker or one failed disk keeps nothing back but what is on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsite.kafka.leader_answers import LogBounds
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets_request
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaUnavailable, LeaderUnavailable, OffsiteError

SICK_AFTER_S = 30.0
"""How long partitions without leader are waited for while others could go on: an election takes seconds, and the next
run takes up what this one leaves out."""


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
