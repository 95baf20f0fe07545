"""The exact map from source to target offsets of one partition, small in memory, and its stored form.

Owns runs `(source_start, target_start, count)` in flat arrays: ten million runs are 240 MB and no objects. Source
offsets outside of all runs are gaps: the restore wrote nothing for them. A map as bytes is one or more chunks back to
back, for adjoining source ranges in rising order. One chunk:

    "OFMP", u8 version = 2, u32 payload bytes (little-endian), SHA-256 of those nine bytes and the payload, payload

Version 1 had no digest: one flipped bit gave wrong offsets in silence. Version 1 is read for ever, and never written.
The payload is a zstd frame of little-endian int64: source start, source end, target start, target end, number of runs
n, n source gaps, n target gaps and n counts. A gap is the distance from the end of the previous run (or from the
range's start).
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import add, sub
from typing import Literal, Self

import zstandard

from offsite.log import zstd_frames
from offsite.log.buffer import Buffer
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_OFFSET, TooLargeError
from offsite.model.errors import DamagedObject, FormatTooNew, check

MAX_MAP_BYTES = MAX_EXPANDED_BYTES
"""Plain bytes of all chunks of a map together: 22 million runs."""

_HEAD = struct.Struct("<4sBI")
_MAGIC, _VERSION, _VERSION_WITHOUT_DIGEST = b"OFMP", 2, 1
_DIGEST_BYTES = hashlib.sha256().digest_size
_BOUNDS = 5  # four bounds and the number of runs
_NUMBER_BYTES = 8
_ZSTD_LEVEL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MapChunk:
    """Runs in rising order, as arrays of numbers, with the bounds of the source and target offsets."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    source_starts: array[int]
    target_starts: array[int]
    counts: array[int]

    def to_bytes(self) -> bytes:
        """The stored form of the chunk."""
        bounds = (self.source_start, self.source_end, self.target_start, self.target_end, len(self.counts))
        source_gaps = _gaps(self.source_start, self.source_starts, self.counts)
        target_gaps = _gaps(self.target_start, self.target_starts, self.counts)
        numbers = array("q", chain(bounds, source_gaps, target_gaps, self.counts))
        payload = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(_little_endian(numbers).tobytes())
        head = _HEAD.pack(_MAGIC, _VERSION, len(payload))
        return head + _digest(head, payload) + payload

    @classmethod
    def read_all(cls, data: Buffer, *, max_bytes: int = MAX_MAP_BYTES) -> Iterator[Self]:
        """All chunks in `data`, at least one. Raises `DamagedObject`, or `FormatTooNew` for a newer version."""
        remaining, budget_bytes = memoryview(data), max_bytes
        while remaining or budget_bytes == max_bytes:
            payload, remaining = _payload(remaining)
            chunk, size_bytes = cls._read(payload, budget_bytes)
            budget_bytes -= size_bytes
            yield chunk

    @classmethod
    def _read(cls, payload: memoryview, max_bytes: int) -> tuple[Self, int]:
        """The chunk, and its number of expanded bytes. The plain bytes are freed while the arrays are built."""
        plain = _expanded(payload, max_bytes)
        size_bytes = len(plain)
        if size_bytes < _BOUNDS * _NUMBER_BYTES or size_bytes % _NUMBER_BYTES:
            raise DamagedObject("the offset map has another number of runs than it states")
        source_start, source_end, target_start, target_end, runs = _numbers(plain[: _BOUNDS * _NUMBER_BYTES])
        if size_bytes != (_BOUNDS + 3 * runs) * _NUMBER_BYTES:
            raise DamagedObject("the offset map has another number of runs than it states")
        counts = _taken(plain, runs)
        if min(counts, default=1) < 1:
            raise DamagedObject("a run of the offset map is empty")
        target_starts = _starts(target_start, _taken(plain, runs), counts, target_end)
        chunk = cls(
            source_start=source_start,
            source_end=source_end,
            target_start=target_start,
            target_end=target_end,
            source_starts=_starts(source_start, _taken(plain, runs), counts, source_end),
            target_starts=target_starts,
            counts=counts,
        )
        return chunk, size_bytes


def _payload(data: memoryview) -> tuple[memoryview, memoryview]:
    """The payload of the first chunk, checked for completeness, and the bytes behind the chunk."""
    if len(data) < _HEAD.size:
        raise DamagedObject("the offset map is truncated")
    magic, version, payload_bytes = _HEAD.unpack_from(data)
    if magic != _MAGIC or version < _VERSION_WITHOUT_DIGEST:
        raise DamagedObject("not an offset map")
    if version > _VERSION:
        raise FormatTooNew(
            f"the offset map has version {version}, which this offsite does not support",
            hint="upgrade offsite to read the map",
        )
    start = _HEAD.size + (0 if version == _VERSION_WITHOUT_DIGEST else _DIGEST_BYTES)
    payload, remaining = data[start : start + payload_bytes], data[start + payload_bytes :]
    if len(payload) < payload_bytes:
        raise DamagedObject("the offset map is truncated")
    if version != _VERSION_WITHOUT_DIGEST and _digest(data[: _HEAD.size], payload) != data[_HEAD.size : start]:
        raise DamagedObject("the offset map does not have its recorded digest")
    return payload, remaining


def _expanded(payload: memoryview, max_bytes: int) -> bytearray:
    try:
        plain = zstd_frames.expand(payload, max_bytes=max_bytes)
    except (*zstd_frames.UNREADABLE, TooLargeError) as error:
        raise DamagedObject(f"the offset map is damaged: {error}") from error
    return plain if isinstance(plain, bytearray) else bytearray(plain)


def _taken(plain: bytearray, count: int) -> array[int]:
    """The last `count` numbers. Removes the numbers from `plain`."""
    start = len(plain) - count * _NUMBER_BYTES
    numbers = _numbers(memoryview(plain)[start:])
    del plain[start:]
    return numbers


def _numbers(plain: Buffer) -> array[int]:
    numbers = array("q")
    numbers.frombytes(plain)
    return _little_endian(numbers)


def _starts(start: int, gaps: array[int], counts: array[int], end: int) -> array[int]:
    """The starts of the runs. Rising, and within `[start, end)`: the offsets that Kafka allows."""
    if not 0 <= start <= end <= MAX_OFFSET or min(gaps, default=0) < 0:
        raise DamagedObject("the runs of the offset map do not rise")
    try:
        starts = array("q", accumulate(map(add, gaps, chain((start,), counts))))
    except OverflowError as error:
        raise DamagedObject("a run of the offset map is beyond the highest possible offset") from error
    if starts and starts[-1] + counts[-1] > end:
        raise DamagedObject("a run of the offset map reaches past the map's end")
    return starts


def _gaps(start: int, starts: Iterable[int], counts: Iterable[int]) -> Iterator[int]:
    """The distance of every run from the end of the previous run: nearly always small or 0, and easy to compress."""
    return map(sub, starts, chain((start,), map(add, starts, counts)))


def _digest(head: Buffer, payload: Buffer) -> bytes:
    hasher = hashlib.sha256(head)
    hasher.update(payload)
    return hasher.digest()


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


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
