"""The sidecar of a segment: where its frames begin and where its transactions ended, so that readers can seek.

Stored as zstd-compressed JSON: {"format": 1, "segment": key, "frames": [[first offset, raw position, stored position,
maximum timestamp, CRC32C of the raw bytes], ...], "markers": [[offset, producer id, producer epoch, 1 if committed,
first offset of its data or -1], ...], "open": [[producer id, base offset of its first batch, of its last], ...]}.
A segment of one frame without transactions has none. It can be rebuilt from the segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import starmap

import zstandard

from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction
from offsite.model.errors import DamagedObject
from offsite.model.size import KIB, MIB
from offsite.repository.json_form import FORMAT, encode_canonical, parse_part
from offsite.repository.json_object import JsonObject, JsonValue
from offsite.repository.marker_text import MarkerText, insert_markers

_MAX_INDEX_BYTES = 512 * MIB
_BLOCK_BYTES = 64 * KIB
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
    """What the sidecar of `segment_key` says; no frames and no markers for a segment that needs none. `open`: the
    transactions with data in the segment and no marker after it; None: written before that was told."""

    segment_key: str
    frames: tuple[Frame, ...]
    markers: Markers = field(default_factory=Markers)
    open: tuple[OpenTransaction, ...] | None = None

    def frame_of(self, offset: int) -> int:
        """The number of the last frame that begins at or before `offset`; 0 when none does."""
        return max(bisect_right(self.frames, offset, key=lambda frame: frame.first_offset) - 1, 0)

    def first_frame_reaching(self, time_ms: int) -> int:
        """The number of the first frame with a timestamp of at least `time_ms`; the number of frames if none has."""
        reaching = (number for number, frame in enumerate(self.frames) if frame.timestamp_max_ms >= time_ms)
        return next(reaching, len(self.frames))


def encode_index(index: SegmentIndex) -> bytes:
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "segment": index.segment_key,
        "frames": [
            [f.first_offset, f.raw_position, f.stored_position, f.timestamp_max_ms, f.raw_crc] for f in index.frames
        ],
        "markers": [],
    }
    if index.open is not None:
        fields["open"] = [[each.producer_id, each.first_offset, each.last_offset] for each in index.open]
    plain = insert_markers(encode_canonical(fields), index.markers)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(plain)


def decode_index(data: bytes, *, key: str, with_markers: bool = True) -> SegmentIndex:
    """Read the index object `key`. Raises `DamagedObject`, `FormatTooNew`."""
    text = MarkerText(_blocks(data))
    markers = Markers()
    with _refused_as_damage(key):
        for part in text.markers(wanted=with_markers):
            markers.extend(part)
    item = parse_part(text.rest, source=key, damaged=_damaged)
    frames = tuple(
        Frame(first_offset=first, raw_position=raw, stored_position=stored, timestamp_max_ms=time_ms, raw_crc=crc)
        for first, raw, stored, time_ms, crc in item.integer_rows("frames", width=5)
    )
    if not frames:
        raise _damaged(f"{key}: no frames")
    markers.extend(_other_markers(item))
    return SegmentIndex(segment_key=item.text("segment"), frames=frames, markers=markers, open=_open(item))


def decode_markers(data: bytes, *, key: str) -> Iterator[Markers]:
    """Its markers alone, a part after the other, of an object that is known to be whole. Raises as `decode_index`."""
    text = MarkerText(_blocks(data))
    with _refused_as_damage(key):
        yield from text.markers()
    yield _other_markers(parse_part(text.rest, source=key, damaged=_damaged))


@contextmanager
def _refused_as_damage(key: str) -> Iterator[None]:
    try:
        yield
    except (zstandard.ZstdError, ValueError) as error:
        raise _damaged(f"{key}: {error}") from error


def _other_markers(item: JsonObject) -> Markers:
    """Those that are left: of text in another form than ours."""
    return Markers(starmap(Marker, item.integer_rows("markers", width=5)))


def _blocks(data: bytes) -> Iterator[bytes]:
    read_bytes = 0
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while block := reader.read(_BLOCK_BYTES):
            read_bytes += len(block)
            if read_bytes > _MAX_INDEX_BYTES:
                raise ValueError(f"larger than {_MAX_INDEX_BYTES} bytes")
            yield block


def _open(item: JsonObject) -> tuple[OpenTransaction, ...] | None:
    if "open" not in item.fields:
        return None
    return tuple(
        OpenTransaction(producer_id=producer_id, first_offset=first, last_offset=last)
        for producer_id, first, last in item.integer_rows("open", width=3)
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="the index can be rebuilt from its segment; run: offsite verify --deep")
