"""What a run may move in a second, and where workers ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Direction(IntEnum):
    """What is limited: `READ`, bytes fetched from brokers; `WRITE`, bytes put into the store, or by a restore into
    brokers."""

    READ = 0
    WRITE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Bytes per second that all workers together may move, and those of one executor; None: as fast as it goes."""

    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None
    executor_read_bytes_per_s: int | None = None
    executor_write_bytes_per_s: int | None = None

    def of_all(self) -> Mapping[Direction, int]:
        """The limits of all together that are given."""
        return _given(self.read_bytes_per_s, self.write_bytes_per_s)

    def of_executor(self) -> Mapping[Direction, int]:
        """The limits of one executor that are given."""
        return _given(self.executor_read_bytes_per_s, self.executor_write_bytes_per_s)

    def by_direction(self) -> Mapping[Direction, int]:
        """What is limited at all, and what one executor can reach."""
        of_all, own = self.of_all(), self.of_executor()
        return {each: min(limits[each] for limits in (of_all, own) if each in limits) for each in ({**of_all, **own})}


def _given(read: int | None, write: int | None) -> Mapping[Direction, int]:
    both = {Direction.READ: read, Direction.WRITE: write}
    return {direction: rate for direction, rate in both.items() if rate is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateAddress:
    """The driver's address for those who move bytes, with both tokens, and what is limited at all: bytes per second."""

    host: str
    port: int
    token: bytes = field(repr=False)
    welcome: bytes = field(repr=False)
    limits: RateLimits
