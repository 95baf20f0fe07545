"""Finds the records to keep: the last committed record of every key of a stretch, by a shuffle.

1. Workers read the parts, and send for every key the offset of its last record to the bucket of the key. 2. A bucket
receives all records of its keys, takes the last of every key, and sends the offset to the part with the record.

Keys are compared as bytes, whole. A record without a key cannot be replaced, and stays.

Aborted records do not count, and replace nothing. Records undecided at the end of the stretch replace nothing either,
and are not sent: the writer keeps all of them, because a later point may see them committed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from offsite.engine.meter import count_items
from offsite.log.batch import BatchHeader
from offsite.log.committed_view import CommittedView
from offsite.log.range import Span
from offsite.log.records.record_columns import KeyedRecords, keyed_records
from offsite.model.errors import OffsiteError
from offsite.model.units import MIB
from offsite.repository.segments.reader import SegmentReader, stored_markers
from offsite.repository.segments.segment import Segment
from offsite.stores.store import Store
from offsite.upkeep.compaction.regions import CompactionPart, Routes, Stretch

PARCEL_KEYS = 100_000
"""Keys collected before a send: enough for cheap parcels, few enough for any worker."""
PARCEL_BYTES = 16 * MIB
"""Bytes of collected keys before a send, for long keys."""
BUCKET_RECORDS = 400_000
"""Approximate records with keys in one bucket: the most keys in memory at once, for any number of keys."""
BUCKET_BYTES = 256 * MIB
_NO_KEY = -1


@dataclass(frozen=True, slots=True)
class LatestKeys:
    """Keys of a stretch and the last offset of every key, doubled. Without keys: offsets of records that stay because
    they have no key."""

    stretch: int
    keys: Sequence[bytes] | None
    offsets: array[int]


@dataclass(frozen=True, slots=True)
class UnreadableRegion:
    """Why the parts of a region cannot be compacted: one part could not be read."""

    parts: Span
    error: OffsiteError


def count_buckets(parts: Sequence[CompactionPart], *, slots: int) -> int:
    """The number of buckets of a job: enough for any number of keys."""
    records = sum(segment.records for part in parts for segment in part.segments)
    raw_bytes = sum(part.raw_bytes for part in parts)
    return max(slots, -(-records // BUCKET_RECORDS), -(-raw_bytes // BUCKET_BYTES))


def report_unreadable(part: CompactionPart, error: OffsiteError) -> Iterator[tuple[int, LatestKeys | UnreadableRegion]]:
    """The message for a part that could not be read."""
    yield 0, UnreadableRegion(part.region_parts, error)


def find_latest(
    part: CompactionPart, *, store: Store, buckets: int
) -> Iterator[tuple[int, LatestKeys | UnreadableRegion]]:
    """The last record of every key of the part, by bucket; a key may occur several times. Raises the errors of
    reading."""
    gathering = LatestCollector(buckets)
    for stretch, records, tombstones_below in _visible(part, store):
        yield from gathering.take(stretch.number, records, tombstones_below)
    yield from gathering.flush()


def _visible(part: CompactionPart, store: Store) -> Iterator[tuple[Stretch, KeyedRecords, int]]:
    views = stretch_views(part, store)
    limits = [_tombstones_below(part, stretch, store) for stretch in part.stretches]
    for segment in part.segments:
        for chunk in count_items(SegmentReader(store=store, segment=segment).chunks()):
            for header in chunk.batches:
                if header.is_control or not header.record_count:
                    continue
                for number in stretches_of(part, header):
                    stretch = part.stretches[number]
                    if views[number].is_visible(header):
                        records = keyed_records(header.view(chunk.data), header)
                        if not holds_all(stretch, header):
                            records = records.within(stretch.start, stretch.end)
                        yield stretch, records, limits[number]


def stretch_views(part: CompactionPart, store: Store) -> list[CommittedView]:
    """The committed views of the part as of the end of every stretch."""
    segments = (*part.segments, *part.later)
    return [
        CommittedView(stored_markers(segments, store), end_offset=stretch.end_offset, as_needed=True)
        for stretch in part.stretches
    ]


def stretches_of(part: CompactionPart, header: BatchHeader) -> range:
    """The indexes in `part.stretches` of the stretches that the batch lies in: nearly always one."""
    ends = [stretch.end for stretch in part.stretches] if len(part.stretches) > 1 else []
    if not ends:
        return range(1)
    first = bisect_left(ends, header.base_offset + 1)
    return range(first, min(bisect_left(ends, header.next_offset), len(ends) - 1) + 1)


def holds_all(stretch: Stretch, header: BatchHeader) -> bool:
    return stretch.start <= header.base_offset and header.last_offset < stretch.end


def _tombstones_below(part: CompactionPart, stretch: Stretch, store: Store) -> int:
    if not stretch.tombstones_below:
        return 0
    return min(stretch.tombstones_below, first_undecided(part.first, store, end=stretch.end_offset))


def first_undecided(segments: Iterable[Segment], store: Store, *, end: int) -> int:
    """The start of the first transaction that is undecided at offset `end`; `end` without such a transaction.
    `segments`: all segments with transactions below `end`. Raises as `SegmentReader.index`."""
    opened: dict[int, int] = {}
    for segment in segments:
        index = SegmentReader(store=store, segment=segment).index()
        for marker in index.markers:
            if marker.offset < end:
                opened.pop(marker.producer_id, None)
            elif 0 <= marker.first_offset < end:
                opened.setdefault(marker.producer_id, marker.first_offset)
        if index.open is None:  # an earlier version did not record open transactions
            return min(segment.start, *opened.values(), end)
        for transaction in index.open:
            opened.setdefault(transaction.producer_id, transaction.first_offset)
    return min(opened.values(), default=end)


class LatestCollector:
    """Collects the last offset of every key, stretch after stretch, until sent."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._most = max(PARCEL_KEYS, 20 * buckets)
        self._stretch = _NO_KEY
        self._latest: dict[bytes | None, int] = {}
        self._without_key = array("q")
        self._new_bytes = 0

    def take(self, stretch: int, records: KeyedRecords, tombstones_below: int) -> Iterator[tuple[int, LatestKeys]]:
        if stretch != self._stretch:
            yield from self.flush()
            self._stretch = stretch
        latest, offsets = self._latest, records.offsets
        doubled: Sequence[int] = (
            range(2 * offsets.start, 2 * offsets.stop, 2)
            if isinstance(offsets, range)
            else [2 * offset for offset in offsets]
        )
        if tombstones_below and len(offsets) and offsets[0] < tombstones_below:
            doubled = [
                doubled_offset + (value is None and doubled_offset < 2 * tombstones_below)
                for doubled_offset, value in zip(doubled, records.values, strict=True)
            ]
        latest.update(zip(records.keys, doubled, strict=True))
        if latest.pop(None, None) is not None:
            self._without_key.extend(offset for key, offset in zip(records.keys, offsets, strict=True) if key is None)
        if len(latest) >= self._most or len(self._without_key) >= self._most or self._is_large(records):
            yield from self.flush()

    def flush(self) -> Iterator[tuple[int, LatestKeys]]:
        """All parcels. Empties the collector."""
        keys: list[list[bytes]] = [[] for _ in range(self._buckets)]
        offsets = [array("q") for _ in range(self._buckets)]
        buckets = self._buckets
        for key, offset in self._latest.items():
            bucket = crc32(key) % buckets  # type: ignore[arg-type]  # None was taken out
            keys[bucket].append(key)  # type: ignore[arg-type]
            offsets[bucket].append(offset)
        for bucket, bucket_keys in enumerate(keys):
            if bucket_keys:
                yield bucket, LatestKeys(self._stretch, bucket_keys, offsets[bucket])
        if self._without_key:
            yield self._stretch % buckets, LatestKeys(self._stretch, None, self._without_key)
        self._latest, self._without_key, self._new_bytes = {}, array("q"), 0

    def _is_large(self, records: KeyedRecords) -> bool:
        """Whether the keys collected since the last flush reach `PARCEL_BYTES`. Called once per batch: adding up takes
        time."""
        self._new_bytes += sum(map(len, filter(None, records.keys)))
        return self._new_bytes >= PARCEL_BYTES


