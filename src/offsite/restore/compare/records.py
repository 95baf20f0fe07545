"""Compares two sequences of batches record by record, in step, without keeping either. Pure: reads from two iterators
and knows neither end.

Both sides were cut into the same batches after nearly every restore: whole batches are compared as bytes. Only
otherwise (a batch was re-encoded, or another client wrote the copy) records are decoded.

A compacted log may lack records. The log cleaner keeps the last record of every key: the last lacking record of a key
needs a later record of the key in the log. Exceptions: a tombstone (tombstones expire), a record without a key (the
cleaner drops such records), and a record of an aborted transaction. Memory grows with the lacking keys that did not
come again so far: 64-bit hashes, at most `HELD_KEYS_MAX`; beyond the limit the question stays open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from blake3 import blake3

from offsite.log.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_BIT, BatchHeader
from offsite.log.difference import RecordDifference, first_difference, index_of_difference
from offsite.log.records.batch_records import renumber
from offsite.log.records.record import Record
from offsite.log.records.record_body import write_records
from offsite.model.names import amount
from offsite.points.source_view import VisibleBatch

HELD_KEYS_MAX = 500_000
"""Keys held at once: about 60 MB in a worker."""
LOOK_AHEAD_RECORDS = 20_000
"""Records read on from a difference, to tell a lost record from a changed one: more than a batch holds."""
LOOK_AHEAD_BYTES = 16 << 20
"""Bytes read on from a difference: with large records, `LOOK_AHEAD_RECORDS` would not fit in a worker."""
_MEANING = CODEC_MASK | LOG_APPEND_TIME_BIT
"""The attributes for reading a batch; all others describe the writer."""
_SHAPE_OF = attrgetter("base_timestamp_ms", "max_timestamp_ms", "record_count")
_SHAPE = struct.Struct(">qqiB")


class SupersededKeys:
    """Judges the records that a compacted log lacks, given all records in the order of the log. `placed`: the records
    of both sides have the offsets of one log."""

    def __init__(self, *, placed: bool, held_max: int = HELD_KEYS_MAX) -> None:
        self._placed = placed
        self._held_max = held_max
        self._held: dict[int, int] = {}
        """By key, the offset in the backup of the last lacking record; `~offset` when the record may be lacking
        rightly."""
        self._too_many = False

    @property
    def waits(self) -> bool:
        """Whether a later record could still explain a lacking record."""
        return bool(self._held)

    def lack(self, records: Iterable[Record], *, committed: bool | None) -> None:
        """Take records of the backup that the log does not have. `committed`: whether their transaction was committed;
        None: unknown."""
        for record in records:
            if record.key is not None and committed is not False and not self._too_many:
                self._hold(hash(record.key), record, certain=committed is True)

    def show(self, records: Sequence[Record], *, committed: bool | None) -> None:
        """Take records of the log."""
        if not self._held or committed is False:
            return
        for record in records:
            key = hash(record.key)
            offset = self._held.get(key)
            if record.key is None or offset is None or (self._placed and record.offset <= max(offset, ~offset)):
                continue
            if committed:
                del self._held[key]
            else:
                self._held[key] = min(offset, ~offset)

    def lost(self) -> RecordDifference | None:
        """The records that compaction cannot have removed. Call after all records of the log."""
        lost = [offset for offset in self._held.values() if offset >= 0]
        if not lost:
            return None
        return RecordDifference(
            kind="missing",
            fields=(),
            source_offset=min(lost),
            target_offset=-1,
            records=len(lost),
            detail=f"{amount(len(lost), 'record')} of the backup, the first at offset "
            f"{min(lost)}, missing in the cluster, and no later record of the same key either: compaction would "
            "keep the last record of each key",
        )

    def unknown(self) -> str:
        """Why it is uncertain whether compaction removed all lacking records; empty when certain."""
        if self._too_many:
            return (
                f"it lacks records of more than {self._held_max:,} keys that compaction may have removed: too many to "
                "check for a later record of each key"
            )
        if any(offset < 0 for offset in self._held.values()):
            return "it lacks records of transactions with an unknown end, and later records of their keys"
        return ""

    def _hold(self, key: int, record: Record, *, certain: bool) -> None:
        held_offset = self._held.get(key)
        if certain and record.value is None:
            self._held.pop(key, None)
        elif certain:
            self._held[key] = record.offset
        elif record.value is not None:
            self._held.setdefault(key, ~record.offset)
        elif held_offset is not None:
            self._held[key] = min(held_offset, ~held_offset)
        if len(self._held) > self._held_max:
            self._held.clear()
            self._too_many = True


def _always(_: BatchHeader) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Records that the target may lack: records whose key comes again (see `SupersededKeys`) in the compared part of
    the target or in `later`.

    `committed`: whether the records of a batch are committed (None: unknown). `first`: the target offset of the
    source's first record, with consecutive offsets for later records; None: the source's own offsets. `tail_to`:
    records below this offset of the target may be missing at the end of the compared part, or of the log.
    """

    later: Callable[[], Iterable[VisibleBatch]] = tuple
    committed: Callable[[BatchHeader], bool | None] = _always
    first: int | None = None
    tail_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """Result of comparing one partition.

    - `records`: equal on both sides, up to the end or the first `difference`; `decoded_records` of them had to be
      decoded.
    - `markers`: equal control records, not counted in `records`.
    - `compacted_records`: missing in the target; `unknown`: why it is uncertain whether compaction removed all of them,
      if so.
    - `digest` (BLAKE3, hex): over all records of the source.
    - `next_target`: the offset after the last equal record of the target, -1 before the first.
    - `following`: the offset of the first target record after all expected records; -1: none, or not looked for.
    - `expired_offsets`: offsets deleted by the target during the read.
    """

    records: int = 0
    markers: int = 0
    decoded_records: int = 0
    compacted_records: int = 0
    unknown: str = ""
    digest: str = ""
    next_target: int = -1
    following: int = -1
    expired_offsets: int = 0
    difference: RecordDifference | None = None


