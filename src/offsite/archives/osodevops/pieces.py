"""The segments of a manifest cut into pieces, one task each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from offsite.archives.archive import Damage, OnDamage, Piece
from offsite.archives.osodevops.manifest import ListedSegment, Manifest
from offsite.log.range import TopicPartition

__all__ = ["pieces_of"]


def pieces_of(
    manifest: Manifest, *, sizes: Mapping[str, int], piece_bytes: int, on_damage: OnDamage
) -> Iterator[Piece]:
    """Pieces of about `piece_bytes` as stored. `sizes` are of the files there are; a missing one is told, and stays in
    its piece: reading that finds out which offsets are lost by it."""
    for of, partition in manifest.partitions():
        for segment in partition.segments:
            if segment.key not in sizes:
                problem = f"is missing; the manifest lists it for {segment.offsets}"
                on_damage(Damage(file=segment.key, position=0, problem=problem))
        segments = [replace(each, size_bytes=sizes.get(each.key, 0)) for each in partition.segments]
        if segments:
            yield from _cut(of, segments, piece_bytes)


def _cut(of: TopicPartition, segments: Sequence[ListedSegment], piece_bytes: int) -> Iterator[Piece]:
    """Cut at the start of a segment; a file that reaches over a cut is read for both sides."""
    starts = _starts(segments, piece_bytes)
    ends = [*starts[1:], max(segment.end for segment in segments)]
    for start, end in zip(starts, ends, strict=True):
        within = [segment for segment in segments if segment.start < end and segment.end > start]
        yield Piece(
            topic=of.topic,
            partition=of.partition,
            start=start,
            end=end,
            files=tuple(dict.fromkeys(segment.key for segment in within)),
            size_bytes=sum(segment.size_bytes for segment in within),
        )


def _starts(segments: Sequence[ListedSegment], piece_bytes: int) -> list[int]:
    starts: list[int] = []
    filled = piece_bytes
    for start, group in groupby(segments, key=lambda segment: segment.start):
        if filled >= piece_bytes:
            starts.append(start)
            filled = 0
        filled += sum(segment.size_bytes for segment in group)
    return starts
