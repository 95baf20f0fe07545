"""Reads the blocks of an Avro object container file, with positions. Knows nothing of the contents.

`Obj` 1, a map of metadata, a sync marker of 16 bytes; then blocks: records (varint), bytes (varint), data, the marker.
A damaged block is reported and skipped: the next block begins behind the next sync marker. Source: Avro specification,
"Object Container Files".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.avro_claims import MAX_EMPTY_BLOCKS
from offsite.archives.file_parts import ByteSource, FileEnds
from offsite.archives.files import Files
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO, MAX_RECORD_BYTES

__all__ = ["Container", "ContainerBlock"]

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MAX_BLOCK_BYTES = MAX_RECORD_BYTES
"""Stored or decompressed."""
MAX_METADATA_BYTES = 4 << 20
MAX_METADATA_ENTRIES = 1_000
CODECS = ("null", "deflate", "snappy")


class BadContainer(Exception):
    """Becomes `Damage` in the module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerBlock:
    """A decompressed block. `data` holds `count` records; `position`: start of the block in the file."""

    count: int
    data: bytes
    position: int


class Container:
    """An open file. `schema`: the writer's schema, as JSON."""

    def __init__(self, source: ByteSource, key: str, metadata: dict[str, bytes], sync: bytes) -> None:
        self.schema = metadata.get("avro.schema", b"")
        self._codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
        self._source, self._key, self._sync = source, key, sync

    @classmethod
    def open(cls, files: Files, key: str, on_damage: OnDamage) -> Container | None:
        """Open the container in a file. Returns None and reports damage when the beginning is no container's."""
        source = ByteSource(files, key)
        try:
            return cls._opened(source, key)
        except FileEnds as error:
            on_damage(Damage(file=key, position=source.position, problem=f"is truncated inside its header: {error}"))
        except BadContainer as error:
            on_damage(Damage(file=key, position=0, problem=str(error)))
        return None

    @classmethod
    def _opened(cls, source: ByteSource, key: str) -> Container:
        if source.at_end() and not source.exists:
            raise BadContainer("is missing")
        if source.take(len(MAGIC)) != MAGIC:
            raise BadContainer("is not an Avro container file: it does not begin with 'Obj' 1")
        container = cls(source, key, _read_metadata(source), source.take(SYNC_BYTES))
        if container._codec not in CODECS:
            raise BadContainer(f"has codec {container._codec!r}; supported are {', '.join(CODECS)}")
        return container

    def blocks(self, on_damage: OnDamage) -> Iterator[ContainerBlock]:
        source, grown, empty = self._source, 0, 0
        while not source.at_end():
            start = source.position
            try:
                block = self._block(start)
                grown += len(block.data)
                if grown > max(MAX_EXPANDED_BYTES, MAX_RATIO * source.position):
                    problem = f"the data up to here decompresses to {grown} bytes: the rest is left out"
                    on_damage(Damage(file=self._key, position=start, problem=problem))
                    return
                if block.count or block.data:
                    yield block
                    continue
                empty += 1
                if empty > MAX_EMPTY_BLOCKS:
                    problem = f"more than {MAX_EMPTY_BLOCKS:,} empty blocks: the rest is left out"
                    on_damage(Damage(file=self._key, position=start, problem=problem))
                    return
            except (BadContainer, FileEnds) as error:
                on_damage(Damage(file=self._key, position=start, problem=f"a block is damaged: {error}"))
                source.seek(start)
                source.skip_past(self._sync)

    def _block(self, start: int) -> ContainerBlock:
        count, size_bytes = _read_long(self._source), _read_long(self._source)
        if not (0 <= count <= MAX_BLOCK_BYTES and 0 <= size_bytes <= MAX_BLOCK_BYTES):
            raise BadContainer(f"{count} records in {size_bytes} bytes")
        data = self._source.take(size_bytes)
        if self._source.take(SYNC_BYTES) != self._sync:
            raise BadContainer("no sync marker after it")
        return ContainerBlock(count=count, data=_decompress(self._codec, data), position=start)


def _read_long(source: ByteSource) -> int:
    """Read a zigzag varint."""
    value = shift = 0
    while True:
        byte = source.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise BadContainer("a number of more than 64 bits")


def _read_metadata(source: ByteSource) -> dict[str, bytes]:
    metadata: dict[str, bytes] = {}
    while count := _read_long(source):
        if count < 0:
            _read_long(source)  # how many bytes the entries take
        if abs(count) + len(metadata) > MAX_METADATA_ENTRIES or source.position > MAX_METADATA_BYTES:
            raise BadContainer(f"{abs(count)} entries of metadata")
        for _ in range(abs(count)):
            name = _read_bytes(source).decode("utf-8", "replace")
            metadata[name] = _read_bytes(source)
    return metadata


def _read_bytes(source: ByteSource) -> bytes:
    size_bytes = _read_long(source)
    if not 0 <= size_bytes <= MAX_METADATA_BYTES:
        raise BadContainer(f"{size_bytes} bytes of metadata")
    return source.take(size_bytes)


def _decompress(codec: str, data: bytes) -> bytes:
    if codec == "deflate":
        return _read_deflate(data)
    return _read_snappy(data) if codec == "snappy" else data


def _read_deflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(data, MAX_BLOCK_BYTES)
    except zlib.error as error:
        raise BadContainer(f"not deflate: {error}") from error
    if not inflater.eof:
        raise BadContainer(f"not deflate: it does not end, in {len(plain)} bytes")
    return plain


def _read_snappy(data: bytes) -> bytes:
    """Decompress raw snappy, followed by the CRC-32 of the contents, big-endian."""
    import cramjam

    try:
        if len(data) < 4 or cramjam.snappy.decompress_raw_len(data[:-4]) > MAX_BLOCK_BYTES:
            raise BadContainer("not snappy: impossible length")
        plain = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    except cramjam.DecompressionError as error:
        raise BadContainer(f"not snappy: {error}") from error
    if zlib.crc32(plain) != int.from_bytes(data[-4:]):
        raise BadContainer("it fails its CRC-32")
    return plain
