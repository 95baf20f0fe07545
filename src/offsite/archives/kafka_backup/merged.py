"""Segments that overlap, as two runs of a crashed tool may leave them: in order of offsets, each given once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter

from offsite.archives.archive import Damage
from offsite.archives.kafka_backup.segment_records import SegmentRecords
from offsite.log.record import Record

_RECORDS_AT_ONCE = 4096


def merged(sources: Sequence[SegmentRecords]) -> Iterator[Sequence[Record]]:
    """Of records at the same offset the one of the earlier segment counts; a difference is told as damage."""
    records = _once(sources)
    while batch := list(islice(records, _RECORDS_AT_ONCE)):
        yield batch


def _once(sources: Sequence[SegmentRecords]) -> Iterator[Record]:
    streams = [_numbered(number, source) for number, source in enumerate(sources)]
    previous: Record | None = None
    for _, number, record in heapq.merge(*streams, key=itemgetter(0, 1)):
        if previous is None or record.offset > previous.offset:
            previous = record
            yield record
        elif record != previous:
            problem = f"its record at offset {record.offset} differs from that of another segment"
            source = sources[number]
            source.on_damage(Damage(file=source.segment.records_key, position=0, problem=problem))


def _numbered(number: int, source: SegmentRecords) -> Iterator[tuple[int, int, Record]]:
    return ((record.offset, number, record) for record in chain.from_iterable(source.batches()))
