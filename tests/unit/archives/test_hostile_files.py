"""Small files that claim to be huge, or take for ever: read with bounds, by every reader of archives.

Each case runs in a child with little memory and time: what goes wrong here would take the whole machine. The bounds are
lowered, so that a case need not be larger than to pass them; the fuzzer's bombs are read with the real ones.
"""

from __future__ import annotations

import gc
import gzip
import json
import multiprocessing
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from offsite.archives import inflate
from offsite.archives.archive import Damage
from offsite.archives.formats import open_reader
from offsite.model.units import MIB
from offsite.model.untrusted import bounded_json
from offsite.stores.archive_files import ArchiveFolder

_LINES = "topics/orders/partition=0/orders+0-00000000000000000000.jsonl"
_AVRO = "topics/orders/partition=0/orders+0-00000000000000000000.data"
_KAFKA_BACKUP = "orders/segment_partition_000_from_offset_0000000000_records"
_CONTAINER = "orders/0/orders-0-000000000000000.avro"
_FIELDS: list[dict[str, object]] = [
    {"name": "topic", "type": "string"},
    {"name": "partition", "type": "int"},
    {"name": "offset", "type": "long"},
    {"name": "timestamp", "type": "long"},
    {"name": "key", "type": ["bytes", "null"]},
    {"name": "value", "type": "bytes"},
    {"name": "headers", "type": [{"type": "map", "values": "bytes"}, "null"]},
]
_RECURSIVE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}


def zstd_of_one_byte(byte: bytes, size_mib: int) -> bytes:
    """A frame of RLE blocks that does not say its size."""
    block = (128 << 10) << 3 | 1 << 1
    parts = [(block | (number == 0)).to_bytes(3, "little") + byte for number in range(size_mib * 8)]
    return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(reversed(parts))


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def long_of(number: int) -> bytes:
    number, out = number << 1 ^ number >> 63, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def avro(fields: list[dict[str, object]], block: bytes, *, records: int = 1, codec: str = "null") -> bytes:
    schema = {"type": "record", "name": "AvroKafkaRecord", "fields": fields}
    texts = (b"avro.codec", codec.encode(), b"avro.schema", json.dumps(schema).encode())
    head = b"Obj\x01\x04" + b"".join(long_of(len(each)) + each for each in texts) + b"\0" + b"m" * 16
    return head + long_of(records) + long_of(len(block)) + block + b"m" * 16


def extra(kind: object) -> list[dict[str, object]]:
    return [{"name": "extra", "type": kind}, *_FIELDS]


def empty_blocks(count: int) -> bytes:
    return avro(_FIELDS, b"", records=0) + (b"\0\0" + b"m" * 16) * count


def zstd_avro() -> bytes:
    return avro(_FIELDS, zstandard.ZstdCompressor().compress(bytes(20 << 20)), codec="zstandard")


def osodevops(body: bytes) -> bytes:
    data = struct.pack("<4sBB2xQqq", b"KBAK", 1, 1, 1, 0, 0) + body
    return data + struct.pack("<I4s", zlib.crc32(data), b"BKAE")


def large_osodevops_record() -> bytes:
    record = struct.pack("<I", 50 << 20) + bytes(50 << 20)
    return osodevops(zstandard.ZstdCompressor().compress(record))


def heads(count: int) -> bytes:
    """Each claims a key up to the end of the file."""
    end = 24 * count
    return b"\x01" + b"".join(struct.pack(">qiqi", 1, 0, 0, end - 24 * n - 200) for n in range(count - 10))


BOUNDS = {
    "decoding_process.MAX_BASE_S": 2,
    "avro.container.MAX_EMPTY_BLOCKS": 1_000,
    "avro.container.MAX_BLOCK_BYTES": 9 * MIB,
    "jsonl.archive.MAX_LINE_BYTES": 9 * MIB,
    "jsonl.archive.MAX_BLANK_LINES": 50_000,
    "osodevops.segment.MAX_RECORD_BYTES": 9 * MIB,
    "trivadis.line_file.MAX_LINE_BYTES": 9 * MIB,
}
"""About a sixteenth of the real ones."""

