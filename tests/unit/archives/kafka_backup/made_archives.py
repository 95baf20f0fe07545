"""Small archives, made by our writer or byte by byte as the tool would, and how to read them back."""

from __future__ import annotations

from collections.abc import Sequence

from offsite.archives.archive import Damage, OnDamage, refuse_damage
from offsite.archives.files import AppendableFiles, Files
from offsite.archives.kafka_backup import KafkaBackupReader, KafkaBackupWriter
from offsite.archives.kafka_backup.segments.files import encode_entries
from offsite.archives.kafka_backup.segments.record import encode_record
from offsite.log.range import LogRange
from offsite.log.records.record import Record
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles

TOPIC = "orders"
STEM = f"{TOPIC}/segment_partition_000_from_offset_0000000000"
RECORDS, INDEX = f"{STEM}_records", f"{STEM}_index"


def record(offset: int, *, value: bytes | None = b"value", key: bytes | None = b"key") -> Record:
    headers = (("trace", b"1"), ("trace", None)) if offset % 3 == 0 else ()
    return Record(offset, 1_767_225_600_000 + offset, offset % 2, key, value, headers)


def records(start: int, end: int) -> list[Record]:
    return [record(offset, value=b"v%d" % offset * (1 + offset % 5)) for offset in range(start, end)]


def write(
    files: AppendableFiles, some: Sequence[Record], *, segment_bytes: int = 300, at_once: int = 3, partition: int = 0
) -> None:
    """One run of an export: goes on where the archive ends."""
    writer = KafkaBackupWriter(files=files, segment_bytes=segment_bytes)
    writer.ends()
    log_range = LogRange(topic=TOPIC, partition=partition, start=some[0].offset, end=some[-1].offset + 1)
    with writer.open(log_range) as range_writer:
        for first in range(0, len(some), at_once):
            range_writer.append(some[first : first + at_once])
        range_writer.close()


def made(some: Sequence[Record], *, segment_bytes: int = 300) -> MemoryFiles:
    files = MemoryFiles()
    write(files, some, segment_bytes=segment_bytes)
    return files


def one_segment(some: Sequence[Record]) -> MemoryFiles:
    return made(some, segment_bytes=1 << 20)


def with_bytes(chunks: Sequence[bytes], entries: Sequence[tuple[int, int, int]]) -> MemoryFiles:
    """One segment: its records file from `chunks`, its index from (offset, position, length)."""
    index = b"".join(encode_entries([offset], start, [start + length]) for offset, start, length in entries)
    return MemoryFiles({RECORDS: b"\x01" + b"".join(chunks), INDEX: b"\x01" + index})


def encoded(offset: int) -> bytes:
    return encode_record(record(offset))


def read_all(files: Files, *, piece_bytes: int = 1 << 30, on_damage: OnDamage = refuse_damage) -> list[Record]:
    reader = KafkaBackupReader(files=files, piece_bytes=piece_bytes)
    pieces = reader.contents(on_damage).pieces
    return [each for piece in pieces for batch in reader.read(piece, on_damage) for each in batch]


def read_what_is_whole(files: Files, *, piece_bytes: int = 1 << 30) -> tuple[list[Record], list[Damage]]:
    damage: list[Damage] = []
    return read_all(files, piece_bytes=piece_bytes, on_damage=damage.append), damage
