"""The wanted rows of a table, as bounds by which segments and frames can be left out.

Pure. A reader must check every record anyway, because a frame holds unwanted records too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.model.bounds import MAX_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Bounds of wanted rows: topics and partitions (None: all), offsets `[start, end)`, and times from `since_ms` to
    `until_ms`, both included (None: no bound)."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = MAX_OFFSET
    since_ms: int | None = None
    until_ms: int | None = None

    def of_topics(self, names: frozenset[str]) -> RowFilter:
        return replace(self, topics=names if self.topics is None else self.topics & names)

    def of_partitions(self, numbers: frozenset[int]) -> RowFilter:
        return replace(self, partitions=numbers if self.partitions is None else self.partitions & numbers)

    def from_offset(self, start: int) -> RowFilter:
        return replace(self, start=max(self.start, start))

    def below_offset(self, end: int) -> RowFilter:
        return replace(self, end=min(self.end, end))

    def since(self, time_ms: int) -> RowFilter:
        return replace(self, since_ms=time_ms if self.since_ms is None else max(self.since_ms, time_ms))

    def until(self, time_ms: int) -> RowFilter:
        return replace(self, until_ms=time_ms if self.until_ms is None else min(self.until_ms, time_ms))

    def wants(self, topic: str, partition: int) -> bool:
        """Whether the partition can hold a wanted row."""
        in_topics = self.topics is None or topic in self.topics
        return in_topics and (self.partitions is None or partition in self.partitions)

    def includes(self, offset: int, time_ms: int) -> bool:
        """Whether a record of a wanted partition is a wanted row."""
        since = self.since_ms is None or time_ms >= self.since_ms
        until = self.until_ms is None or time_ms <= self.until_ms
        return self.start <= offset < self.end and since and until
