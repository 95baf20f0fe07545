"""Finds the commits that brought the data of segments. A segment of a roll-up takes its data from the merged segments.

The search goes from the newest commit down, because a roll-up names the segments that it replaced, not the reverse.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from offsite.log.range import Span, TopicPartition, uncovered
from offsite.repository.commit import PartitionId, StoredCommit
from offsite.repository.layout import parse_segment_key
from offsite.repository.segments.segment import Segment
from offsite.repository.state import segment_partition


@dataclass(frozen=True, slots=True)
class Origins:
    """The `commits` that brought the offsets of one segment; each covers the offsets from the entry at the same index
    of `starts` on."""

    starts: tuple[int, ...]
    commits: tuple[int, ...]

    @classmethod
    def of(cls, commit: int) -> Origins:
        """All data from one commit."""
        return cls((0,), (commit,))

    @property
    def oldest(self) -> int:
        """The oldest of the commits."""
        return min(self.commits)

    def at(self, offset: int) -> int:
        """The number of the commit that brought the batch beginning at `offset`."""
        return self.commits[max(0, bisect_right(self.starts, offset) - 1)]


def find_origins(commits: Iterable[StoredCommit], keys: Iterable[str]) -> dict[str, Origins]:
    """The origins of segments, by key. `commits` come newest first, and are read until all origins are found. A key
    listed by no commit is left out."""
    roots_by_key: dict[str, list[str]] = {key: [key] for key in keys}
    where: dict[str, PartitionId] = {}
    origins: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    reading = iter(commits)
    while roots_by_key and (stored := next(reading, None)) is not None:
        replaced = _by_partition(stored.commit.changes.removed)
        for segment in stored.commit.changes.segments:
            for root in roots_by_key.pop(segment.key, ()):
                if where.setdefault(root, segment_partition(segment)) != segment_partition(segment):
                    continue  # keys do not name the incarnation
                if parts := list(_made_of(segment, replaced)):
                    for key in parts:
                        roots_by_key.setdefault(key, []).append(root)
                else:
                    origins[root].append((segment.start, stored.commit.seq))
    return {root: Origins(*map(tuple, zip(*sorted(pairs), strict=True))) for root, pairs in origins.items()}


def find_range_origins(
    commits: Iterable[StoredCommit], partition: PartitionId, *, span: Span, held_spans: Iterable[Span]
) -> Origins | None:
    """The commits that brought the offsets of `span` inside `held_spans`, of one partition; None if none of `commits`
    did. `commits` come newest first, and are read until all offsets are found. A roll-up brings no data."""
    low, high = span
    missing = [(max(low, start), min(high, end)) for start, end in held_spans if start < high and low < end]
    origins: list[tuple[int, int]] = []
    reading = iter(commits)
    while missing and (stored := next(reading, None)) is not None:
        replaced = _by_partition(stored.commit.changes.removed)
        for segment in stored.commit.changes.segments:
            if segment_partition(segment) == partition and next(_made_of(segment, replaced), None) is None:
                remaining = [part for gap in missing for part in uncovered(*gap, [(segment.start, segment.end)])]
                if remaining != missing:
                    origins.append((segment.start, stored.commit.seq))
                missing = remaining
    return Origins(*map(tuple, zip(*sorted(origins), strict=True))) if origins else None


_Replaced = dict[TopicPartition, list[tuple[int, str]]]


def _by_partition(keys: Sequence[str]) -> _Replaced:
    keys_by_partition: _Replaced = {}
    for key in keys:
        if (name := parse_segment_key(key)) is not None:
            keys_by_partition.setdefault(TopicPartition(topic=name.topic, partition=name.partition), []).append(
                (name.start, key)
            )
    return keys_by_partition


def _made_of(segment: Segment, replaced: _Replaced) -> Iterator[str]:
    """The keys of the segments merged into this segment; none for a segment written by a backup."""
    for start, key in replaced.get(TopicPartition(topic=segment.topic, partition=segment.partition), ()):
        if segment.start <= start < segment.end:
            yield key
