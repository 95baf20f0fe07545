"""Archives as the tool's connectors wrote them, for tests: no real one could be had."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import fastavro

from offsite.archives.archive import OnDamage, refuse_damage
from offsite.archives.trivadis import TrivadisReader
from offsite.log.records.record import Record
from offsite.stores.archive_files import ArchiveFolder

TOPIC = "orders"
JAVA_BYTES = bytes.fromhex("aced0005757200025b42acf317f8060854e0020000 7870".replace(" ", ""))
HEADERS = {"type": "map", "values": "bytes"}
SCHEMA = {
    "type": "record",
    "name": "AvroKafkaRecord",
    "namespace": "ch.tbd.kafka.backuprestore.model.avro",
    "fields": [
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": "long"},
        {"name": "key", "type": ["bytes", "null"], "default": "null"},
        {"name": "value", "type": ["bytes", "null"], "default": "null"},
        {"name": "headers", "type": [HEADERS, "null"], "default": "null"},
    ],
}


def java_bytes(data: bytes) -> bytes:
    return JAVA_BYTES + len(data).to_bytes(4) + data


def java_text(text: str) -> bytes:
    data = text.encode()
    return b"\xac\xed\0\5t" + len(data).to_bytes(2) + data


def record(offset: int, value: bytes | None = b"v", *, key: bytes | None = b"k") -> Record:
    return Record(offset, 1_560_000_000_000 + offset, 0, key, value)


def row(
    each: Record, *, topic: str = TOPIC, partition: int = 0, headers: Mapping[str, bytes] | None = None
) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": each.offset,
        "timestamp": each.timestamp_ms,
        "key": each.key or b"",
        "value": each.value or b"",
        "headers": dict(headers or {}),
    }


def container(rows: Sequence[Mapping[str, object]], *, codec: str = "null", block_bytes: int = 16_000) -> bytes:
    out = BytesIO()
    fastavro.writer(out, SCHEMA, rows, codec=codec, sync_interval=block_bytes, sync_marker=b"sync marker 16 b")
    return out.getvalue()


def lines(rows: Sequence[Mapping[str, object]]) -> bytes:
    found = []
    for each in rows:
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), each)
        found.append(b64encode(out.getvalue()) + b"\n")
    return b"".join(found)


def put(root: Path, start: int, data: bytes, *, tree: str = "", topic: str = TOPIC, partition: int = 0) -> Path:
    folder = root / topic / tree / str(partition)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{topic}-{partition}-{start:015}.avro"
    path.write_bytes(data)
    return path


def put_records(root: Path, records: Sequence[Record], *, tree: str = "") -> Path:
    return put(root, records[0].offset, container([row(each) for each in records]), tree=tree)


def reader(root: Path, *, empty_as: str = "null") -> TrivadisReader:
    return TrivadisReader(files=ArchiveFolder(root=root), empty_as=empty_as)


def read_all(reader: TrivadisReader, on_damage: OnDamage = refuse_damage) -> list[Record]:
    pieces = reader.contents(on_damage).pieces
    return [each for piece in pieces for batch in reader.read(piece, on_damage) for each in batch]


def offsets(records: Sequence[Record]) -> list[int]:
    return [each.offset for each in records]
