"""The bytes of a segment on their way into its object: plain or in independent zstd frames, hashed and counted."""

from __future__ import annotations

from typing import Protocol

import zstandard
from blake3 import blake3

from offsite.log.buffer import Buffer
from offsite.repository.segments.segment import Compression
from offsite.stores.store import ObjectWriter

HASH_NAME = "blake3"
ZSTD_LEVEL = 1

_SAMPLE_BYTES = 256 * 1024
_WORTHWHILE = 0.75
"""Compress if a sample shrinks below this ratio. Less gain is not worth the time for writing and reading."""


def content_hash(data: Buffer) -> str:
    """The hash of an object in the form used by commits: algorithm, colon, hexadecimal digest."""
    return f"{HASH_NAME}:{blake3(data).hexdigest()}"


def pays_off(sample: Buffer) -> bool:
    """Whether compression saves enough, for data that begins with `sample`."""
    head = memoryview(sample)[:_SAMPLE_BYTES]
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(head)) < _WORTHWHILE * len(head)


class SegmentBody(Protocol):
    """Takes raw bytes, whole batches at a time, and tracks the stored size and hash."""

    @property
    def stored_bytes(self) -> int:
        """Bytes stored so far; the start of the next frame, directly after `end_frame`."""

    def write(self, data: Buffer) -> None:
        """Add raw bytes to the frame."""

    def end_frame(self) -> None:
        """End the frame: the following bytes are readable on their own."""

    def hash(self) -> str:
        """Hash of the stored bytes so far."""


class PlainBody:
    """Stores bytes unchanged; frames are only positions."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer
        self._hasher = blake3()
        self._stored_bytes = 0

    @property
    def stored_bytes(self) -> int:
        return self._stored_bytes

    def write(self, data: Buffer) -> None:
        self._hasher.update(data)
        self._writer.write(data)
        self._stored_bytes += len(data)

    def end_frame(self) -> None:
        """Does nothing: plain bytes are readable from any batch on."""

    def hash(self) -> str:
        return f"{HASH_NAME}:{self._hasher.hexdigest()}"


class ZstdBody:
    """Each frame of the segment is one zstd frame (RFC 8878). The object is the sequence of frames, readable by `zstd
    -d`.

    A frame is gathered and compressed as a whole, a sixth faster than as a stream of parts.
    """

    def __init__(self, writer: ObjectWriter) -> None:
        self._plain = PlainBody(writer)
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._frame = bytearray()
        self._frame_bytes = 0

    @property
    def stored_bytes(self) -> int:
        return self._plain.stored_bytes

    def write(self, data: Buffer) -> None:
        part = memoryview(data)
        end = self._frame_bytes + part.nbytes
        if end > len(self._frame):
            self._frame.extend(bytes(end - len(self._frame)))
        self._frame[self._frame_bytes : end] = part
        self._frame_bytes = end

    def end_frame(self) -> None:
        if self._frame_bytes:
            with memoryview(self._frame)[: self._frame_bytes] as frame:
                self._plain.write(self._compressor.compress(frame))
            self._frame_bytes = 0

    def hash(self) -> str:
        return self._plain.hash()


def open_body(writer: ObjectWriter, compression: Compression) -> SegmentBody:
    return ZstdBody(writer) if compression is Compression.ZSTD else PlainBody(writer)
