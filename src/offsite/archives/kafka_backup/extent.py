"""Finds the offsets of a segment, from both ends of a trusted index."""

from __future__ import annotations

from dataclasses import dataclass
from operator import lt

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import SegmentFile
from offsite.archives.kafka_backup.segments.index import Entries, SegmentIndexFile
from offsite.archives.kafka_backup.segments.reader import KafkaBackupSegmentReader
from offsite.archives.kafka_backup.segments.record_codec import decode_run, offsets_of
from offsite.archives.kafka_backup.segments.records_file import FIRST_POSITION, RecordsFile
from offsite.archives.kafka_backup.segments.walk import SkippedBytes, Walk, WholeRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentExtent:
    """Offsets `first` to `last`, both inclusive. `is_indexed`: an index describes the whole segment, judged by both
    ends (unchecked for small segments). `ends_whole`: the file ends with the last record."""

    segment: SegmentFile
    first: int
    last: int
    is_indexed: bool
    ends_whole: bool


def find_extent(files: Files, segment: SegmentFile, *, small_bytes: int = 0) -> SegmentExtent | None:
    """Find the extent of a segment; None for a segment without records. Reads the whole file only without a trusted
    index, or for at most `small_bytes`: reading a small file is faster than checking both ends of the index."""
    if segment.records_bytes <= FIRST_POSITION:
        return None
    if segment.records_bytes <= small_bytes and (extent := _small(files, segment)) is not None:
        return extent
    index = SegmentIndexFile.of(files, segment)
    if index.count and not index.is_torn:
        file = RecordsFile(files, segment.records_key, segment.records_bytes)
        first, last = index.entries(0, 1), index.entries(index.count - 1, 1)
        if first.positions[0] == FIRST_POSITION and file.describes(first) and file.describes(last):
            return _indexed(segment, file, first.offsets[0], last)
    return _read_through(files, segment)


def _small(files: Files, segment: SegmentFile) -> SegmentExtent | None:
    """Return None for a file with more or less than complete records."""
    file = RecordsFile(files, segment.records_key, segment.records_bytes)
    run = decode_run(file.read(FIRST_POSITION, file.size_bytes))
    offsets = offsets_of(run.records)
    is_whole = bool(offsets) and FIRST_POSITION + run.ends[-1] == file.size_bytes
    if not is_whole or not all(map(lt, offsets, offsets[1:])):
        return None
    return SegmentExtent(segment=segment, first=offsets[0], last=offsets[-1], is_indexed=False, ends_whole=True)


def _indexed(segment: SegmentFile, file: RecordsFile, first: int, last_entry: Entries) -> SegmentExtent:
    """Return the extent by the index. Records behind the last entry are walked."""
    last = last_entry.offsets[0]
    if last_entry.end(0) == file.size_bytes:
        return SegmentExtent(segment=segment, first=first, last=last, is_indexed=True, ends_whole=True)
    walk = Walk(file, last_entry.positions[0], file.size_bytes, last - 1)
    steps = list(map(type, walk.steps()))
    last = max(last, walk.last)
    return SegmentExtent(
        segment=segment, first=first, last=last, is_indexed=False, ends_whole=SkippedBytes not in steps
    )


def _read_through(files: Files, segment: SegmentFile) -> SegmentExtent | None:
    """Read the whole file. If damage comes first, the extent begins at the offset in the name: the damage belongs to
    the segment."""
    first = last = -1
    ends_whole = False
    for step in KafkaBackupSegmentReader(files, segment).steps():
        if isinstance(step, WholeRecords):
            first = step.records[0].offset if first < 0 else first
            last = step.records[-1].offset
            ends_whole = True
        elif isinstance(step, SkippedBytes):
            first = segment.start if first < 0 else first
            ends_whole = False
    if last < 0:
        return None
    return SegmentExtent(segment=segment, first=first, last=last, is_indexed=False, ends_whole=ends_whole)
