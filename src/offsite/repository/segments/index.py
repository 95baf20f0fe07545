"""The sidecar of a segment: where frames begin and where transactions ended, for seeking readers.

Stored as zstd-compressed JSON: {"format": 1, "segment": key, "frames": [[first offset, raw position, stored position,
maximum timestamp, CRC32C of the raw bytes], ...], "markers": [[offset, producer id, producer epoch, 1 if committed,
first offset of its data or -1], ...], "open": [[producer id, base offset of its first batch, of its last], ...]}. A
segment of one frame without transactions has no sidecar. The sidecar can be rebuilt from the segment.

Markers are written and read in blocks: a million rows never become a million objects.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, starmap
from operator import lt

import zstandard

from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedObject
from offsite.model.units import KIB, MIB
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_canonical, parse_part

_NAME = b'"markers":['
_WIDTH = 5
_BLOCK_MARKERS = 16_384
_MAX_ROW_BYTES = 1 * KIB  # five 64-bit numbers take a tenth
MAX_REST_BYTES = 8 * MIB
"""Limit of the text without the markers: frames of 4 MiB and open transactions, some 50 bytes each. As objects the text
takes up to 40 times the memory."""
_MAX_INDEX_BYTES = 256 * MIB
"""Limit of the whole text: 3 million markers in offsite's form, which take 120 MB, and 14 million at the very most."""
_BLOCK_BYTES = 64 * KIB
_LEVEL = 3


def insert_markers(plain: bytes, markers: Markers) -> bytearray:
    """Insert `markers` into `plain`, the canonical JSON of an object with an empty `markers` list."""
    head, tail = plain.split(_NAME, maxsplit=1)
    text = bytearray(head + _NAME)
    for start in range(0, len(markers), _BLOCK_MARKERS):
        block = markers[start : start + _BLOCK_MARKERS]
        text += b"," if start else b""
        text += b",".join(b"[%d,%d,%d,%d,%d]" % marker for marker in block)
    return text + tail


class MarkerText:
    """Reads the output of `insert_markers`, in `blocks` of any size.

    Read `markers` to its end, then `rest`.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self.rest = b""
        """The text without the markers; with them if the JSON is not in offsite's form."""

    def markers(self, *, with_markers: bool = True) -> Iterator[Markers]:
        """The markers, in about as many parts as blocks; none without `with_markers`. Raises `ValueError` if a row is
        not five integers."""
        head, text = self._head()
        for block in self._blocks if text else ():
            if _is_last(text):
                text += block
                break
            whole = text.rfind(b"],") + 1
            if not whole and len(text) > _MAX_ROW_BYTES:
                raise ValueError("a marker without an end")
            if with_markers and whole:
                yield _rows(text[:whole])
            text = text[whole + 1 if whole else 0 :] + block
        last = 0 if text.startswith(b"]") else text.find(b"]]") + 1
        if with_markers and last:
            yield _rows(text[:last])
        head += text[last:]
        for block in self._blocks:
            head += _within(block, len(head))
        self.rest = bytes(head)

    def _head(self) -> tuple[bytearray, bytearray]:
        """The text up to the first marker, or the whole text without markers; and the rest of the block."""
        text = bytearray()
        for block in self._blocks:
            searched = max(len(text) - len(_NAME), 0)
            text += _within(block, len(text))
            if (at := text.find(_NAME, searched)) >= 0:
                end = at + len(_NAME)
                return text[:end], text[end:] + next(self._blocks, b"")
        return text, bytearray()


def _within(block: bytes, before_bytes: int) -> bytes:
    if before_bytes + len(block) > MAX_REST_BYTES:
        raise ValueError(f"more than {MAX_REST_BYTES} bytes beside the markers")
    return block


def _is_last(text: bytearray) -> bool:
    return text.startswith(b"]") or b"]]" in text


def _rows(text: bytearray) -> Markers:
    """The rows of `[…],[…]`. Raises `ValueError`."""
    values = json.loads(text.replace(b"],[", b","))
    if len(values) != _WIDTH * (text.count(b"],[") + 1):
        raise ValueError(f"a marker is not a row of {_WIDTH} integers")
    try:
        return Markers(rows=array("q", values))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a marker is not a row of {_WIDTH} integers: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """About 4 MiB of batches. `first_offset`: the first base offset. `raw_position`: position in the uncompressed log;
    `stored_position`: position in the object. `timestamp_max_ms` is exact. `raw_crc` (CRC32C) covers all raw bytes of
    the frame, including the header bytes outside of Kafka's own CRC, so a frame can be trusted without reading the
    whole object."""

    first_offset: int
    raw_position: int
    stored_position: int
    timestamp_max_ms: int
    raw_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndex:
    """The content of the sidecar of `segment_key`; no frames and no markers for a segment without a sidecar. `open`:
    the transactions with data in the segment and no marker after the data; None: written by a version without such a
    record."""

    segment_key: str
    frames: tuple[Frame, ...]
    markers: Markers = field(default_factory=Markers)
    open: tuple[OpenTransaction, ...] | None = None

    def frame_of(self, offset: int) -> int:
        """The number of the last frame that begins at or before `offset`; 0 if none does."""
        return max(bisect_right(self.frames, offset, key=lambda frame: frame.first_offset) - 1, 0)


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
        fields["open"] = [
            [transaction.producer_id, transaction.first_offset, transaction.last_offset] for transaction in index.open
        ]
    plain = insert_markers(encode_canonical(fields), index.markers)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(plain)