def send_latest(
    messages: Iterator[LatestKeys | UnreadableRegion], *, routes: Routes
) -> Iterator[tuple[int, array[int] | UnreadableRegion]]:
    """The last offsets of all keys of one bucket, rising, for the parts that hold the records.

    Offsets travel doubled, with a bit for a tombstone that may be removed. A tombstone may be removed only if nothing
    undecided stands before it: the undecided record would come back to life.
    """
    latest: dict[int, dict[bytes, int]] = {}
    for message in messages:
        if isinstance(message, UnreadableRegion):
            yield from ((part, message) for part in range(*message.parts))
        elif message.keys is None:
            yield from _routed(message.stretch, message.offsets, routes)
        else:
            _merge(latest.setdefault(message.stretch, {}), message)
    for stretch, offsets_by_key in latest.items():
        yield from _routed(stretch, array("q", sorted(v >> 1 for v in offsets_by_key.values() if not v & 1)), routes)


def _merge(latest: dict[bytes, int], latest_keys: LatestKeys) -> None:
    get = latest.get
    for key, offset in zip(latest_keys.keys or (), latest_keys.offsets, strict=True):
        if offset > get(key, -1):
            latest[key] = offset  # noqa: PERF403  # a comprehension would hold them all once more


def _routed(stretch: int, offsets: array[int], routes: Routes) -> Iterator[tuple[int, array[int]]]:
    starts, first = routes.starts[stretch], routes.firsts[stretch]
    low = 0
    for number, _ in enumerate(starts):
        high = bisect_left(offsets, starts[number + 1], low) if number + 1 < len(starts) else len(offsets)
        if low < high:
            yield first + number, offsets[low:high]
        low = high
