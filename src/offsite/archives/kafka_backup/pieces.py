"""Divides a partition among tasks: small segments are joined, large segments are cut by their index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsite.archives.archive import Piece
from offsite.archives.files import Files
from offsite.archives.kafka_backup.extent import SegmentExtent
from offsite.archives.kafka_backup.segments.index import SegmentIndexFile

PIECE_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class _Part:
    """An indivisible part: a group of overlapping segments, or a part of a segment."""

    start: int
    files: tuple[str, ...]
    size_bytes: int


def plan_pieces(files: Files, runs: Sequence[list[SegmentExtent]], piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """Yield disjoint, rising pieces of a partition. With damage behind the last record, the last piece has no end, so
    its task reports the damage. Yields nothing for no runs."""
    if not runs:
        return
    segment = runs[0][0].segment
    parts = [part for run in runs for part in _parts(files, run, piece_bytes)]
    joined = list(_joined(parts, piece_bytes))
    ends: list[int | None] = [part.start for part in joined[1:]]
    for part, end in zip(joined, [*ends, _end(runs[-1])], strict=True):
        yield Piece(
            topic=segment.topic,
            partition=segment.partition,
            start=part.start,
            end=end,
            files=part.files,
            size_bytes=part.size_bytes,
        )


def _end(last_run: Sequence[SegmentExtent]) -> int | None:
    is_whole = all(extent.ends_whole for extent in last_run)
    return max(extent.last for extent in last_run) + 1 if is_whole else None


def _parts(files: Files, run: list[SegmentExtent], piece_bytes: int) -> Iterator[_Part]:
    size_bytes = sum(extent.segment.records_bytes for extent in run)
    names = tuple(extent.segment.records_key for extent in run)
    cuts = _cuts(files, run[0], piece_bytes) if len(run) == 1 and run[0].is_indexed else {}
    starts = {0: run[0].first, **cuts}
    for (position, start), (end, _) in pairwise([*starts.items(), (size_bytes, 0)]):
        yield _Part(start, names, end - position)


def _cuts(files: Files, extent: SegmentExtent, piece_bytes: int) -> dict[int, int]:
    """Return position → offset of the records that begin further parts of a large segment."""
    index = SegmentIndexFile.of(files, extent.segment)
    cuts: dict[int, int] = {}
    lowest = extent.first
    for target in range(piece_bytes, extent.segment.records_bytes - piece_bytes // 2, piece_bytes):
        entry = index.entries(index.first_at(target), 1)
        if len(entry) and lowest < entry.offsets[0] <= extent.last and entry.positions[0] >= target:
            lowest = entry.offsets[0]
            cuts[entry.positions[0]] = lowest
    return cuts


def _joined(parts: Sequence[_Part], piece_bytes: int) -> Iterator[_Part]:
    group: list[_Part] = []
    size_bytes = 0
    for part in parts:
        if group and size_bytes + part.size_bytes > piece_bytes:
            yield _join(group)
            group, size_bytes = [], 0
        group.append(part)
        size_bytes += part.size_bytes
    yield _join(group)


def _join(group: Sequence[_Part]) -> _Part:
    names = dict.fromkeys(name for part in group for name in part.files)
    return _Part(group[0].start, tuple(names), sum(part.size_bytes for part in group))
