"""A few KiB that grow to 1.25 GiB, in everything of offsite that is compressed: each must end as a named error.

Not drawn like other mutants, for no drawing finds them; a target's only mutant is its bomb.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache

import zstandard

from offsite.model.units import MIB
from tests.batches import make_batch
from tests.fuzz import corpus_archives, corpus_batches, corpus_objects, corpus_repository
from tests.fuzz.layers import in_segment, mapped, with_codec_body
from tests.fuzz.renewal import renewed
from tests.fuzz.target import Files, Target, Trust

_GROWN_BYTES = 1280 * MIB
_STEP_BYTES = 16 * MIB
_SYNC_BYTES = 16
_GZIP_HEAD = bytes.fromhex("1f8b08000000000000ff")


@cache
def zstd_bomb() -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = bytes(_STEP_BYTES)
    return b"".join(compressor.compress(zeros) for _ in range(_GROWN_BYTES // _STEP_BYTES)) + compressor.flush()


@cache
def sized_zstd_bomb() -> bytes:
    """A frame that says how large it becomes, and says far too much."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00"


@cache
def deflate_bomb() -> bytes:
    """The same flushed block again and again: nothing in it points behind it."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = compressor.compress(bytes(_STEP_BYTES)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return block * (_GROWN_BYTES // _STEP_BYTES) + compressor.flush()


def gzip_bomb() -> bytes:
    return _GZIP_HEAD + deflate_bomb() + struct.pack("<II", 0, _GROWN_BYTES)


def _instead(target: Target, suffix: str, bomb: Callable[[bytes], bytes]) -> Target:
    """The target's only mutant: one file of that suffix is a bomb, made from what it was."""
    key = next(key for key in sorted(target.files) if key.endswith(suffix))

    def seal(files: Files, _key: str, _data: bytes) -> Files:
        changed = bomb(files[key])
        if target.trust is Trust.RENEWED:
            return renewed(files, key, changed)
        return {**files, key: changed}

    return Target(files=target.files, read=target.read, trust=target.trust, seal=seal)


def _repository() -> Target:
    return corpus_repository.fresh(trust=Trust.RENEWED)


def _export(kind: str, compression: str | None) -> Target:
    return corpus_archives.export(kind, trust=Trust.RENEWED, compression=compression)


def _in_avro_block(bomb: bytes) -> Callable[[bytes], bytes]:
    def made(data: bytes) -> bytes:
        sync = data[-_SYNC_BYTES:]
        head = data[: data.index(sync) + _SYNC_BYTES]
        return head + b"\x14" + _zigzag(len(bomb)) + bomb + sync

    return made


def _zigzag(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _batch(codec: int, bomb: Callable[[], bytes]) -> Target:
    target = corpus_batches.batch(codec, trust=Trust.RENEWED)
    made = with_codec_body(make_batch(0, codec=codec), bomb())
    return Target(
        files=target.files, read=target.read, trust=target.trust, seal=lambda _files, _key, _data: {"bomb": made}
    )


BOMBS: Mapping[str, Callable[[], Target]] = {
    "offset-map": lambda: _instead(corpus_objects.offset_map(), ".map", lambda _: mapped(zstd_bomb())),
    "offset-map-sized": lambda: _instead(corpus_objects.offset_map(), ".map", lambda _: mapped(sized_zstd_bomb())),
    "segment-index": lambda: _instead(corpus_objects.segment_index(), ".idx", lambda _: zstd_bomb()),
    "segment": lambda: _instead(_repository(), ".log.zst", lambda _: zstd_bomb()),
    "segment-sized": lambda: _instead(_repository(), ".log.zst", lambda _: sized_zstd_bomb()),
    "repository-index": lambda: _instead(_repository(), ".idx", lambda _: zstd_bomb()),
    "jsonl-gzip": lambda: _instead(_export("jsonl", "gzip"), ".gz", lambda _: gzip_bomb()),
    "jsonl-zstd": lambda: _instead(_export("jsonl", "zstd"), ".zst", lambda _: zstd_bomb()),
    "avro-deflate": lambda: _instead(_export("avro", "deflate"), ".data", _in_avro_block(deflate_bomb())),
    "avro-zstd": lambda: _instead(_export("avro", "zstandard"), ".data", _in_avro_block(zstd_bomb())),
    "osodevops": lambda: _instead(
        _export("osodevops", None), ".bin.zst", lambda data: in_segment(data).close(zstd_bomb())
    ),
    "trivadis": lambda: _instead(corpus_archives.trivadis(), "010.avro", _in_avro_block(deflate_bomb())),
    "trivadis-lines": lambda: _instead(corpus_archives.trivadis(), "index-30.avro-messages", lambda _: gzip_bomb()),
    "batch-gzip": lambda: _batch(1, gzip_bomb),
    "batch-zstd": lambda: _batch(4, zstd_bomb),
    "batch-snappy": lambda: _batch(2, lambda: b"\xff\xff\xff\xff\x0f" + bytes(100)),
}
"""By what is compressed. LZ4 and snappy say how large they become, block by block, which drawn mutants change."""
