"""Records with everything that a Kafka record may hold, for tests of archives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offsite.archives.archive import ArchiveReader, ArchiveTopic, ArchiveWriter, OnDamage, RangeReceipt, refuse_damage
from offsite.log.range import LogRange
from offsite.log.records.record import Record

TIME_MS = 1_700_000_000_000


def plain_records(start: int, end: int, *, value_bytes: int = 40) -> list[Record]:
    """Records that every format holds."""
    return [
        Record(
            offset, TIME_MS + offset * 7, 0, b"key-%d" % offset, (b"value-%d " % offset).ljust(value_bytes, b"x"), ()
        )
        for offset in range(start, end)
    ]


def odd_records(start: int = 0) -> list[Record]:
    """One of each oddity, with gaps between offsets."""
    return [
        Record(start, TIME_MS, 0, None, None, ()),
        Record(start + 1, -1, 0, b"", b"", ()),
        Record(start + 2, 0, 0, b"k", None, (("a", b"1"),)),
        Record(start + 5, TIME_MS - 9, 1, None, b"append time", ()),
        Record(start + 6, TIME_MS, 0, b"\xff\xfe", b"\x00\x80", (("a", b"1"), ("b", None), ("a", b""), ("", b"\xff"))),
        Record(start + 9, TIME_MS, 0, b"k", b"v", (("only", None),)),
        Record(start + 10, TIME_MS, 1, b"k", None, (("b", b"2"), ("a", b"1"))),
        Record(start + 8_200, 253_402_300_800_000, 0, "größe".encode(), "日本".encode(), (("größe", b"x"),)),
        Record(start + 1_000_000, TIME_MS, 0, b"k" * 300, b"v" * 70_000, (("h", b"x" * 500),)),
    ]


def binary_header(offset: int) -> Record:
    """A header whose name is not UTF-8, as the log's codec gives it out."""
    return Record(offset, TIME_MS, 0, b"k", b"v", ((b"\xff\xfename".decode("utf-8", "surrogateescape"), b"x"),))


def write_range(
    writer: ArchiveWriter,
    records: Sequence[Record],
    *,
    start: int,
    end: int,
    topic: str = "orders",
    partition: int = 0,
    at_once: int = 100,
) -> RangeReceipt:
    with writer.open(LogRange(topic=topic, partition=partition, start=start, end=end)) as range_writer:
        for at in range(0, len(records), at_once):
            range_writer.append(records[at : at + at_once])
        return range_writer.close()


def export(
    writer: ArchiveWriter, records: Sequence[Record], *, start: int, end: int, topic: str = "orders"
) -> RangeReceipt:
    """The whole way of a range of one topic with one partition."""
    writer.ends()
    written = write_range(writer, records, start=start, end=end, topic=topic)
    writer.finish([written], [ArchiveTopic(topic=topic, partitions=1)], {})
    return written


def read_all(reader: ArchiveReader, on_damage: OnDamage = refuse_damage) -> list[Record]:
    """All records of an archive with one partition, as pieces and batches come."""
    pieces = reader.contents(on_damage).pieces
    return [record for piece in pieces for batch in reader.read(piece, on_damage) for record in batch]


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
