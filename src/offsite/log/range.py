"""A range, the half-open offsets of one topic partition; and the parts of a range outside of other ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.model.check import check

Span = tuple[int, int]
"""Offsets `[start, end)` of a partition known from the context."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogRange:
    """Offsets `[start, end)` of one partition. A batch belongs to the range of its *base* offset: a batch with a base
    below `start` belongs to the range before, and the last batch may reach past `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        check(0 <= self.start <= self.end, f"range [{self.start}, {self.end}) of {self.topic}/{self.partition}")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} [{self.start}, {self.end})"


def uncovered(start: int, end: int, spans: Iterable[Span]) -> Iterator[Span]:
    """The parts of `[start, end)` outside of all `spans`, rising. The spans rise by start; they may overlap, and reach
    over both ends. Reads no more spans than needed."""
    for low, high in spans:
        if low >= end:
            break
        if low > start:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end
