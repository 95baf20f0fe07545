"""The needs of the rules: a Kafka client, the control topic and a clock. Every wrapper brings its own.

Reading the control topic is tried again: it was just made, its leader moves, or records were deleted meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from offsite_participant.errors import ControlUnavailable
from offsite_participant.number import Header, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as the application gets it. `timestamp_ms`: -1 without a time."""

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
    """The commit of a group for a partition: the offset of the next record to handle."""

    offset: int
    metadata: str = ""


ANSWER_S = 10.0
"""Seconds that a wrapper waits for an answer about offsets, or of the control topic."""


def first_to_read(offset: int, *, low: int, high: int) -> int:
    """Where to begin reading the control topic, which holds `[low, high)`, to miss nothing from `offset` on. A
    recreated topic that ends before `offset` is read from its start."""
    return low if high < offset else max(low, offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRead:
    """The values of the read records, in order, and the offset behind them."""

    values: tuple[bytes | None, ...] = ()
    end: int


class ControlLog(Protocol):
    """The control topic. Both methods raise `ControlUnavailable`. `append` is called from two threads."""

    @property
    def topic(self) -> str: ...

    def append(self, value: bytes) -> None:
        """Append a record. Returns once all in-sync replicas have it."""

    def read_from(self, offset: int) -> ControlRead:
        """Read everything from `offset` to at least the current end."""

    def close(self) -> None: ...


class Group(Protocol):
    """The consumer, and the producer's part in a commit."""

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        """The commits of the partitions that have a commit."""

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        """Commit the offsets, all with `metadata`. Returns once they are committed. Raises `NotCommitted`."""

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue from the positions."""

    def flush(self) -> None:
        """Return once every sent record was reported, as delivered or as given up."""


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
        """Wait for everything that sending to `topic` would wait for, so that `send` does not wait."""

    def send(self, record: Outgoing) -> bool:
        """Hand the record to the producer; its delivery is reported later. False: no room; `prepare` waits for room."""

    def close(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Never goes back, and continues while the process or the machine sleeps."""


_PAUSE_S = 0.1


def until_read(read: Callable[[], ControlRead], problems: type[Exception], topic: str) -> ControlRead:
    """The answer of `read`, after at most `ANSWER_S` of `problems`; every attempt looks again where `topic` begins.
    Raises `ControlUnavailable`."""
    end_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return read()
        except problems as problem:
            if time.monotonic() > end_s:
                raise ControlUnavailable(f"cannot read {topic}: {problem}") from problem
        time.sleep(_PAUSE_S)