class RecordComparator:
    """One comparison. With `offsets`, records must have equal offsets as well. `compaction`: the records that the
    target may lack, if any. `exact`: the target must end where the source ends; otherwise only the offset of further
    records is reported."""

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
        self._superseded = SupersededKeys(placed=offsets)
        self._records = self._markers = self._decoded = self._lacking = 0
        self._next_target = -1

    def run(self) -> PartitionProof:
        """Compare to the end, or to the first difference. Raises the errors of the two sequences."""
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
        return PartitionProof(
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
        """Whether both sides stand before batches of equal bytes. Moves both sides behind equal batches."""
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

    def _take_equal_records(self) -> RecordDifference | None:
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
        """Whether the target offset of a record follows from the number of earlier records."""
        return self._compaction.first is not None

    @property
    def _next_expected(self) -> int:
        return (self._compaction.first or 0) + self._source.passed

    def _count(self, equal: int) -> None:
        """Count `equal` records of the source's current batch as equal."""
        if self._source.is_control:
            self._markers += equal
        else:
            self._records += equal

    def _show(self, target: Sequence[Record]) -> None:
        if not self._target.is_control:
            self._superseded.show(target, committed=self._target.committed())

    def _pass_over(self, source: Sequence[Record]) -> None:
        """The next source records are not in the target. Brokers remove markers without records."""
        if not self._source.is_control:
            self._superseded.lack(source, committed=self._source.committed())
        self._source.drop(len(source))
        self._lacking += len(source)

    def _pass_over_compacted(self, source: Sequence[Record], target_offset: int) -> bool:
        """Whether the next source records can be missing only because the target is compacted."""
        by_offset = self._may_lack and self._offsets
        lacking = sum(record.offset < target_offset for record in source) if by_offset else 0
        self._pass_over(source[:lacking])
        return lacking > 0

    def _missing_tail(self) -> RecordDifference | None:
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

    def _lost(self) -> RecordDifference | None:
        """The missing records that do not come again, neither in the rest of the compared part of the target nor
        later."""
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

    def _missing_rest(self) -> RecordDifference:
        difference = first_difference(self._source.look_ahead(), [], offsets=self._offsets)
        return replace(difference, records=difference.records + self._source.count_rest())

    def _extra_rest(self) -> RecordDifference:
        difference = first_difference([], self._target.look_ahead(), offsets=self._offsets)
        return replace(difference, records=difference.records + self._target.count_rest())


class _WholeBatch:
    """A batch with all records counted. `body` is a copy: a comparison of memoryviews would go byte by byte."""

    __slots__ = ("batch", "body", "header")

    def __init__(self, batch: VisibleBatch) -> None:
        self.batch = batch
        self.header = header = batch.header
        self.body = bytes(batch.data[header.position + HEADER_BYTES : header.position + header.size_bytes])


class _Side:
    """One sequence, before a batch not compared yet, or at a record inside a decoded batch."""

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
        """Records compared or passed over."""
        self._digest = digest
        self.batch: _WholeBatch | None = None
        self.is_control = False
        """Whether the current batch is a control batch."""
        self._records: list[Record] = []
        self._position = 0

    def has_more(self) -> bool:
        """Whether another batch or record follows. Skips batches without counted records."""
        while self.batch is None and self._position == len(self._records):
            following = next(self._batches, None)
            if following is None:
                return False
            self._enter(following)
        return True

    def decode(self) -> int:
        """The number of decoded records not compared yet, including the current batch."""
        if self.batch is not None:
            self._records, self._position, self.batch = self.batch.batch.records(), 0, None
        return len(self._records) - self._position

    def peek(self, count: int) -> list[Record]:
        return self._records[self._position : self._position + count]

    def next_offset(self) -> int:
        """The offset of the next record. A next record must exist."""
        self.decode()
        return self._records[self._position].offset

    def drop(self, count: int) -> None:
        self._position += count
        self.passed += count

    def pass_batch(self) -> None:
        """Move behind the current batch."""
        self.passed += self.batch.header.record_count if self.batch else 0
        self.batch = None

    def committed(self) -> bool | None:
        """Whether the records of the current batch are committed."""
        return None if self._header is None else self._committed(self._header)

    def look_ahead(self) -> list[Record]:
        """The next records, up to the look-ahead limits. Removes them from the sequence."""
        records: list[Record] = []
        size_bytes = 0
        while len(records) < LOOK_AHEAD_RECORDS and size_bytes < LOOK_AHEAD_BYTES and self.has_more():
            self.decode()
            record = self._records[self._position]
            self._position += 1
            records.append(record)
            size_bytes += len(record.key or b"") + len(record.value or b"")
        return records

    def count_rest(self) -> int:
        """The number of records after the look-ahead. Reads the sequence to the end."""
        count = 0
        while self.has_more():
            count += self.batch.header.record_count if self.batch else self.decode()
            self.batch, self._position = None, len(self._records)
        return count

    def _enter(self, batch: VisibleBatch) -> None:
        """Move before the batch, and add its records to the digest: content, not offset or producer."""
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
    """The number of records, from the first, with consecutive offsets."""
    first = records[0].offset
    if records[-1].offset - first == len(records) - 1:
        return len(records)
    return next(index for index, record in enumerate(records) if record.offset != first + index)


def _alike(source: _WholeBatch, target: _WholeBatch, *, offsets: bool) -> bool:
    """Whether the bytes of both batches hold equal records: key, value, headers, time and distance from the base offset
    all lie in the body, times as distances from the base timestamp."""
    a, b = source.header, target.header
    return (
        _SHAPE_OF(a) == _SHAPE_OF(b)
        and not (a.attributes ^ b.attributes) & _MEANING
        and not (offsets and a.base_offset != b.base_offset)
        and source.body == target.body
    )
