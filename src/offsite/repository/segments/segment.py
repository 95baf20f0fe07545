"""A segment as a commit lists it: one immutable object with the batches of a range, and its figures.

Also the list of a partition's segments, and the sums of figures that lists and details of backups show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Protocol, overload

from offsite.log.range import LogRange
from offsite.model.errors import OffsiteError, check
from offsite.model.untrusted.json_codec import (
    Beside,
    Count,
    Form,
    JsonCodec,
    PartitionNumber,
    Spare,
    TopicName,
    Unstored,
)
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.layout import index_key, parse_segment_key
from offsite.stores.store import ObjectInfo

NO_TIMESTAMP_MS = -1


class HasFigures(Protocol):
    """The figures of a `Segment`."""

    @property
    def records(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def base_timestamp_min_ms(self) -> int: ...
    @property
    def timestamp_max_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFigures:
    """Sums over segments. Times are epoch ms, -1 if no record has a time. `timestamp_max_ms`: of the newest record;
    `base_timestamp_min_ms`: the base timestamp of the oldest batch."""

    records: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    base_timestamp_min_ms: int = NO_TIMESTAMP_MS
    timestamp_max_ms: int = NO_TIMESTAMP_MS

    @classmethod
    def of(cls, counted: Iterable[HasFigures]) -> SegmentFigures:
        """The sum of segments, or of figures."""
        segments = tuple(counted)
        return cls(
            records=sum(segment.records for segment in segments),
            raw_bytes=sum(segment.raw_bytes for segment in segments),
            stored_bytes=sum(segment.stored_bytes for segment in segments),
            base_timestamp_min_ms=oldest_ms([segment.base_timestamp_min_ms for segment in segments]),
            timestamp_max_ms=max((segment.timestamp_max_ms for segment in segments), default=NO_TIMESTAMP_MS),
        )


def oldest_ms(times_ms: Sequence[int]) -> int:
    """The least of the valid times; -1 without one. Called for thousands of times at once, nearly always all valid."""
    if (least := min(times_ms, default=NO_TIMESTAMP_MS)) > NO_TIMESTAMP_MS:
        return least
    return min((time_ms for time_ms in times_ms if time_ms > NO_TIMESTAMP_MS), default=NO_TIMESTAMP_MS)


class Compression(Enum):
    """How the object is stored. The producer's compression inside the batches is kept either way."""

    NONE = "none"
    ZSTD = "zstd"