def decode_index(data: bytes, *, key: str, with_markers: bool = True) -> SegmentIndex:
    """Read the index object `key`. Raises `DamagedObject`, `FormatTooNew`."""
    text = MarkerText(_blocks(data))
    markers = Markers()
    for part in _marker_parts(text, key, with_markers=with_markers):
        markers.extend(part)
    document = parse_part(text.rest, source=key, damaged=_damaged)
    markers.extend(_other_markers(document, key, after=markers[-1].offset if markers else -1))
    return SegmentIndex(
        segment_key=document.text("segment"), frames=_frames(document, key), markers=markers, open=_open(document, key)
    )


def decode_markers(data: bytes, *, key: str) -> Iterator[Markers]:
    """Only the markers of an index, in parts. The object must be known to be whole. Raises as `decode_index`."""
    text = MarkerText(_blocks(data))
    last = -1
    for part in _marker_parts(text, key, with_markers=True):
        yield part
        last = part[-1].offset
    yield _other_markers(parse_part(text.rest, source=key, damaged=_damaged), key, after=last)


def _marker_parts(text: MarkerText, key: str, *, with_markers: bool) -> Iterator[Markers]:
    last = -1
    try:
        for part in text.markers(with_markers=with_markers):
            _check_rise(part, key, after=last)
            last = part[-1].offset
            yield part
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise _damaged(f"{key}: {error}") from error


def _other_markers(document: JsonObject, key: str, *, after: int) -> Markers:
    """The markers of a text that is not in offsite's form."""
    try:
        markers = Markers(starmap(Marker, document.integer_rows("markers", width=5)))
    except OverflowError as error:
        raise _damaged(f"{key}: a number of more than 64 bits") from error
    _check_rise(markers, key, after=after)
    return markers


def _check_rise(markers: Markers, key: str, *, after: int) -> None:
    offsets = markers.offsets
    if offsets and not (offsets[0] > after and all(map(lt, offsets, offsets[1:]))):
        raise _damaged(f"{key}: the offsets of the markers do not rise")


def _frames(document: JsonObject, key: str) -> tuple[Frame, ...]:
    """The frames, checked to be consecutive from the beginning on."""
    frames = tuple(
        Frame(first_offset=first, raw_position=raw, stored_position=stored, timestamp_max_ms=time_ms, raw_crc=crc)
        for first, raw, stored, time_ms, crc in document.integer_rows("frames", width=5)
    )
    if not frames:
        raise _damaged(f"{key}: no frames")
    places = [(frame.first_offset, frame.raw_position, frame.stored_position) for frame in frames]
    rise = all(all(map(lt, place, next_place)) for place, next_place in pairwise(places))
    if not rise or places[0][0] < 0 or places[0][1:] != (0, 0) or max(places[-1]) > MAX_OFFSET:
        raise _damaged(f"{key}: the frames do not follow each other")
    if any(not 0 <= frame.raw_crc < 1 << 32 or abs(frame.timestamp_max_ms) > MAX_OFFSET for frame in frames):
        raise _damaged(f"{key}: a frame has impossible numbers")
    return frames


def _blocks(data: bytes) -> Iterator[bytes]:
    read_bytes = 0
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while block := reader.read(_BLOCK_BYTES):
            read_bytes += len(block)
            if read_bytes > _MAX_INDEX_BYTES:
                raise ValueError(f"larger than {_MAX_INDEX_BYTES} bytes")
            yield block


def _open(document: JsonObject, key: str) -> tuple[OpenTransaction, ...] | None:
    if "open" not in document.fields:
        return None
    rows = document.integer_rows("open", width=3)
    if rows and not 0 <= min(map(min, rows)) <= max(map(max, rows)) <= MAX_OFFSET:
        raise _damaged(f"{key}: an open transaction has impossible numbers")
    return tuple(
        OpenTransaction(producer_id=producer_id, first_offset=first, last_offset=last)
        for producer_id, first, last in rows
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="the index can be rebuilt from its segment; run: offsite verify --deep")
