"""What the rules need of a Kafka client, of the control topic and of a clock. Each wrapper brings its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from offsite.participant.number import Header, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as the application gets it. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = -1

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a group has committed for a partition: the offset of the next record to handle."""

    offset: int
    metadata: str = ""


ANSWER_S = 10.0
"""How long a wrapper waits for an answer about offsets, or of the control topic."""


def first_to_read(offset: int, *, low: int, high: int) -> int:
    """Where to read the control topic from, so as to miss nothing of it from `offset` on: it holds `[low, high)`. One
    that was made anew, and ends before `offset`, is read from its start."""
    return low if high < offset else max(low, offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRead:
    """The values of the records that were read, in order, and the offset after them."""

    values: tuple[bytes | None, ...] = ()
    end: int


class ControlLog(Protocol):
    """The control topic. Both raise `ControlUnavailable`. `append` is called from two threads."""

    @property
    def topic(self) -> str: ...

    def append(self, value: bytes) -> None:
        """Returns once all replicas in sync have it."""

    def read_from(self, offset: int) -> ControlRead:
        """All from `offset` to at least the end as it is when this is called."""

    def close(self) -> None: ...


class Group(Protocol):
    """The consumer, and what of the producer belongs to a commit."""

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        """Of those that have a commit."""

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        """Returns once the offsets are committed, each with `metadata`. Raises `NotCommitted`."""

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """What is taken next is from there."""

    def flush(self) -> None:
        """Returns once each record that was sent has been reported, as delivered or as given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to send. `partition` None: the client chooses."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: list[Header] = field(default_factory=list)


class Client(Group, Protocol):
    """A client as a wrapper drives it."""

    def take(self, timeout_s: float) -> Record | None:
        """The next record; assignments are reported meanwhile."""

    def prepare(self, topic: str) -> None:
        """Wait for what sending to `topic` would wait for, so that `send` does not."""

    def send(self, record: Outgoing) -> bool:
        """Hand it to the producer; its delivery is reported later. False: there is no room; `prepare` waits for
        some."""

    def close(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Never goes back, and goes on while the process or the machine sleeps."""
