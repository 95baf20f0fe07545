"""Two sequences of batches compared record by record, in step, without keeping either.

Where both sides were cut into the same batches, as after nearly every restore, whole batches are compared as bytes;
only where they were not (a batch was re-encoded, or another client wrote the copy) are records decoded. Pure: it reads
from two iterators and knows neither end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from blake3 import blake3

from offsite.copy.compare.superseded import Superseded
from offsite.copy.source_view import VisibleBatch
from offsite.log.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_BIT, BatchHeader
from offsite.log.difference import Difference, first_difference, index_of_difference
from offsite.log.records.batch_records import renumber
from offsite.log.records.record import Record
from offsite.log.records.record_body import write_records

LOOK_AHEAD_RECORDS = 20_000
"""Records read on from a difference, to tell a lost record from a changed one: more than a batch holds."""
LOOK_AHEAD_BYTES = 16 << 20
"""Bytes read on from a difference: records may be so large that that many would not fit in a worker."""

_MEANING = CODEC_MASK | LOG_APPEND_TIME_BIT
"""The attributes that say how to read a batch; the others say who wrote it, and how."""
_SHAPE_OF = attrgetter("base_timestamp_ms", "max_timestamp_ms", "record_count")
_SHAPE = struct.Struct(">qqiB")


def _always(_: BatchHeader) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Records that the target may lack: those of a key that comes again (see `Superseded`), in what is shown of it or
    `later`.

    `committed`: whether the records of a batch are (None: not known). `first`: the offset of the target at which the
    first record of the source was written, those after it at the next ones; None: at the source's own offsets.
    `tail_to`: what belongs below that offset of the target may be gone from its end, or from the log's.
    """

    later: Callable[[], Iterable[VisibleBatch]] = tuple
    committed: Callable[[BatchHeader], bool | None] = _always
    first: int | None = None
    tail_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of a comparison: `records` are the same on both sides, up to the end or the first `difference`;
    `decoded_records` of them had to be decoded. `markers` are control records that are the same on both sides; they are
    not among `records`. `compacted_records` are gone from the target; `unknown` says why it is not known whether
    compaction took all of them, if so. `digest` (BLAKE3, hex) is that of all the source showed; `next_target` the
    offset after the last equal record of the target, -1 before the first. `following` is the offset of the first record
    that the target shows after all that was expected; -1: there is none, or nobody looked."""

    records: int
    markers: int
    decoded_records: int
    compacted_records: int
    unknown: str
    digest: str
    next_target: int
    following: int
    difference: Difference | None


class RecordComparator:
    """One comparison. With `offsets` records must have the same offsets as well; `compaction` says what the target may
    lack, if anything. `exact`: the target must end where the source ends; else of what it has after that only the place
    is told.
    """

    def __init__(
        self,
        source: Iterable[VisibleBatch],
        target: Iterable[VisibleBatch],
        *,
        offsets: bool,
        exact: bool,
        compaction: Compaction | None = None,
    ) -> None:
        self._digest = blake3()
        self._compaction = compaction or Compaction()
        self._source = _Side(source, self._digest, committed=self._compaction.committed)
        self._target = _Side(target, committed=self._compaction.committed)
        self._offsets = offsets
        self._exact = exact
        self._may_lack = compaction is not None
        self._superseded = Superseded(placed=offsets)
        self._records = self._markers = self._decoded = self._lacking = 0
        self._next_target = -1

    def run(self) -> Comparison:
        """Compare to the end, or to the first difference. Raises what the two sequences raise."""
        difference = None
        while difference is None and self._source.has_more():
            if not self._target.has_more():
                difference = self._missing_tail()
            elif not self._take_equal_batch():
                difference = self._take_equal_records()
        following = -1
        if difference is None and self._target.has_more():
            difference, following = (self._extra_rest(), -1) if self._exact else (None, self._target.next_offset())
        difference = difference or self._lost()
        return Comparison(
            records=self._records,
            markers=self._markers,
            decoded_records=self._decoded,
            compacted_records=self._lacking,
            unknown="" if difference else self._superseded.unknown(),
            digest=self._digest.hexdigest(),
            next_target=self._next_target,
            following=following,
            difference=difference,
        )

    def _take_equal_batch(self) -> bool:
        """Whether both sides stand before batches of equal bytes: then they are behind them now."""
        source, target = self._source.batch, self._target.batch
        if source is None or target is None or not _alike(source, target, offsets=self._offsets):
            return False
        if self._numbers and target.header.base_offset != self._next_expected:
            return False
        if self._superseded.waits:
            self._show(target.batch.records())
        self._count(source.header.record_count)
        self._next_target = target.header.next_offset
        self._source.pass_batch()
        self._target.pass_batch()
        return True

    def _take_equal_records(self) -> Difference | None:
        count = min(self._source.decode(), self._target.decode())
        if self._numbers and (ahead := self._target.next_offset() - self._next_expected) > 0:
            self._pass_over(self._source.peek(ahead))
            return None
        target = self._target.peek(count)
        count = _without_gap(target) if self._numbers else count
        source, target = self._source.peek(count), target[:count]
        index = index_of_difference(source, target, offsets=self._offsets)
        equal = count if index is None else index
        if equal:
            self._next_target = target[equal - 1].offset + 1
            self._show(target[:equal])
        self._count(equal)
        self._decoded += equal
        self._source.drop(equal)
        self._target.drop(equal)
        if index is None or self._pass_over_compacted(source[index:], target[index].offset):
            return None
        return first_difference(self._source.look_ahead(), self._target.look_ahead(), offsets=self._offsets)

    @property
    def _numbers(self) -> bool:
        """Whether the place of a record in the target follows from how many came before."""
        return self._compaction.first is not None

    @property
    def _next_expected(self) -> int:
        return (self._compaction.first or 0) + self._source.passed

    def _count(self, equal: int) -> None:
        """So many records of the source's current batch are the same."""
        if self._source.is_control:
            self._markers += equal
        else:
            self._records += equal

    def _show(self, target: Sequence[Record]) -> None:
        if not self._target.is_control:
            self._superseded.show(target, committed=self._target.committed())

    def _pass_over(self, source: Sequence[Record]) -> None:
        """The next source records are not in the target. Brokers drop markers whose records are gone."""
        if not self._source.is_control:
            self._superseded.lack(source, committed=self._source.committed())
        self._source.drop(len(source))
        self._lacking += len(source)

    def _pass_over_compacted(self, source: Sequence[Record], target_offset: int) -> bool:
        """Whether the next source records can only be missing because the target is compacted."""
        by_offset = self._may_lack and self._offsets
        lacking = sum(record.offset < target_offset for record in source) if by_offset else 0
        self._pass_over(source[:lacking])
        return lacking > 0

    def _missing_tail(self) -> Difference | None:
        """The target has ended."""
        count = self._source.decode()
        records = self._source.peek(count)
        first = self._next_expected if self._numbers else records[0].offset
        may_lack = self._compaction.tail_to - first if self._numbers else self._below_tail(records)
        if may_lack <= 0:
            return self._missing_rest()
        self._pass_over(records[:may_lack])
        return None

    def _below_tail(self, records: Sequence[Record]) -> int:
        return sum(record.offset < self._compaction.tail_to for record in records)

    def _lost(self) -> Difference | None:
        """What is lacking and does not come again: not in the rest of what is shown of the target, nor later."""
        while self._superseded.waits and self._target.has_more():
            self._show(self._target.peek(self._target.decode()))
            self._target.drop(self._target.decode())
        if self._superseded.waits:
            for batch in self._compaction.later():
                self._superseded.show(batch.records(), committed=True)
                if not self._superseded.waits:
                    break
        lost = self._superseded.lost()
        self._lacking -= lost.records if lost else 0
        return lost

    def _missing_rest(self) -> Difference:
        found = first_difference(self._source.look_ahead(), [], offsets=self._offsets)
        return replace(found, records=found.records + self._source.count_rest())

    def _extra_rest(self) -> Difference:
        found = first_difference([], self._target.look_ahead(), offsets=self._offsets)
        return replace(found, records=found.records + self._target.count_rest())


