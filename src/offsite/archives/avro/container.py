"""Avro object container files: a header with the schema, then blocks of records with a marker behind every block.

Owns the framing and the codecs, not the contents of blocks. The same blocks make the same file: the marker derives from
the file name. Reading names the byte of a problem, and continues behind the next marker. A snappy block ends with a
CRC32, a zstandard frame holds a checksum: both find flipped bits. Output is bounded, so a damaged or hostile block
cannot exhaust a worker's memory. Format: Avro 1.11 specification, object container files, codecs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from blake3 import blake3

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.avro.varints import LENGTHS
from offsite.archives.file_parts import FileWindow, SourceFile
from offsite.log.buffer import Buffer
from offsite.log.codec import SNAPPY, ZSTD, decompress
from offsite.log.varint import zigzag
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO, MAX_RECORD_BYTES
from offsite.model.errors import BadOption, DamagedBatch

CODECS = ("null", "deflate", "snappy", "zstandard")
CHECKED_CODECS = frozenset({"snappy", "zstandard"})
"""Codecs that find a flipped bit. (zstandard: in offsite's files, and wherever the writer enabled checksums.)"""
DEFAULT_CODEC = "snappy"
MAX_BLOCK_BYTES = MAX_RECORD_BYTES

MAX_EMPTY_BLOCKS = 100_000
"""Per file: empty blocks hold nothing, but take time."""

_CRC = struct.Struct(">I")
_DEFLATE_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export
_MAGIC = b"Obj\x01"
_MARKER_BYTES = 16
_BLOCK_BYTES = 64 << 10
"""A block ends with the group of records that reaches this size: mostly a single group, written without a copy."""
_MAX_HEADER_BYTES = 4 << 20
_MAX_ENTRIES = 1_000
_MAX_VARINT_BITS = 70


class BadBlock(ValueError):
    """A block breaks the rules of its codec."""


def make_compressor(codec: str) -> Callable[[bytes], Sequence[Buffer]]:
    """Make a function that returns the parts of a compressed block. Raises `BadOption` for a codec outside `CODECS`."""
    if codec == "null":
        return lambda plain: (plain,)
    if codec == "deflate":
        return lambda plain: (zlib.compress(plain, _DEFLATE_LEVEL, -zlib.MAX_WBITS),)
    if codec == "snappy":
        import cramjam

        return lambda plain: (memoryview(cramjam.snappy.compress_raw(plain)), _CRC.pack(zlib.crc32(plain)))
    if codec == "zstandard":
        import zstandard

        frames = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return lambda plain: (frames.compress(plain),)
    raise BadOption(f"{codec!r} is not a codec of Avro files", hint=f"choose one of {', '.join(CODECS)}")


def decompress_block(codec: str, block: bytes) -> Buffer:
    """Decompress a block. Raises `BadBlock`."""
    if codec == "null":
        return block
    try:
        if codec == "deflate":
            return _inflated(block)
        if codec == "snappy" and len(block) > _CRC.size:
            return _checked(decompress(SNAPPY, memoryview(block)[: -_CRC.size], max_bytes=MAX_BLOCK_BYTES), block)
        if codec == "zstandard":
            return decompress(ZSTD, block, max_bytes=MAX_BLOCK_BYTES)
    except (DamagedBatch, zlib.error) as error:
        raise BadBlock(str(error)) from error
    raise BadBlock(f"no block of codec {codec!r}")


def _checked(plain: Buffer, block: bytes) -> Buffer:
    if zlib.crc32(plain) != _CRC.unpack_from(block, len(block) - _CRC.size)[0]:
        raise BadBlock("fails its CRC32")
    return plain


def _inflated(block: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(block, MAX_BLOCK_BYTES + 1)
    if len(plain) > MAX_BLOCK_BYTES:
        raise BadBlock(f"decompresses to more than {MAX_BLOCK_BYTES} bytes")
    if not inflater.eof:
        raise BadBlock("the stream is truncated")
    return plain


class ContainerWriter:
    """Builds an object container file. `name` decides the marker: no two files of an archive share a marker."""

    def __init__(self, *, name: str, schema: bytes, codec: str) -> None:
        self._marker = blake3(name.encode("utf-8")).digest(length=_MARKER_BYTES)
        self._compress = make_compressor(codec)
        metadata = {b"avro.codec": codec.encode("ascii"), b"avro.schema": schema}
        entries = (LENGTHS[len(part)] + part for entry in metadata.items() for part in entry)
        self._parts: list[Buffer] = [b"".join((_MAGIC, zigzag(len(metadata)), *entries, b"\x00", self._marker))]
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._waiting_records = 0
        self.size_bytes = len(self._parts[0])
        self.plain_bytes = 0

    def add(self, records: int, encoded: bytes) -> None:
        self._waiting.append(encoded)
        self._waiting_bytes += len(encoded)
        self._waiting_records += records
        if self._waiting_bytes >= _BLOCK_BYTES:
            self._end_block()

    def close(self) -> bytes:
        if self._waiting:
            self._end_block()
        return b"".join(self._parts)

    def _end_block(self) -> None:
        block = self._compress(b"".join(self._waiting))
        size_bytes = sum(map(len, block))
        frame = zigzag(self._waiting_records) + zigzag(size_bytes)
        self._parts += (frame, *block, self._marker)
        self.size_bytes += len(frame) + size_bytes + _MARKER_BYTES
        self.plain_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes, self._waiting_records = [], 0, 0


class FileHeader(NamedTuple):
    schema: bytes
    codec: str
    marker: bytes


class AvroBlock(NamedTuple):
    """A plain block of a file. `position`: start of the block in the file; `data` holds `records` records."""

    position: int
    records: int
    data: Buffer


class _BadFrame(ValueError):
    pass


def read_header(window: FileWindow, key: str, on_damage: OnDamage) -> FileHeader | None:
    """Read the header of a file. Returns None and reports damage without a complete header: then the file is
    unreadable."""
    try:
        return _read_header(window)
    except _BadFrame as error:
        on_damage(Damage(file=key, position=window.position, problem=str(error)))
        return None


def _read_header(window: FileWindow) -> FileHeader:
    if window.read(len(_MAGIC)) != _MAGIC:
        window.back_to(0)
        raise _BadFrame("not an Avro file")
    metadata: dict[bytes, bytes] = {}
    while (entries := _read_long(window)) != 0:
        if entries < 0:  # then the size of the entries follows
            _read_long(window)
        if abs(entries) + len(metadata) > _MAX_ENTRIES or window.position > _MAX_HEADER_BYTES:
            raise _BadFrame("a header with too many entries")
        for _ in range(abs(entries)):
            name = _read_blob(window)
            metadata[name] = _read_blob(window)
    marker = window.read(_MARKER_BYTES)
    if len(marker) < _MARKER_BYTES or b"avro.schema" not in metadata:
        raise _BadFrame("the header is truncated, or has no schema")
    codec = metadata.get(b"avro.codec", b"null").decode("ascii", "replace")
    if codec not in CODECS:
        raise _BadFrame(f"has codec {codec[:40]!r}; supported are {', '.join(CODECS)}")
    return FileHeader(metadata[b"avro.schema"], codec, marker)


class ContainerReader:
    """Reads the blocks of a file whose header was read from `window`."""

    def __init__(self, source: SourceFile, header: FileHeader, on_damage: OnDamage) -> None:
        self._window, self._key, self._promised_bytes = source.window, source.key, source.plain_bytes
        self._header, self._on_damage = header, on_damage

    def blocks(self) -> Iterator[AvroBlock]:
        """Yield all undamaged, non-empty blocks in order; damaged blocks are reported."""
        grown = empty = 0
        while not self._is_at_end():
            position = self._window.position
            try:
                records, data = self._read_block()
            except _BadFrame as error:
                self._report(position, str(error))
                self._window.back_to(position)
                if not self._window.pass_marker(self._header.marker):
                    return
                continue
            try:
                plain = decompress_block(self._header.codec, data)
            except BadBlock as error:
                self._report(position, str(error))
                continue
            grown += len(plain)
            if grown > max(MAX_EXPANDED_BYTES, self._promised_bytes, MAX_RATIO * self._window.position):
                self._report(position, f"the data up to here decompresses to {grown} bytes: the rest is left out")
                return
            if not records and not len(plain):
                empty += 1
                if empty > MAX_EMPTY_BLOCKS:
                    self._report(position, f"more than {MAX_EMPTY_BLOCKS:,} empty blocks: the rest is left out")
                    return
                continue
            yield AvroBlock(position, records, plain)

    def _read_block(self) -> tuple[int, bytes]:
        records, size = _read_long(self._window), _read_long(self._window)
        if records < 0 or not 0 <= size <= MAX_BLOCK_BYTES:
            raise _BadFrame(f"a block of {records} records and {size} bytes is impossible")
        data = self._window.read(size)
        marker = self._window.read(_MARKER_BYTES)
        if len(data) < size or len(marker) < _MARKER_BYTES:
            raise _BadFrame("the last block is truncated")
        if marker != self._header.marker:
            raise _BadFrame(f"the block of {size} bytes does not end with the file's marker")
        return records, data

    def _is_at_end(self) -> bool:
        position = self._window.position
        is_at_end = not self._window.read(1)
        self._window.back_to(position)
        return is_at_end

    def _report(self, position: int, problem: str) -> None:
        self._on_damage(Damage(file=self._key, position=position, problem=problem))


def _read_blob(window: FileWindow) -> bytes:
    size = _read_long(window)
    if not 0 <= size <= _MAX_HEADER_BYTES:
        raise _BadFrame(f"a text of {size} bytes in the header")
    data = window.read(size)
    if len(data) < size:
        raise _BadFrame("the header is truncated")
    return data


def _read_long(window: FileWindow) -> int:
    value = 0
    for shift in range(0, _MAX_VARINT_BITS, 7):
        byte = window.read(1)
        if not byte:
            raise _BadFrame("the file is truncated")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value >> 1 ^ -(value & 1)
    raise _BadFrame("a number of more than 64 bits")