_COMPRESSION = Form(lambda document, name: Compression(document.text(name)), lambda compression: compression.value)
_InPack = Annotated[Count, Beside("pack")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Batches with a base offset in `[start, end)` of one partition of one topic incarnation, back to back.

    `key` is relative to the repository root. `hash` (`blake3:<hex>`) covers the stored bytes. `first_offset`: the first
    base offset; lies below `start` if the log itself started inside the batch, with the earlier records already
    removed. `last_offset`: the last offset of the last batch; may be `end` or greater if the batch crosses the border.
    `records` excludes the `control_batches`. `timestamp_max_ms` is exact (-1 if no record has a time);
    `base_timestamp_min_ms` is the least base timestamp of the batches, and no lower bound for records with decreasing
    timestamps inside a batch. `index_key`, `index_hash`: the sidecar, absent for a segment of one frame without
    transactions.

    `pack`: the key of the object that holds the segment among others, from byte `position` on, and the sidecar at
    `index_position`, `index_bytes` long. None: segment and sidecar are objects of their own, `key` and `index_key`.

    `whole`: the segment as written, if only a part counts here because of a truncation inside the segment (see
    `SegmentPart`). Offsets, counts, times and `raw_bytes` belong to the part; the fields about place and content of the
    stored bytes belong to the whole.
    """

    key: str
    topic: TopicName
    topic_id: str
    partition: PartitionNumber
    start: Count
    end: Count
    first_offset: Count
    last_offset: Count
    records: Count
    control_batches: Count
    batches: Count
    largest_batch_bytes: Count
    raw_bytes: Count
    stored_bytes: Count
    compression: Annotated[Compression, _COMPRESSION]
    base_timestamp_min_ms: int
    timestamp_max_ms: int
    timestamp_types: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    has_transactions: bool
    hash: str
    index_key: Spare[str | None] = None
    index_hash: Spare[str | None] = None
    pack: Spare[str | None] = None
    position: _InPack = 0
    index_position: _InPack = 0
    index_bytes: _InPack = 0
    whole: Unstored[Segment | None] = None

    def __post_init__(self) -> None:
        check(0 <= self.start < self.end, f"range of segment {self.key}")
        check(self.first_offset < self.end and self.start <= self.last_offset, f"offsets of segment {self.key}")
        check(0 <= self.first_offset <= self.last_offset, f"order of the offsets of segment {self.key}")
        check((self.index_key is None) == (self.index_hash is None), f"index of segment {self.key}")
        packed = (self.position, self.index_position, self.index_bytes)
        check(min(packed) >= 0 and (self.pack is not None or packed == (0, 0, 0)), f"place of segment {self.key}")

    @property
    def log_range(self) -> LogRange:
        return LogRange(topic=self.topic, partition=self.partition, start=self.start, end=self.end)

    @property
    def object_key(self) -> str:
        """The object with the segment's bytes."""
        return self.pack or self.key

    @property
    def object_end(self) -> int:
        """The minimum size of the object, in bytes."""
        return max(self.position + self.stored_bytes, self.index_position + self.index_bytes)

    def is_all_in(self, info: ObjectInfo | None) -> bool:
        """Whether the object has the required size, according to `info` from the store."""
        if info is None:
            return False
        return info.size_bytes == self.object_end if self.pack is None else info.size_bytes >= self.object_end

    @property
    def as_written(self) -> Segment:
        """The whole segment: the content of its object."""
        return self.whole or self

    @property
    def lowest_offset(self) -> int:
        """The lowest possible offset of a batch: `start`, or less if the log started inside the first batch."""
        return min(self.start, self.first_offset)

    @property
    def next_offset(self) -> int:
        """The first offset of the next segment: `end`, or greater if the last batch crosses the border."""
        return max(self.end, self.last_offset + 1)


_CODEC = JsonCodec(
    Segment,
    early=(
        "pack",
        "partition",
        "start",
        "end",
        "first_offset",
        "last_offset",
        "records",
        "control_batches",
        "batches",
        "largest_batch_bytes",
        "raw_bytes",
        "stored_bytes",
        "base_timestamp_min_ms",
        "timestamp_max_ms",
        "position",
        "index_position",
        "index_bytes",
    ),
)


def segment_to_json(segment: Segment) -> dict[str, JsonValue]:
    """The fields of `segment`, which must be whole, under their own names; an absent index is left out."""
    check(segment.whole is None, f"a part of segment {segment.key} is not a segment of a commit")
    return _CODEC.write(segment)


def segment_from_json(document: JsonObject) -> Segment:
    """Read one segment. The fields must be consistent with each other and with the key; otherwise the commit is
    damaged."""
    name = parse_segment_key(document.text("key"))
    if name is None or (name.topic, name.partition, name.start) != (
        document.text("topic"),
        document.partition(),
        document.count("start"),
    ):
        raise document.wrong("key", "that of its topic, partition and start")
    if document.optional_text("index_key") not in (None, index_key(document.text("key"))):
        raise document.wrong("index_key", "that of its segment")
    if not 0 < document.count("largest_batch_bytes") <= document.count("raw_bytes") or not document.count(
        "stored_bytes"
    ):
        raise document.wrong("raw_bytes", "the size of at least its largest batch, or it is stored in no bytes")
    try:
        return _CODEC.read(document)
    except (ValueError, OffsiteError) as error:
        raise document.damaged(f"segment {document.text('key')}: {error}") from error


class StoredSegments(Protocol):
    """The first segments of a list, still in the catalog's form."""

    def __len__(self) -> int: ...

    @property
    def end(self) -> int:
        """The end of the last segment."""

    def start(self) -> int:
        """The start of the first segment."""

    def last(self) -> Segment:
        """Read only the last segment."""

    def timestamp_ms(self, at: int) -> int:
        """The latest record time of the first (0) or last (-1) segment; reads only the figures."""

    def figures(self) -> SegmentFigures:
        """Read only the figures."""

    def load(self) -> tuple[Segment, ...]:
        """Read all segments."""


class SegmentList(Sequence[Segment]):
    """The live segments of one partition, in ascending, non-overlapping ranges. Immutable, and cheap to extend.

    A stored part, loaded on demand, then `tail`: a catalog can hold a million segments, while a backup run needs only
    the end of each partition. Lists derived from one another share one growing list, and each sees its own length; only
    the longest list may extend the shared one.
    """

    __slots__ = ("_everything", "_fresh", "_shared", "stored")

    def __init__(self, tail: Iterable[Segment] = (), *, stored: StoredSegments | None = None) -> None:
        self.stored = stored
        self._shared = list(tail)
        self._fresh = len(self._shared)
        self._everything: tuple[Segment, ...] | None = None

    @property
    def tail(self) -> tuple[Segment, ...]:
        """The segments after the stored part."""
        return tuple(self._shared[: self._fresh])

    @property
    def end(self) -> int:
        """The end of the last segment; 0 for an empty list."""
        if self._fresh:
            return self._shared[self._fresh - 1].end
        return self.stored.end if self.stored else 0

    @property
    def last(self) -> Segment | None:
        """The last segment; reads no other."""
        if self._fresh:
            return self._shared[self._fresh - 1]
        return self.stored.last() if self.stored else None

    @property
    def start(self) -> int:
        """The start of the first segment; reads no other. 0 for an empty list."""
        if self._everything:
            return self._everything[0].start
        if self.stored:
            return self.stored.start()
        return self._shared[0].start if self._fresh else 0

    @property
    def first_timestamp_ms(self) -> int:
        """The latest record time of the first segment; reads only the figures. -1 for an empty list."""
        if self.stored:
            return self.stored.timestamp_ms(0)
        return self._shared[0].timestamp_max_ms if self._fresh else NO_TIMESTAMP_MS

    @property
    def last_timestamp_ms(self) -> int:
        """The latest record time of the last segment; reads only the figures. -1 for an empty list."""
        if self._fresh:
            return self._shared[self._fresh - 1].timestamp_max_ms
        return self.stored.timestamp_ms(-1) if self.stored else NO_TIMESTAMP_MS

    def figures(self) -> SegmentFigures:
        """The sums of the segments; reads only the figures."""
        if self._everything is not None or not self.stored:
            return SegmentFigures.of(self._everything or self.tail)
        return SegmentFigures.of((self.stored.figures(), *self.tail))

    def appended(self, segment: Segment) -> SegmentList:
        """The list with one more segment, which must begin at or after `end`."""
        extended = SegmentList(stored=self.stored)
        extended._shared = self._shared if len(self._shared) == self._fresh else self._shared[: self._fresh]
        extended._shared.append(segment)
        extended._fresh = self._fresh + 1
        return extended

    def inserted(self, segment: Segment) -> SegmentList:
        """The list with one more segment at any place."""
        return SegmentList(sorted((*self._all(), segment), key=lambda s: s.start))

    def without(self, keys: Collection[str]) -> SegmentList:
        return SegmentList(segment for segment in self._all() if segment.key not in keys)

    def read(self) -> tuple[Segment, ...]:
        """All segments. Loaded segments are not cached: for a caller that walks through many lists once."""
        if self._everything is not None:
            return self._everything
        return (self.stored.load() if self.stored else ()) + self.tail

    def __len__(self) -> int:
        return (len(self.stored) if self.stored else 0) + self._fresh

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, index: int | slice) -> Segment | tuple[Segment, ...]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentList) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"SegmentList({len(self)} segments to {self.end})"

    def _all(self) -> tuple[Segment, ...]:
        if self._everything is None:
            self._everything = self.read()
        return self._everything
