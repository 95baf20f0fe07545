"""One process of the stream processor: leads the partitions that its consumer group gives it. Start as many as wanted.
One that is killed is replaced after 6 s, one that stops by itself at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event

from confluent_kafka import KafkaException

from examples.stream_processor.engine import Here
from examples.stream_processor.leader import Leader
from examples.stream_processor.log import Deposed
from examples.stream_processor.network import Inbox, Network
from examples.stream_processor.place import Place, begun_of
from examples.stream_processor.records import Message
from offsite.model.errors import OffsiteError

LOG = logging.getLogger(__name__)


class Node:
    """Raises `ValueError` where nothing was created, or a restore is not complete."""

    def __init__(self, place: Place, *, stamps: bool = True) -> None:
        self._place, self._partitions = place, begun_of(place).partitions
        self._network = Network(place, stamps=stamps)
        self._leaders: dict[int, Leader] = {}

    def run(self, stop: Event) -> None:
        inbox = Inbox(self._place)
        try:
            while not stop.is_set():
                self._round(inbox)
        finally:
            for number in list(self._leaders):
                self._attempt(number, self._leaders[number].save)
                self._end(number)
            self._network.flush()
            inbox.close()

    def _round(self, inbox: Inbox) -> None:
        messages = inbox.receive()
        for number in self._leaders.keys() - inbox.assigned:
            self._end(number)
        for number in sorted(inbox.assigned):
            self._attempt(number, partial(self._lead, number, messages.get(number, ())))

    def _lead(self, number: int, messages: Sequence[Message]) -> None:
        if number not in self._leaders:
            here = Here(number=number, partitions=self._partitions)
            self._leaders[number] = Leader(self._place, here, self._network)
        if messages:
            self._leaders[number].receive(messages)
        self._leaders[number].tick()

    def _attempt(self, number: int, step: Callable[[], None]) -> None:
        """Whatever goes wrong ends the leader. If the partition is still ours, the next round begins another one."""
        try:
            step()
        except (Deposed, KafkaException, OffsiteError, OSError) as error:
            LOG.warning("partition %d is given up: %s", number, error)
            self._end(number)

    def _end(self, number: int) -> None:
        if leader := self._leaders.pop(number, None):
            leader.close()