class _WholeBatch:
    """A batch of which every record counts. `body` is a copy: comparing memoryviews would go byte by byte."""

    __slots__ = ("batch", "body", "header")

    def __init__(self, batch: VisibleBatch) -> None:
        self.batch = batch
        self.header = header = batch.header
        self.body = bytes(batch.data[header.position + HEADER_BYTES : header.position + header.size_bytes])


class _Side:
    """One sequence, at a batch of which nothing was compared yet, or at a record inside a decoded one."""

    def __init__(
        self,
        batches: Iterable[VisibleBatch],
        digest: blake3 | None = None,
        *,
        committed: Callable[[BatchHeader], bool | None] = _always,
    ) -> None:
        self._batches = iter(batches)
        self._committed = committed
        self._header: BatchHeader | None = None
        self.passed = 0
        """Records that were compared, or passed over."""
        self._digest = digest
        self.batch: _WholeBatch | None = None
        self.is_control = False
        """Of the batch that it is at, or in."""
        self._records: list[Record] = []
        self._position = 0

    def has_more(self) -> bool:
        """Whether there is another batch or record. Batches of which nothing counts are passed over."""
        while self.batch is None and self._position == len(self._records):
            following = next(self._batches, None)
            if following is None:
                return False
            self._enter(following)
        return True

    def decode(self) -> int:
        """How many records are decoded and not compared, those of the current batch included."""
        if self.batch is not None:
            self._records, self._position, self.batch = self.batch.batch.records(), 0, None
        return len(self._records) - self._position

    def peek(self, count: int) -> list[Record]:
        return self._records[self._position : self._position + count]

    def next_offset(self) -> int:
        """That of the next record, which there has to be."""
        self.decode()
        return self._records[self._position].offset

    def drop(self, count: int) -> None:
        self._position += count
        self.passed += count

    def pass_batch(self) -> None:
        """Stand behind the batch that it is at."""
        self.passed += self.batch.header.record_count if self.batch else 0
        self.batch = None

    def committed(self) -> bool | None:
        """Whether the records of the batch that it is at, or in, are."""
        return None if self._header is None else self._committed(self._header)

    def look_ahead(self) -> list[Record]:
        """The next records, as far as one looks, taken from the sequence."""
        found: list[Record] = []
        size_bytes = 0
        while len(found) < LOOK_AHEAD_RECORDS and size_bytes < LOOK_AHEAD_BYTES and self.has_more():
            self.decode()
            record = self._records[self._position]
            self._position += 1
            found.append(record)
            size_bytes += len(record.key or b"") + len(record.value or b"")
        return found

    def count_rest(self) -> int:
        """How many records come after those looked at. Takes them all."""
        count = 0
        while self.has_more():
            count += self.batch.header.record_count if self.batch else self.decode()
            self.batch, self._position = None, len(self._records)
        return count

    def _enter(self, batch: VisibleBatch) -> None:
        """Stand before the batch, and take it into the digest: what its records are, not where they were or whose."""
        self._header, self.is_control = batch.header, batch.header.is_control
        if batch.record_bounds.takes_all(batch.header):
            self.batch = _WholeBatch(batch)
        else:
            self._records, self._position = batch.records(), 0
        if self._digest is not None and self.batch is not None:
            self._digest.update(_SHAPE.pack(*_SHAPE_OF(batch.header), batch.header.attributes & _MEANING))
            self._digest.update(self.batch.body)
        elif self._digest is not None:
            self._digest.update(write_records(renumber(self._records), base_offset=0, base_timestamp_ms=0))


def _without_gap(records: Sequence[Record]) -> int:
    """How many of the records, from the first, have offsets without a gap between them."""
    first = records[0].offset
    if records[-1].offset - first == len(records) - 1:
        return len(records)
    return next(index for index, record in enumerate(records) if record.offset != first + index)


def _alike(source: _WholeBatch, target: _WholeBatch, *, offsets: bool) -> bool:
    """Whether the bytes of both batches say that their records are the same: key, value, headers, time and distance
    from the base offset all lie in the body, times as distances from the base timestamp."""
    a, b = source.header, target.header
    return (
        _SHAPE_OF(a) == _SHAPE_OF(b)
        and not (a.attributes ^ b.attributes) & _MEANING
        and not (offsets and a.base_offset != b.base_offset)
        and source.body == target.body
    )
