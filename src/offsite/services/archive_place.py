"""An archive to read, as a person names it, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from offsite.archives.archive import ArchiveContents, ArchiveReader, Damage, Piece
from offsite.archives.formats import ReadOptions, open_reader
from offsite.log.group_offsets import offset_count
from offsite.repository.open_archive import open_archive_files
from offsite.services.hole_report import HoleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """`place` is its URL."""

    format: str
    place: str
    reader: ArchiveReader


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedPartition:
    """`end` is None where only reading would tell it."""

    topic: str
    partition: int
    start: int
    end: int | None
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What the indexes and names of an archive tell, without reading its records. `fidelity`: what it does not hold of
    its source."""

    format: str
    archive: str
    cluster_id: str
    partitions: tuple[InspectedPartition, ...]
    groups: int
    group_offsets: int
    holes: tuple[HoleReport, ...]
    fidelity: tuple[str, ...]
    damaged: tuple[Damage, ...]


def open_source(format_name: str, place: str, options: ReadOptions) -> ArchiveSource:
    """Touches nothing. Raises `BadOption`, `BadRepositoryUrl`."""
    files = open_archive_files(place)
    return ArchiveSource(format=format_name, place=files.url, reader=open_reader(format_name, files, options))


def inspect(source: ArchiveSource) -> Inspection:
    """Damage is a result here. Raises `ArchiveNotFound`, and what the store raises."""
    damages: list[Damage] = []
    contents = source.reader.contents(damages.append)
    return Inspection(
        format=source.format,
        archive=source.place,
        cluster_id=contents.cluster_id,
        partitions=tuple(_partitions(contents)),
        groups=len(contents.groups),
        group_offsets=offset_count(contents.groups),
        holes=tuple(
            HoleReport(
                topic=h.range.topic, partition=h.range.partition, start=h.range.start, end=h.range.end, reason=h.reason
            )
            for h in contents.holes
        ),
        fidelity=contents.fidelity,
        damaged=tuple(damages),
    )


def _partitions(contents: ArchiveContents) -> Iterator[InspectedPartition]:
    pieces = sorted(contents.pieces, key=lambda piece: (piece.topic, piece.partition, piece.start))
    for (topic, partition), group in groupby(pieces, key=lambda piece: (piece.topic, piece.partition)):
        yield _partition(topic, partition, list(group))


def _partition(topic: str, partition: int, pieces: Sequence[Piece]) -> InspectedPartition:
    return InspectedPartition(
        topic=topic,
        partition=partition,
        start=pieces[0].start,
        end=pieces[-1].end,
        files=len({file for piece in pieces for file in piece.files}),
        size_bytes=sum(piece.size_bytes for piece in pieces),
    )
