"""The clusters that are simulated, and list prices. Everything here is an input: change it, and run `make scale`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import NormalDist

from offsite.model.units import MIB

GB, TB, PB = 10**9, 10**12, 10**15
CLASSES = 1_000
"""Sizes that partitions have, at most: those between are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A cluster and what backs it up. `log_bytes`: of all partitions, as the producers compressed them; one partition
    has `largest_bytes`, `idle_share` of the others a MiB, the rest sizes of a log-normal distribution with `sigma`.
    `broker_share`: of the brokers' network that a backup may take. `stored_per_byte`: what a byte of the log becomes.
    `prefixes`: among how many prefixes the bucket spreads the requests."""

    name: str
    log_bytes: int
    partitions: int
    largest_bytes: int
    executors: int
    brokers: int
    executor_cores: int = 8
    executor_gbit_s: float = 10
    broker_gbit_s: float = 10
    broker_share: float = 0.5
    replicas: int = 3
    idle_share: float = 0.3
    sigma: float = 1.2
    stored_per_byte: float = 1.0
    prefixes: int = 1

    @property
    def slots(self) -> int:
        return self.executors * self.executor_cores

    def sizes(self) -> Sequence[tuple[int, int]]:
        """The sizes of partitions in bytes, and how many have each; the largest first, all together `log_bytes`. Raises
        `ValueError` where another one would be larger."""
        others = self.partitions - 1
        idle = int(others * self.idle_share)
        busy = others - idle
        classes = min(CLASSES, busy)
        numbers = [busy * (each + 1) // classes - busy * each // classes for each in range(classes)]
        shares = [exp(self.sigma * NormalDist().inv_cdf(1 - (each + 0.5) / classes)) for each in range(classes)]
        left = self.log_bytes - self.largest_bytes - idle * MIB
        unit = left / sum(share * number for share, number in zip(shares, numbers, strict=True))
        found = [(int(share * unit), number) for share, number in zip(shares, numbers, strict=True)]
        if found[0][0] > self.largest_bytes:
            raise ValueError(
                f"{self.name}: one of the others has {found[0][0]:,} bytes, and {self.largest_bytes:,} the largest"
            )
        missing = left - sum(size * number for size, number in found)
        return ((self.largest_bytes + missing, 1), *found, *([(MIB, idle)] if idle else []))

    def split(self, parts: int) -> World:
        """One of `parts` backups of a part of the topics each, with its part of the executors and the network, that
        has the largest partition."""
        return replace(
            self,
            name=f"{self.name}, one of {parts} backups",
            log_bytes=self.log_bytes // parts,
            partitions=self.partitions // parts,
            executors=max(1, self.executors // parts),
            broker_share=self.broker_share / parts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Dollars. `storage`: up to so many GB, for a GB and month; the last one for all above."""

    taken_on: str = "2026-11"
    storage: tuple[tuple[float, float], ...] = ((50_000, 0.023), (500_000, 0.022), (float("inf"), 0.021))
    put_1000: float = 0.005
    get_1000: float = 0.0004
    executor_hour: float = 0.40
    zone_gb: float = 0.02
    """For a GB that goes from one zone to another: both sides."""

    def storage_month(self, size_bytes: float) -> float:
        left, below, total = size_bytes / GB, 0.0, 0.0
        for top, price in self.storage:
            here = min(left, top - below)
            total, left, below = total + here * price, left - here, top
        return total

    def requests(self, puts: float, gets: float) -> float:
        return puts / 1000 * self.put_1000 + gets / 1000 * self.get_1000


PRICES = Prices()
ONE = World(name="1 TB", log_bytes=TB, partitions=200, largest_bytes=100 * GB, executors=1, brokers=3)
TEN = World(name="50 TB", log_bytes=50 * TB, partitions=5_000, largest_bytes=500 * GB, executors=10, brokers=12)
HUNDRED = World(
    name="1 PB",
    log_bytes=PB,
    partitions=200_000,
    largest_bytes=TB,
    executors=100,
    brokers=100,
    prefixes=10,
)
WORLDS = (ONE, TEN, HUNDRED)
SPLIT = 100
"""Backups that the largest world is split into, for comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A backup that follows `world`: a round every `interval_s`, in which each of `busy` partitions has news."""

    world: World
    interval_s: int = 60
    day_bytes: int = 2 * TB
    busy: int = 5_000

    @property
    def rounds(self) -> int:
        """In a day."""
        return 86_400 // self.interval_s


FOLLOWING = Following(world=TEN)
