"""Which offsets a segment holds, from the two ends of its index where that can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import Segment
from offsite.archives.kafka_backup.records_file import FIRST_POSITION, RecordsFile
from offsite.archives.kafka_backup.segment_index import Entries
from offsite.archives.kafka_backup.segment_index_file import SegmentIndexFile
from offsite.archives.kafka_backup.segment_reader import SegmentReader
from offsite.archives.kafka_backup.walk import Walk, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Offsets `first` to `last`, both inside. `is_indexed`: an index describes all of it, as far as its ends tell."""

    segment: Segment
    first: int
    last: int
    is_indexed: bool


def extent_of(files: Files, segment: Segment) -> Extent | None:
    """None when the segment holds no record. Reads the whole file only when its index is no help."""
    if segment.records_bytes <= FIRST_POSITION:
        return None
    index = SegmentIndexFile.of(files, segment)
    if index.count and not index.is_torn:
        file = RecordsFile(files, segment.records_key, segment.records_bytes)
        first, last = index.entries(0, 1), index.entries(index.count - 1, 1)
        if first.positions[0] == FIRST_POSITION and file.describes(first) and file.describes(last):
            return _indexed(segment, file, first.offsets[0], last)
    return _read_through(files, segment)


def overlapping(extents: Iterable[Extent]) -> Iterator[list[Extent]]:
    """Runs of segments that share offsets, in order; nearly always of one."""
    run: list[Extent] = []
    highest = -1
    for extent in sorted(extents, key=lambda each: each.first):
        if run and extent.first > highest:
            yield run
            run = []
        run.append(extent)
        highest = max(highest, extent.last)
    if run:
        yield run


def _indexed(segment: Segment, file: RecordsFile, first: int, last_entry: Entries) -> Extent:
    """The records behind the last entry, if any, are walked."""
    last = last_entry.offsets[0]
    walk = Walk(file, last_entry.positions[0], file.size_bytes, last - 1)
    for _ in walk.steps():
        pass
    is_indexed = last_entry.end(0) == file.size_bytes
    return Extent(segment=segment, first=first, last=max(last, walk.last), is_indexed=is_indexed)


def _read_through(files: Files, segment: Segment) -> Extent | None:
    """Reads all; `first` is at most what the name says, so that damage before it belongs to this segment."""
    runs = (step for step in SegmentReader(files, segment).steps() if isinstance(step, Whole))
    first = last = -1
    for run in runs:
        first = run.records[0].offset if first < 0 else first
        last = run.records[-1].offset
    if first < 0:
        return None
    return Extent(segment=segment, first=min(first, segment.start), last=last, is_indexed=False)
