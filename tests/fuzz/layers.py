"""What lies around the bytes that parsers take apart: digests, compression, the CRC32C of batches."""

from __future__ import annotations

import gzip
import hashlib
import re
import struct
import zlib
from collections.abc import Sequence

import zstandard
from crc32c import crc32c

from offsite.log.batch import CRC_START, HEADER_BYTES, LENGTH_END
from offsite.log.codec import compress, decompress
from offsite.model.untrusted.bounded_json import with_digest
from tests.fuzz.renewal import has_digest, undigested
from tests.fuzz.target import Layer

_CODEC_MASK = 0x07
_HUGE = 1 << 28
_LINE_CHECKSUM = re.compile(rb',"crc32c":"[0-9a-f]{8}"\}')
_KBAK, _KBAK_HEAD_BYTES, _KBAK_TAIL = b"KBAK", 32, struct.Struct("<I4s")
_MAP_HEAD, _MAP_VERSION, _MAP_DIGEST_BYTES = struct.Struct("<4sBI"), 2, 32


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(_HUGE)


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def with_crcs(data: bytes) -> bytes:
    """Batches back to back with their CRC32C made anew; from the first that is none on, `data` as it is."""
    log, position = bytearray(data), 0
    while position + HEADER_BYTES <= len(log):
        (length,) = struct.unpack_from(">i", log, position + 8)
        end = position + LENGTH_END + length
        if length < HEADER_BYTES - LENGTH_END or end > len(log):
            break
        struct.pack_into(">I", log, position + 17, crc32c(bytes(log[position + CRC_START : end])))
        position = end
    return bytes(log)


def batch_of(plain: bytes) -> bytes:
    """One batch from a head and a plain body, in the codec and with the length that belong to them."""
    head, body = bytearray(plain[:HEADER_BYTES]), plain[HEADER_BYTES:]
    if len(head) < HEADER_BYTES:
        return plain
    codec = head[CRC_START + 1] & _CODEC_MASK
    stored = bytes(compress(codec, body)) if codec <= 4 else body
    struct.pack_into(">i", head, 8, HEADER_BYTES - LENGTH_END + len(stored))
    return with_crcs(bytes(head) + stored)


def plain_batch(batch: bytes) -> bytes:
    codec = batch[CRC_START + 1] & _CODEC_MASK
    return batch[:HEADER_BYTES] + bytes(decompress(codec, memoryview(batch)[HEADER_BYTES:]))


def with_codec_body(batch: bytes, stored: bytes) -> bytes:
    """The batch with another body, as it is stored."""
    head = bytearray(batch[:HEADER_BYTES])
    struct.pack_into(">i", head, 8, HEADER_BYTES - LENGTH_END + len(stored))
    return with_crcs(bytes(head) + stored)


def mapped(stored: bytes) -> bytes:
    """An offset map of one chunk, from its payload as it is stored."""
    head = _MAP_HEAD.pack(b"OFMP", _MAP_VERSION, len(stored))
    return head + hashlib.sha256(head + stored).digest() + stored


def _map_payload(data: bytes) -> bytes:
    """That of the only chunk, of whatever version."""
    _, version, _ = _MAP_HEAD.unpack_from(data)
    return data[_MAP_HEAD.size + (_MAP_DIGEST_BYTES if version == _MAP_VERSION else 0) :]


DIGEST = Layer(open=undigested, close=with_digest)
ZSTD = Layer(open=_unzstd, close=_zstd)
GZIP = Layer(open=gzip.decompress, close=lambda data: gzip.compress(data, mtime=0))
CRCS = Layer(open=lambda data: data, close=with_crcs)
ZSTD_CRCS = Layer(open=_unzstd, close=lambda data: _zstd(with_crcs(data)))
BATCH = Layer(open=plain_batch, close=batch_of)
OFFSET_MAP = Layer(open=lambda data: _unzstd(_map_payload(data)), close=lambda data: mapped(_zstd(data)))


def in_segment(data: bytes) -> Layer:
    """Between the head of a segment of osodevops and its end, which holds the CRC32 of all before it."""
    head, tail = data[:_KBAK_HEAD_BYTES], data[-4:]

    def close(stored: bytes) -> bytes:
        whole = head + stored
        return whole + _KBAK_TAIL.pack(zlib.crc32(whole), tail)

    return Layer(open=lambda data: data[len(head) : -_KBAK_TAIL.size], close=close)


def behind(outer: Layer, inner: Layer) -> Layer:
    return Layer(open=lambda data: inner.open(outer.open(data)), close=lambda data: outer.close(inner.close(data)))


def _crc32_end(data: bytes) -> bytes:
    """A segment of osodevops with the CRC32 at its end made anew."""
    body = data[: -_KBAK_TAIL.size]
    return body + _KBAK_TAIL.pack(zlib.crc32(body), data[-4:]) if len(data) > _KBAK_TAIL.size else data


def _without_checksums(data: bytes) -> bytes:
    return _LINE_CHECKSUM.sub(b"}", data)


def _with_checksums(data: bytes) -> bytes:
    """JSON lines as offsite exports them."""
    return b"".join(map(_checked_line, data.splitlines(keepends=True)))


def _checked_line(line: bytes) -> bytes:
    body = line.rstrip(b"\n")
    if not body.endswith(b"}"):
        return line
    return b'%b,"crc32c":"%08x"}' % (body[:-1], crc32c(body[:-1])) + line[len(body) :]


LINES = Layer(open=_without_checksums, close=_with_checksums)
KBAK_CRC = Layer(open=lambda data: data, close=_crc32_end)

_BY_SUFFIX: dict[str, Sequence[Layer]] = {
    ".jsonl": (LINES,),
    ".jsonl.gz": (GZIP, behind(GZIP, LINES)),
    ".jsonl.zst": (ZSTD, behind(ZSTD, LINES)),
    ".log.zst": (ZSTD_CRCS, ZSTD_CRCS, ZSTD),
    ".log": (CRCS,),
    ".idx": (ZSTD,),
    ".map": (OFFSET_MAP,),
    ".zst": (ZSTD,),
    ".gz": (GZIP,),
}


def layers_of(key: str, data: bytes) -> Sequence[Layer]:
    """By the end of its name; an object that carries a digest has that layer alone."""
    if has_digest(data):
        return (DIGEST,)
    if data.startswith(_KBAK):
        in_zstd = (behind(in_segment(data), ZSTD),) if key.endswith(".zst") else ()
        return (KBAK_CRC, *in_zstd)
    return next((found for suffix, found in _BY_SUFFIX.items() if key.endswith(suffix)), ())
