"""Opens an archive named by a person, inspects the contents, and rebuilds the indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from offsite.archives import kafka_backup
from offsite.archives.archive import ArchiveReader, Damage, OnDamage, Piece
from offsite.archives.files import Files
from offsite.archives.formats import ReadOptions, open_reader
from offsite.archives.indexed.reading import IndexedReader
from offsite.archives.kafka_backup import InspectedSegment, ReindexResult
from offsite.log.group_offsets import offset_count
from offsite.model.errors import BadOption
from offsite.model.untrusted.text import printable
from offsite.reports.point_report import HoleReport
from offsite.stores.open_store import open_archive_files

KAFKA_BACKUP = "kafka-backup"
TEXT_SHOWN = 60
"""Characters shown of a key or value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """An archive to read, as named by a person. `place`: the URL."""

    format: str
    files: Files
    reader: ArchiveReader

    @property
    def place(self) -> str:
        return self.files.url


def open_source(format_name: str, place: str, options: ReadOptions) -> ArchiveSource:
    """Open the archive at `place` for reading. Touches nothing. Raises `BadOption`, `BadRepositoryUrl`."""
    files = open_archive_files(place)
    return ArchiveSource(format=format_name, files=files, reader=open_reader(format_name, files, options))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePartition:
    """A partition in an archive: offsets `[start, end)`. `end` is None if unknown."""

    topic: str
    partition: int
    start: int
    end: int | None
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveInspection:
    """The contents of an archive, from the indexes, and from the files themselves where no index lists a file.
    `fidelity`: properties of the source missing from the archive. `unfit`: intact files refused by an import, with
    advice (`unfit`). `segments`: of kafka-backup archives, with records and index state."""

    format: str
    archive: str
    cluster_id: str
    partitions: tuple[ArchivePartition, ...]
    segments: tuple[InspectedSegment, ...]
    groups: int
    group_offsets: int
    holes: tuple[HoleReport, ...]
    fidelity: tuple[str, ...]
    damaged: tuple[Damage, ...]
    unfit: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """A record, with `size_bytes` bytes of the file from `position`. Keys and values are shortened text, null is None;
    bytes other than text are escaped."""

    position: int
    size_bytes: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: str | None
    value: str | None
    headers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLines:
    archive: str
    file: str
    records: tuple[RecordLine, ...]
    damaged: tuple[Damage, ...]


def inspect(source: ArchiveSource) -> ArchiveInspection:
    """Inspect an archive. Files outside every index are read completely, as by an import; indexed files are checked for
    existence and size. Damage is part of the result.

    Raises `ArchiveNotFound`, and the errors of the store.
    """
    damages: list[Damage] = []
    contents = source.reader.contents(damages.append)
    pieces = [_read_through(piece, source, damages.append) for piece in contents.pieces]
    if isinstance(source.reader, IndexedReader):
        source.reader.check_sizes(damages.append)
    segments: tuple[InspectedSegment, ...] = ()
    if source.format == KAFKA_BACKUP:
        segment_inspection = kafka_backup.inspect(source.files)
        segments = tuple(segment for partition in segment_inspection.partitions for segment in partition.segments)
        damages += segment_inspection.damage
    return ArchiveInspection(
        format=source.format,
        archive=source.place,
        cluster_id=contents.cluster_id,
        partitions=tuple(_partitions(pieces)),
        segments=segments,
        groups=len(contents.groups),
        group_offsets=offset_count(contents.groups),
        holes=tuple(
            HoleReport(
                topic=h.range.topic, partition=h.range.partition, start=h.range.start, end=h.range.end, reason=h.reason
            )
            for h in contents.holes
        ),
        fidelity=(*contents.fidelity, *dict.fromkeys(str(damage) for damage in damages if damage.is_note)),
        damaged=_real(damages),
        unfit=tuple(dict.fromkeys(damage for damage in damages if damage.unfit)),
    )


def _read_through(piece: Piece, source: ArchiveSource, on_damage: OnDamage) -> Piece:
    """Return the piece with the ends found by reading, if the ends are unknown. Segments of kafka-backup are examined
    separately."""
    if piece.end is not None or source.format == KAFKA_BACKUP:
        return piece
    first = last = None
    for batch in source.reader.read(piece, on_damage):
        if batch:
            first, last = batch[0].offset if first is None else first, batch[-1].offset
    return piece if first is None or last is None else replace(piece, start=first, end=last + 1)


def inspect_file(source: ArchiveSource, file: str, *, limit: int) -> RecordLines:
    """Return the first `limit` records of a file. Raises `BadOption` for a format other than kafka-backup: files of
    further formats are read by common tools."""
    if source.format != KAFKA_BACKUP:
        raise BadOption(
            "only records of kafka-backup segments can be shown", hint="import the archive, then use: offsite cat"
        )
    damages: list[Damage] = []
    records = kafka_backup.inspect_records(source.files, file, damages.append)
    lines = tuple(
        RecordLine(
            position=placed.position,
            size_bytes=placed.size_bytes,
            offset=placed.record.offset,
            timestamp_ms=placed.record.timestamp_ms,
            timestamp_type=placed.record.timestamp_type,
            key=_text(placed.record.key),
            value=_text(placed.record.value),
            headers=len(placed.record.headers),
        )
        for placed in islice(records, limit)
    )
    return RecordLines(archive=source.place, file=file, records=lines, damaged=_real(damages))


def reindex(place: str, topic: str | None = None) -> ReindexResult:
    """Rebuild the indexes of a kafka-backup archive from the records. Raises `ArchiveNotFound`, `BadOption`."""
    folder = open_archive_files(place).appendable
    if folder is None:
        raise BadOption(
            f"indexes can be repaired only in a folder, and {place} is not a folder",
            hint="copy the archive into a folder",
        )
    return kafka_backup.reindex(folder, topic)


def _real(damages: Sequence[Damage]) -> tuple[Damage, ...]:
    return tuple(dict.fromkeys(damage for damage in damages if not damage.is_note and not damage.unfit))


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = printable(data[:TEXT_SHOWN].decode("utf-8", "backslashreplace"))
    return text if len(data) <= TEXT_SHOWN else f"{text}…"


def _partitions(read_pieces: Sequence[Piece]) -> Iterator[ArchivePartition]:
    pieces = sorted(read_pieces, key=lambda piece: (piece.topic, piece.partition, piece.start))
    for (topic, partition), group in groupby(pieces, key=lambda piece: (piece.topic, piece.partition)):
        yield _partition(topic, partition, list(group))


def _partition(topic: str, partition: int, pieces: Sequence[Piece]) -> ArchivePartition:
    return ArchivePartition(
        topic=topic,
        partition=partition,
        start=pieces[0].start,
        end=pieces[-1].end,
        files=len({file for piece in pieces for file in piece.files}),
        size_bytes=sum(piece.size_bytes for piece in pieces),
    )
