"""A partition; a range, the half-open offsets of one partition; and what a reader returns for a range: whole batches,
holes and gaps, which together account for every offset read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.model.errors import check

Span = tuple[int, int]
"""Offsets `[start, end)` of a partition known from the context."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by name. Kafka's own term: another topic may have had the same name before."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class TopicIncarnation(NamedTuple):
    """A topic name with its topic id. A topic deleted and created again under the same name is a different incarnation.
    The id is empty if the source has no topic ids."""

    topic: str
    topic_id: str


class PartitionId(NamedTuple):
    """A partition of an incarnation of a topic. The id alone is not enough: brokers before 2.8 have no ids. A tuple,
    because folds and fixpoints look up hundreds of thousands of keys."""

    topic: str
    topic_id: str
    partition: int

    @property
    def incarnation(self) -> TopicIncarnation:
        return TopicIncarnation(topic=self.topic, topic_id=self.topic_id)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)

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


class GapEvidence(StrEnum):
    """The proof that offsets hold no record."""

    BATCH = "batch"
    """The next batch of the log begins behind the offsets."""
    COMPACTION = "compaction"
    """The leader of a compacted topic has no record at the offsets, below its high watermark, and repeated the answer
    several times."""
    ARCHIVE = "archive"
    """The foreign archive holds no record at the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches of one partition, back to back in `data`; `batches[i].position` is relative to `data`.

    `data` is valid only until the caller asks for the next chunk: readers reuse their buffers.
    """

    data: memoryview
    batches: Sequence[BatchHeader]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets `[start, end)` of a partition that the source no longer had. `reason`: `retention` or `truncation`."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `[start, end)` of a partition without a record, and the evidence. `seen_at`: the base offset of the batch
    behind the offsets, or the high watermark below which the log held nothing."""

    topic: str
    partition: int
    start: int
    end: int
    evidence: GapEvidence
    seen_at: int
