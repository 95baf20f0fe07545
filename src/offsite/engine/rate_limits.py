"""Limits of bytes per second of a run, and the address where workers ask for bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Direction(IntEnum):
    """The limited direction: `READ`, bytes fetched from brokers; `WRITE`, bytes put into the store, or by a restore
    into brokers."""

    READ = 0
    WRITE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Bytes per second of all workers together, and of one executor; None: no limit."""

    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None
    executor_read_bytes_per_s: int | None = None
    executor_write_bytes_per_s: int | None = None

    def of_all(self) -> Mapping[Direction, int]:
        """Return the given limits of all workers together."""
        return _given(self.read_bytes_per_s, self.write_bytes_per_s)

    def of_executor(self) -> Mapping[Direction, int]:
        """Return the given limits of one executor."""
        return _given(self.executor_read_bytes_per_s, self.executor_write_bytes_per_s)

    def by_direction(self) -> Mapping[Direction, int]:
        """Return the limited directions, with the rate that one executor can reach."""
        of_all, of_executor = self.of_all(), self.of_executor()
        return {
            direction: min(limits[direction] for limits in (of_all, of_executor) if direction in limits)
            for direction in ({**of_all, **of_executor})
        }


def _given(read: int | None, write: int | None) -> Mapping[Direction, int]:
    both = {Direction.READ: read, Direction.WRITE: write}
    return {direction: rate for direction, rate in both.items() if rate is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateAddress:
    """The driver's address for workers, with both tokens and the limits."""

    host: str
    port: int
    token: bytes = field(repr=False)
    welcome: bytes = field(repr=False)
    limits: RateLimits
