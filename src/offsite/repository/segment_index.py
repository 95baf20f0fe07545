"""The sidecar of a segment: where its frames begin and where its transactions ended, so that readers can seek.

Stored as zstd-compressed JSON: {"format": 1, "segment": key, "frames": [[first offset, raw position, stored position,
maximum timestamp, CRC32C of the raw bytes], ...], "markers": [[offset, producer id, producer epoch, 1 if committed,
first offset of its data or -1], ...]}. A segment of one frame without transactions has none. It can be rebuilt from
the segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import zstandard

from offsite.log.transactions import Marker
from offsite.model.errors import DamagedObject
from offsite.model.size import MIB
from offsite.repository.json_object import FORMAT, encode_canonical, parse_json_object

_MAX_INDEX_BYTES = 512 * MIB
_LEVEL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """About 4 MiB of batches. `first_offset` is the first base offset, `raw_position` counts in the log as Kafka had
    it, `stored_position` in the object. `timestamp_max_ms` is exact. `raw_crc` (CRC32C) covers all raw bytes of the
    frame, the header bytes that Kafka's own CRC leaves out included, so that a part can be trusted without reading
    the whole."""

    first_offset: int
    raw_position: int
    stored_position: int
    timestamp_max_ms: int
    raw_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndex:
    """What the sidecar of `segment_key` says; no frames and no markers for a segment that needs none."""

    segment_key: str
    frames: tuple[Frame, ...]
    markers: tuple[Marker, ...] = ()

    def frame_of(self, offset: int) -> int:
        """The number of the last frame that begins at or before `offset`; 0 when none does."""
        return max(bisect_right(self.frames, offset, key=lambda frame: frame.first_offset) - 1, 0)

    def first_frame_reaching(self, time_ms: int) -> int:
        """The number of the first frame with a timestamp of at least `time_ms`; the number of frames if none has."""
        reaching = (number for number, frame in enumerate(self.frames) if frame.timestamp_max_ms >= time_ms)
        return next(reaching, len(self.frames))


def encode_index(index: SegmentIndex) -> bytes:
    frames = [[f.first_offset, f.raw_position, f.stored_position, f.timestamp_max_ms, f.raw_crc] for f in index.frames]
    markers = [[m.offset, m.producer_id, m.producer_epoch, int(m.committed), m.first_offset] for m in index.markers]
    plain = encode_canonical({"format": FORMAT, "segment": index.segment_key, "frames": frames, "markers": markers})
    return zstandard.ZstdCompressor(level=_LEVEL).compress(plain)


def decode_index(data: bytes, *, key: str) -> SegmentIndex:
    """Read the index object `key`. Raises `DamagedObject`, `FormatTooNew`."""
    try:
        plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_INDEX_BYTES)
    except zstandard.ZstdError as error:
        raise _damaged(f"{key}: {error}") from error
    item = parse_json_object(plain, source=key, damaged=_damaged)
    frames = tuple(
        Frame(first_offset=first, raw_position=raw, stored_position=stored, timestamp_max_ms=time_ms, raw_crc=crc)
        for first, raw, stored, time_ms, crc in item.integer_rows("frames", width=5)
    )
    if not frames:
        raise _damaged(f"{key}: no frames")
    markers = tuple(_marker(row) for row in item.integer_rows("markers", width=5))
    return SegmentIndex(segment_key=item.text("segment"), frames=frames, markers=markers)


def _marker(row: Iterable[int]) -> Marker:
    offset, producer_id, producer_epoch, committed, first_offset = row
    return Marker(
        offset=offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=bool(committed),
        first_offset=first_offset,
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="the index can be rebuilt from its segment; run: offsite verify --deep")
