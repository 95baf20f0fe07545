"""Two sequences of batches compared record by record, in step, without keeping either.

Where both sides were cut into the same batches, as after nearly every restore, whole batches are compared as bytes;
only where they were not (a batch was re-encoded, or another client wrote the copy) are records decoded. Pure: it reads
from two iterators and knows neither end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from blake3 import blake3

from offsite.log.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_BIT
from offsite.log.difference import Difference, first_difference, index_of_difference
from offsite.log.record import Record
from offsite.log.record_body import write_records
from offsite.log.records import renumber
from offsite.pipeline.source_view import VisibleBatch

LOOK_AHEAD_RECORDS = 20_000
"""How far is read on from a difference, to tell a lost record from a changed one: more than a batch holds."""
LOOK_AHEAD_BYTES = 16 << 20
"""Where records are so large that this many of them would not fit in a worker."""

_MEANING = CODEC_MASK | LOG_APPEND_TIME_BIT
"""The attributes that say how to read a batch; the others say who wrote it, and how."""
_SHAPE_OF = attrgetter("base_timestamp_ms", "max_timestamp_ms", "record_count")
_SHAPE = struct.Struct(">qqiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`records` are the same on both sides, up to the end or the first `difference`; `decoded_records` of them had to
    be decoded. `markers` are control records that are the same on both sides; they are not among `records`.
    `compacted_records` are gone from the target, which may be. `digest` (BLAKE3, hex) is that of all the source showed;
    `next_target` the offset after the last equal record of the target, -1 before the first. `following` is the offset
    of the first record that the target shows after all that was expected; -1: there is none, or nobody looked."""

    records: int
    markers: int
    decoded_records: int
    compacted_records: int
    digest: str
    next_target: int
    following: int
    difference: Difference | None


class Lockstep:
    """One comparison. With `offsets` records must have the same offsets as well; `compacted`: the target may then lack
    some, but those at the end only if it `goes_on` behind what is shown of it. `exact`: the target must end where the
    source ends; else of what it has after that only the place is told.
    """

    def __init__(  # noqa: PLR0913  # two sequences, and what counts as the same
        self,
        source: Iterable[VisibleBatch],
        target: Iterable[VisibleBatch],
        *,
        offsets: bool,
        exact: bool,
        compacted: bool = False,
        goes_on: bool = False,
    ) -> None:
        self._digest = blake3()
        self._source = _Side(source, self._digest)
        self._target = _Side(target)
        self._offsets = offsets
        self._exact = exact
        self._compacted = compacted and offsets
        self._tail_may_lack = self._compacted and goes_on
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
        return Comparison(
            records=self._records,
            markers=self._markers,
            decoded_records=self._decoded,
            compacted_records=self._lacking,
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
        self._count(source.header.record_count)
        self._next_target = target.header.next_offset
        self._source.batch = self._target.batch = None
        return True

    def _take_equal_records(self) -> Difference | None:
        count = min(self._source.decode(), self._target.decode())
        source, target = self._source.peek(count), self._target.peek(count)
        index = index_of_difference(source, target, offsets=self._offsets)
        equal = count if index is None else index
        if equal:
            self._next_target = target[equal - 1].offset + 1
        self._count(equal)
        self._decoded += equal
        self._source.drop(equal)
        self._target.drop(equal)
        if index is None or self._pass_over_compacted(source[index:], target[index].offset):
            return None
        return first_difference(self._source.look_ahead(), self._target.look_ahead(), offsets=self._offsets)

    def _count(self, equal: int) -> None:
        """So many records of the source's current batch are the same."""
        if self._source.is_control:
            self._markers += equal
        else:
            self._records += equal

    def _pass_over_compacted(self, source: Sequence[Record], target_offset: int) -> bool:
        """Whether the next source records can only be missing because the target is compacted."""
        lacking = sum(record.offset < target_offset for record in source) if self._compacted else 0
        self._source.drop(lacking)
        self._lacking += lacking
        return lacking > 0

    def _missing_tail(self) -> Difference | None:
        """The target has ended."""
        if not self._tail_may_lack:
            return self._missing_rest()
        self._lacking += self._source.count_rest()
        return None

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

    def __init__(self, batches: Iterable[VisibleBatch], digest: blake3 | None = None) -> None:
        self._batches = iter(batches)
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
        self.is_control = batch.header.is_control
        if batch.cutoff.takes_all(batch.header):
            self.batch = _WholeBatch(batch)
        else:
            self._records, self._position = batch.records(), 0
        if self._digest is not None and self.batch is not None:
            self._digest.update(_SHAPE.pack(*_SHAPE_OF(batch.header), batch.header.attributes & _MEANING))
            self._digest.update(self.batch.body)
        elif self._digest is not None:
            self._digest.update(write_records(renumber(self._records), base_offset=0, base_timestamp_ms=0))


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
