"""Writes a part anew with the records to keep, as Kafka's log cleaner writes a segment.

Batches with only kept records are copied unchanged, batches with some are filtered, all others are left out. A marker
may be removed if its transaction began and ended in the part, and none of its records stays. The first marker of every
producer stays, because its data may stand in front of the part. The last batch always stays, maybe empty: it records
the end of the log, and a segment holds at least one batch.

The new segments are read back before any commit may list them: all kept records must be present and sound.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from offsite.backup.copy import paced_destination
from offsite.engine import meter
from offsite.engine.runner import ShuffledTask
from offsite.log.batch import BatchHeader, scan
from offsite.log.buffer import Buffer
from offsite.log.markers import parse_control_marker
from offsite.log.range import Chunk
from offsite.log.records.batch_records import iterate
from offsite.log.rewrite import empty_batch, keep_offsets
from offsite.model.errors import DamagedObject
from offsite.model.options import CompressionChoice
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES, SegmentWriter
from offsite.stores.store import Store
from offsite.upkeep.compaction.latest import UnreadableRegion, holds_all, stretch_views, stretches_of
from offsite.upkeep.compaction.regions import CompactionPart
from offsite.upkeep.verification.segments import verify_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPart:
    """A part after compaction: durable segments, void unless a commit lists them. `latest`: number of records that are
    the last of their key or have no key. `undecided`: number of undecided records."""

    segments: tuple[Segment, ...]
    latest: int
    undecided: int


def rewrite_part(
    fed: ShuffledTask[CompactionPart, array[int] | UnreadableRegion], *, store: Store, layout: BackupLayout
) -> RewrittenPart:
    """Write the part with the records at the received offsets. Raises the errors of reading the region, `DamagedObject`
    when the written records differ from the kept ones, and the errors of the store."""
    part = fed.task
    meter.count(moved_bytes=part.raw_bytes, records=0)  # find_latest has read the part once already
    kept_batches = _KeptBatches(part, _offsets(fed.received), store)
    into, _ = paced_destination(store)
    writer = SegmentWriter(
        store=into,
        layout=layout,
        log_range=part.log_range,
        topic_id=part.partition.topic_id,
        compression=CompressionChoice(part.segments[0].compression.value),
        target_bytes=2 * TARGET_SEGMENT_BYTES,
    )
    with writer:
        for data in kept_batches.data():
            writer.append(Chunk(data=memoryview(data), batches=scan(data)))
        rewritten = RewrittenPart(
            segments=writer.close(), latest=len(kept_batches.offsets), undecided=kept_batches.undecided
        )
    _check_rewritten(rewritten, kept_batches.written, store)
    return rewritten


def _offsets(sent: Iterable[array[int] | UnreadableRegion]) -> array[int]:
    arrived = list(sent)
    for message in arrived:
        if isinstance(message, UnreadableRegion):
            raise message.error
    return array(
        "q", sorted(chain.from_iterable(message for message in arrived if not isinstance(message, UnreadableRegion)))
    )


def _check_rewritten(part: RewrittenPart, written: int, store: Store) -> None:
    if written != part.latest:
        raise DamagedObject(
            f"{written} records of {part.segments[0].topic}/{part.segments[0].partition} were written, but "
            f"{part.latest} are the last of their keys",
            hint="run: offsite verify --deep",
        )
    read = sum(segment.records for segment in part.segments)
    problems = [
        finding.problem for segment in part.segments if (finding := verify_segment(segment, store=store)).problem
    ]
    if problems or read != part.latest + part.undecided:
        raise DamagedObject(
            f"{part.segments[0].key} was written, but has {read} records instead of {part.latest + part.undecided} "
            f"when read back: {'; '.join(problems) or 'miscounted'}",
            hint="check the store: it does not return the bytes that were written",
        )


class _KeptBatches:
    """The batches of a part after removal of records. `offsets`: of the records to keep, rising. After `data` has
    ended: `written`, the number of kept records met, and `undecided`, the number of further records that stay."""

    def __init__(self, part: CompactionPart, offsets: array[int], store: Store) -> None:
        self.offsets = offsets
        self.written = 0
        self.undecided = 0
        self._part, self._store = part, store
        self._views = stretch_views(part, store)
        self._markers = _Markers()
        self._last_base = -1

    def data(self) -> Iterator[bytearray]:
        """Batches back to back, some at a time."""
        last: tuple[bytes, BatchHeader] | None = None
        for segment in self._part.segments:
            for chunk in meter.count_items(SegmentReader(store=self._store, segment=segment).chunks()):
                buffer = bytearray()
                for header in chunk.batches:
                    buffer += self._kept(header.view(chunk.data), header)
                if buffer:
                    yield buffer
                header = chunk.batches[-1]
                last = bytes(header.view(chunk.data)) if header.is_control else b"", header
        if last is not None and self._last_base != last[1].base_offset:
            batch, header = last
            yield bytearray(batch) if header.is_control else empty_batch(header)

    def _kept(self, batch: memoryview, header: BatchHeader) -> Buffer:
        """The bytes of a batch to keep, or nothing."""
        if header.is_control:
            retained: Buffer = batch if self._markers.keeps(batch, header) else b""
        else:
            retained = self._kept_data(batch, header)
            if retained and header.is_transactional:
                self._markers.note_data(header)
        if retained:
            self._last_base = header.base_offset
        return retained

    def _kept_data(self, batch: memoryview, header: BatchHeader) -> Buffer:
        low = self.written
        high = self.written = bisect_left(self.offsets, header.next_offset, low)
        if any(self._views[place].is_undecided(header) for place in stretches_of(self._part, header)):
            return self._with_undecided(batch, header, self.offsets[low:high])
        if high - low == header.record_count:
            return batch if header.record_count else b""
        return keep_offsets(batch, header, self.offsets[low:high]) if low < high else b""

    def _with_undecided(self, batch: memoryview, header: BatchHeader, latest: array[int]) -> Buffer:
        """The records undecided at the end of their stretch, and the kept records of another stretch."""
        offsets = set(latest)
        places = stretches_of(self._part, header)
        spans = [
            (stretch.start, stretch.end)
            for stretch, view in ((self._part.stretches[place], self._views[place]) for place in places)
            if view.is_undecided(header)
        ]
        if not latest and len(places) == 1 and holds_all(self._part.stretches[places[0]], header):
            self.undecided += header.record_count
            return batch
        records = [record.offset for record in iterate(batch, header)]
        undecided = {offset for offset in records if any(low <= offset < high for low, high in spans)}
        self.undecided += len(undecided - offsets)
        retained = sorted(offsets | undecided)
        return keep_offsets(batch, header, retained) if retained else b""


class _Markers:
    """Decides which markers stay of the control batches of a part. Ask in order."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._with_data: set[int] = set()

    def note_data(self, header: BatchHeader) -> None:
        """Record that data of a transaction stays."""
        self._with_data.add(header.producer_id)

    def keeps(self, batch: Buffer, header: BatchHeader) -> bool:
        """Whether the control batch stays. A batch of unknown content stays."""
        if parse_control_marker(batch, header) is None:
            return True
        producer_id = header.producer_id
        superfluous = producer_id in self._ended and producer_id not in self._with_data
        self._ended.add(producer_id)
        self._with_data.discard(producer_id)
        return not superfluous
