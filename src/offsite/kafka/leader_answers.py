"""What the leader of one partition says of its log, in the very epoch we read in: bounds, and where epochs end.

Asked on a connection that has no fetch under way. A broker that leads no more, or again, refuses (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.kafka.net.connection import Connection
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.epoch_ends import epoch_ends_request
from offsite.kafka.protocol.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets_request
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.errors import LeaderUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """A log holds `[start, end)`; `end` is the high watermark. `leader_epoch`: the epoch of the leader that said so."""

    start: int
    end: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAnswers:
    """Raises `LeaderUnavailable` where the broker does not lead the partition in that epoch, or says nothing of it."""

    connection: Connection
    partition: TopicPartition
    leader_epoch: int

    def bounds(self) -> LogBounds:
        return LogBounds(start=self._bound(EARLIEST), end=self._bound(LATEST), leader_epoch=self.leader_epoch)

    def end_of(self, epoch: int) -> int:
        """Where that part of the log ends which leaders up to `epoch` wrote; -1: it knows nothing of the epoch."""
        here = {self.partition: self.leader_epoch}
        return self._ask(epoch_ends_request({self.partition: epoch}, led_in=here))

    def _bound(self, which: int) -> int:
        return self._ask(list_offsets_request([self.partition], which, epochs={self.partition: self.leader_epoch}))

    def _ask(self, request: Request[Mapping[TopicPartition, ListedOffset]]) -> int:
        listed = self.connection.call(request).get(self.partition)
        if listed is None:
            raise LeaderUnavailable(f"{self.connection.address} says nothing of {self.partition}")
        if listed.error_code:
            raise broker_error(listed.error_code, f"asking for the bounds of {self.partition}")
        return listed.offset
