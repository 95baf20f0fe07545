"""A range: half-open offsets of one topic partition."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.check import check


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogRange:
    """Offsets `[start, end)` of one partition. A batch belongs to the range that holds its *base* offset, so a batch
    whose base is below `start` belongs to the range before, and the last batch may reach past `end`."""

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
