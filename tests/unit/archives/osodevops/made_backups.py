"""Small backups for tests, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from offsite.archives.archive import ArchiveContents, ArchiveTopic, Damage, OnDamage, RangeReceipt, refuse_damage
from offsite.archives.osodevops import OsodevopsReader, OsodevopsWriter
from offsite.log.range import LogRange
from offsite.log.records.record import Record, RecordHeaders
from offsite.stores.archive_files import ArchiveFolder

TOPIC = "orders"


def record(
    offset: int, value: bytes | None = b"v", *, headers: RecordHeaders = (), key: bytes | None = b"k", kind: int = 0
) -> Record:
    return Record(offset, 1_700_000_000_000 + offset, kind, key, value, headers)


def log_range(start: int, end: int, *, partition: int = 0, topic: str = TOPIC) -> LogRange:
    return LogRange(topic=topic, partition=partition, start=start, end=end)


def write(writer: OsodevopsWriter, where: LogRange, records: Sequence[Record]) -> RangeReceipt:
    with writer.open(where) as out:
        out.append(records)
        return out.close()


def backup(root: Path, records: Sequence[Record], *, segment_bytes: int = 32 << 20, lossy: bool = False) -> list[Path]:
    """The records in partition 0 of one topic, as an archive; its segment files."""
    writer = OsodevopsWriter(files=ArchiveFolder(root=root), segment_bytes=segment_bytes, lossy=lossy)
    written = write(writer, log_range(0, records[-1].offset + 1), records)
    writer.finish([written], [ArchiveTopic(topic=TOPIC, partitions=1)], {})
    return [root / receipt.name for receipt in written.files]


def read_all(
    reader: OsodevopsReader, contents: ArchiveContents | None = None, on_damage: OnDamage = refuse_damage
) -> list[Record]:
    contents = contents or reader.contents(on_damage)
    return [row for piece in contents.pieces for batch in reader.read(piece, on_damage) for row in batch]


def read_what_is_whole(root: Path, **options: bool) -> tuple[list[Record], list[Damage]]:
    told: list[Damage] = []
    reader = OsodevopsReader(files=ArchiveFolder(root=root), adopt_orphans=options.get("adopt_orphans", False))
    return read_all(reader, None, told.append), told


def offsets(records: Iterable[Record]) -> list[int]:
    return [each.offset for each in records]
