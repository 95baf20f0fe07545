"""Whether a stored offset map matches the written records: looked up at every batch during the comparison of both ends.

The comparison shows that the n-th record of the source is the n-th of the target. Therefore the map must send the first
and the last record of every source batch to the target offset with the same number of records before. Reads nothing but
the map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.log.difference import RecordDifference
from offsite.log.offset_map import OffsetMap
from offsite.log.range import TopicPartition
from offsite.points.chain import PartitionChain
from offsite.points.source_view import VisibleBatch
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredMaps:
    """The maps of one restore in `store`, and the valid ones: `makings` are numbers of target topics that were made
    more than once, `starts` are the first offsets of target partitions."""

    store: Store
    layout: RestoreLayout
    makings: tuple[tuple[str, int], ...]
    starts: tuple[tuple[TopicPartition, int], ...]

    def of(self, chain: PartitionChain, target: str) -> OffsetMap | None:
        """The map of `chain` into topic `target`. Raises `DamagedObject`, and the errors of the store."""
        return self.layout.get_map(self.store, chain.source, making=dict(self.makings).get(target, 1))


class MapProof:
    """A check of one map, made with the batches of its source as they pass. `keeps_offsets`: every record has the
    offset of its source."""

    def __init__(self, offset_map: OffsetMap | None, *, target_start: int, keeps_offsets: bool) -> None:
        self._map = offset_map
        self._at = target_start
        self._keeps_offsets = keeps_offsets
        self.difference = None if offset_map is not None else _wrong("the offset map is missing", -1, -1)
        """The first place where the map does not match the written records."""

    def check_batches(self, batches: Iterator[VisibleBatch]) -> Iterator[VisibleBatch]:
        """The same batches. After the last batch `difference` is final."""
        for batch in batches:
            self._look_up(batch)
            yield batch
        if self._map is not None and not self._keeps_offsets and self._map.target_end != self._at:
            self._note("the offset map ends at another offset", self._map.source_end, self._at)

    def _look_up(self, batch: VisibleBatch) -> None:
        if self._map is None or self.difference is not None:
            return
        first, last, count = _visible(batch)
        if count:
            target = first if self._keeps_offsets else self._at
            self._at += count
            # Compaction keeps the last offset of a batch when it removes the record: the map finds the next record.
            after = self._map.lookup(last)
            past = (last if self._keeps_offsets else self._at - 1) + (after.match != "exact")
            if (self._map.lookup(first).target, after.target) != (target, past):
                self._note("the offset map points to another offset", first, target)

    def _note(self, detail: str, source_offset: int, target_offset: int) -> None:
        self.difference = self.difference or _wrong(detail, source_offset, target_offset)


def _visible(batch: VisibleBatch) -> tuple[int, int, int]:
    """First and last offset and number of the records that count. Without a record at a base offset the next record is
    used, as by the map."""
    if batch.record_bounds.takes_all(batch.header):
        return batch.header.base_offset, batch.header.last_offset, batch.header.record_count
    records = batch.records()
    return (records[0].offset, records[-1].offset, len(records)) if records else (0, 0, 0)


def _wrong(detail: str, source_offset: int, target_offset: int) -> RecordDifference:
    return RecordDifference(
        kind="map", fields=(), source_offset=source_offset, target_offset=target_offset, records=1, detail=detail
    )