CASES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "a line of zstd": ("jsonl", f"{_LINES}.zst", lambda: zstd_of_one_byte(b"x", 50)),
    "empty lines": ("jsonl", f"{_LINES}.zst", lambda: zstd_of_one_byte(b"\n", 8)),
    "bad lines": ("jsonl", f"{_LINES}.gz", lambda: gzip.compress(b"x\n" * (1 << 20))),
    "objects of nothing": ("jsonl", f"{_LINES}.gz", lambda: gzip.compress(b'{"a":[' + b"[]," * (1_700 << 10))),
    "digits": ("jsonl", _LINES, lambda: b'{"offset":' + b"9" * 5_000 + b"}\n"),
    "a block of zstd": ("avro", _AVRO, zstd_avro),
    "a block of deflate": ("avro", _AVRO, lambda: avro(_FIELDS, deflated(bytes(20 << 20)), codec="deflate")),
    "a type in itself": ("avro", _AVRO, lambda: avro(extra(_RECURSIVE), b"\x02" * 100_000 + b"\0")),
    "items of nothing": (
        "avro",
        _AVRO,
        lambda: avro(extra({"type": "array", "items": "null"}), long_of(1 << 40) + b"\0"),
    ),
    "blocks of nothing": ("avro", _AVRO, lambda: empty_blocks(3_000)),
    "blocks of nothing of trivadis": ("trivadis", _CONTAINER, lambda: empty_blocks(3_000)),
    "metadata without end": ("avro", _AVRO, lambda: b"Obj\x01" + long_of(4 << 20) + b"\0\0" * (4 << 20)),
    "a type in itself of trivadis": (
        "trivadis",
        _CONTAINER,
        lambda: avro([*_FIELDS[:6], {"name": "headers", "type": _RECURSIVE}], b"\x02" * 10_000),
    ),
    "records of nothing": (
        "trivadis",
        _CONTAINER,
        lambda: avro([{**field, "type": "null"} for field in _FIELDS], b"", records=1 << 29),
    ),
    "a line of gzip": ("trivadis", "orders/0/index-0.avro-messages", lambda: gzip.compress(b"A" * (20 << 20), 1)),
    "a large record": ("osodevops", "segment", large_osodevops_record),
    "heads without records": ("kafka-backup", _KAFKA_BACKUP, lambda: heads(15_000)),
}


def put(root: Path, name: str, data: bytes) -> None:
    if name == "segment":
        name = "topics/orders/partition=0/segment-00000000000000000000.bin.zst"
        entry = {"key": f"b/{name}", "start_offset": 0, "end_offset": 0}
        partition = {"partition_id": 0, "segments": [entry]}
        manifest = {"backup_id": "b", "topics": [{"name": "orders", "partitions": [partition]}]}
        put(root, "manifest.json", json.dumps(manifest).encode())
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read_in_child(kind: str, root: Path, limit_mib: int, answer: multiprocessing.connection.Connection) -> None:
    gc.freeze()  # what earlier tests left is not to be finalized here: their clients' threads were not forked
    held_kib = next(
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize")
    )
    limit = (held_kib << 10) + (limit_mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    told: list[Damage] = []
    reader = open_reader(kind, ArchiveFolder(root=root))
    pieces = reader.contents(told.append).pieces
    records = sum(len(batch) for piece in pieces for batch in reader.read(piece, told.append))
    answer.send((records, len(told), str(told[0])))


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in BOUNDS.items():
        monkeypatch.setattr(f"offsite.archives.{name}", value)
    monkeypatch.setitem(inflate.inflate.__kwdefaults__, "most_bytes", 32 * MIB)
    monkeypatch.setitem(bounded_json.check_json_size.__kwdefaults__, "max_outside", MIB)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case == "items of nothing" else case for case in CASES]
)
def test_a_hostile_file_ends_as_named_damage(tmp_path: Path, case: str) -> None:
    kind, name, make = CASES[case]
    put(tmp_path, name, make())
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    child = context.Process(target=read_in_child, args=(kind, tmp_path, 1_024, its))
    child.start()
    its.close()
    child.join(120)
    assert child.exitcode == 0, f"exit {child.exitcode}"
    records, told, first = mine.recv()
    assert records == 0
    assert "orders" in first
    assert 0 < told <= 1_001
