"""The exact map from source to target offsets of one partition, small in memory.

Owns runs `(source_start, target_start, count)` in flat arrays: ten million runs are 240 MB and no objects. Source
offsets outside of all runs are gaps: the restore wrote nothing for them.

A map as bytes is one or more chunks back to back (`map_chunk`), for adjoining source ranges in rising order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

from offsite.log.buffer import Buffer
from offsite.log.map_chunk import MapChunk
from offsite.model.check import check
from offsite.model.errors import DamagedObject

__all__ = ["MappedOffset", "OffsetMap", "OffsetMapBuilder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedOffset:
    """The target offset for one source offset, and the kind of match.

    `exact`: the record itself. `gap`: no such record, the target is the next record (or the end). `end`: the source's
    end. `below`, `above`: outside of the mapped range, clamped to the first record or the end.
    """

    target: int
    match: Literal["exact", "gap", "end", "below", "above"]

    @property
    def is_clamped(self) -> bool:
        return self.match in ("below", "above")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMap(MapChunk):
    """Source offsets `[source_start, source_end)` of a partition to offsets in `[target_start, target_end)`.

    Built by `OffsetMapBuilder`, `concat` or `from_bytes`: these ensure that runs rise on both sides and never touch.
    """

    def __len__(self) -> int:
        """The number of runs."""
        return len(self.counts)

    def lookup(self, offset: int) -> MappedOffset:
        """The target of the first record at or after `offset`, or the target end if no record follows."""
        run = bisect_right(self.source_starts, offset) - 1
        if run >= 0 and offset - self.source_starts[run] < self.counts[run]:
            return MappedOffset(target=self.target_starts[run] + offset - self.source_starts[run], match="exact")
        target = self.target_starts[run + 1] if run + 1 < len(self) else self.target_end
        return MappedOffset(target=target, match=self._match_outside_runs(offset))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """All `(source_start, target_start, count)` in order."""
        return zip(self.source_starts, self.target_starts, self.counts, strict=True)

    @classmethod
    def from_bytes(cls, data: Buffer) -> OffsetMap:
        """The map of one or more chunks. Raises `DamagedObject`, or `FormatTooNew` for a newer version."""
        pieces = cls.read_all(data)
        last = first = next(pieces)
        builder: OffsetMapBuilder | None = None
        for last in pieces:
            if builder is None:
                builder = OffsetMapBuilder.of(first)
            if not builder.is_followed_by(last):
                raise DamagedObject("the chunks of the offset map do not rise")
            builder.extend(last)
        return first if builder is None else builder.build(source_end=last.source_end, target_end=last.target_end)

    @classmethod
    def concat(cls, maps: Iterable[OffsetMap]) -> OffsetMap:
        """One map out of at least one map, for rising source ranges written one after the other."""
        pieces = iter(maps)
        last = first = next(pieces)
        builder = OffsetMapBuilder.of(first)
        for last in pieces:
            builder.extend(last)
        return builder.build(source_end=last.source_end, target_end=last.target_end)

    def _match_outside_runs(self, offset: int) -> Literal["gap", "end", "below", "above"]:
        if offset < self.source_start:
            return "below"
        if offset < self.source_end:
            return "gap"
        return "end" if offset == self.source_end else "above"


class OffsetMapBuilder:
    """Collects runs in rising order and merges runs that adjoin on both sides."""

    def __init__(self, *, source_start: int, target_start: int) -> None:
        self._bounds = (source_start, target_start)
        self._source_end, self._target_end = source_start, target_start
        self._sources, self._targets, self._counts = array("q"), array("q"), array("q")

    @classmethod
    def of(cls, first: OffsetMap) -> Self:
        """A builder that continues behind all runs of the map `first`."""
        builder = cls(source_start=first.source_start, target_start=first.target_start)
        builder.extend(first)
        return builder

    def add(self, source_start: int, target_start: int, count: int) -> None:
        """The records `[source_start, source_start + count)` were written from `target_start` on."""
        if not (source_start >= self._source_end and target_start >= self._target_end and count >= 0):
            check(False, f"run ({source_start}, {target_start}, {count}) does not follow the one before it")
        if not count:
            return
        if self._counts and source_start == self._source_end and target_start == self._target_end:
            self._counts[-1] += count
        else:
            self._sources.append(source_start)
            self._targets.append(target_start)
            self._counts.append(count)
        self._source_end, self._target_end = source_start + count, target_start + count

    def is_followed_by(self, piece: OffsetMap) -> bool:
        """Whether the ranges of `piece` begin behind all runs added so far."""
        return piece.source_start >= self._source_end and piece.target_start >= self._target_end

    def extend(self, piece: OffsetMap) -> None:
        """Add all runs of a map. The ranges of the map must follow all runs added so far."""
        check(
            self.is_followed_by(piece),
            f"the map from ({piece.source_start}, {piece.target_start}) does not follow the one before it",
        )
        if not len(piece):
            return
        self.add(piece.source_starts[0], piece.target_starts[0], piece.counts[0])  # may join the last run
        self._sources.extend(piece.source_starts[1:])
        self._targets.extend(piece.target_starts[1:])
        self._counts.extend(piece.counts[1:])
        self._source_end = piece.source_starts[-1] + piece.counts[-1]
        self._target_end = piece.target_starts[-1] + piece.counts[-1]

    def build(self, *, source_end: int | None = None, target_end: int | None = None) -> OffsetMap:
        """The map. Hands over the runs: the builder must not be used again. The ends default to the ends of the last
        run."""
        source_end = self._source_end if source_end is None else source_end
        target_end = self._target_end if target_end is None else target_end
        check(
            source_end >= self._source_end and target_end >= self._target_end,
            "a run reaches past the map's end",
        )
        source_start, target_start = self._bounds
        return OffsetMap(
            source_start=source_start,
            source_end=source_end,
            target_start=target_start,
            target_end=target_end,
            source_starts=self._sources,
            target_starts=self._targets,
            counts=self._counts,
        )
