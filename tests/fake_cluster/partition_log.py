"""One partition's log: batches as a broker stores them, where it starts and ends, who has transactions open in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from offsite.kafka.protocol.broker_errors import (
    INVALID_PRODUCER_EPOCH,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from offsite.log.batch import BatchHeader, scan
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from tests.batches import make_control_batch

_REMEMBERED_BATCHES = 5


class RefusedError(Exception):
    """A request, or its part about one partition, that is answered with the error `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class _Producer:
    epoch: int
    last_sequence: int = -1
    taken: list[tuple[int, int]] = field(default_factory=list)
    """First sequence and offset of its last batches: what is sent again is known by these."""
    first_offset: int = -1
    """Of its open transaction."""


class PartitionLog:
    """A log of magic 2 batches. `epochs` are (leader epoch, first offset), the last one leads now."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.producers: dict[int, _Producer] = {}
        self._batches: list[tuple[BatchHeader, bytes]] = []

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return min((p.first_offset for p in self.producers.values() if p.first_offset >= 0), default=self.end)

    @property
    def size_bytes(self) -> int:
        return sum(len(data) for _, data in self._batches)

    def put(self, batch: bytes) -> int:
        """Store a batch at its own base offset, or at the log's end if that is beyond it; returns where."""
        (header,) = scan(batch)
        base = max(self.end, header.base_offset)
        data = bytearray(batch)
        struct.pack_into(">q", data, 0, base)
        struct.pack_into(">i", data, 12, self.epoch)
        (header,) = scan(data)
        self._batches.append((header, bytes(data)))
        self.end = header.next_offset
        self._note_transaction(header)
        return base

    def produce(self, batch: bytes) -> int:
        """Take what a producer sends; returns its base offset, also of a batch that is there already."""
        (header,) = scan(batch)
        if header.producer_id < 0:
            return self.put(batch)
        known = self.producers.get(header.producer_id)
        if known is not None and known.last_sequence >= 0:
            if (offset := _offset_of(known, header)) is not None:
                return offset
            _check_next(known, header)
        base = self.put(batch)
        known = self._producer(header)
        known.last_sequence = header.base_sequence + header.record_count - 1
        known.taken = [*known.taken, (header.base_sequence, base)][-_REMEMBERED_BATCHES:]
        return base

    def end_transaction(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        marker = make_control_batch(self.end, producer_id=producer_id, producer_epoch=epoch, committed=committed)
        self.put(marker)
        if known := self.producers.get(producer_id):
            known.first_offset = -1

    def take_marker(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        """One that somebody else than this cluster's coordinator wrote."""
        known = self.producers.setdefault(producer_id, _Producer(epoch=epoch))
        if epoch < known.epoch:
            raise RefusedError(INVALID_PRODUCER_EPOCH)
        if epoch > known.epoch:
            known.epoch, known.last_sequence, known.taken = epoch, -1, []
        self.end_transaction(producer_id, epoch, committed=committed)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds `offset` on: one at least, then as many as fit."""
        if not self.start <= offset <= self.end:
            raise RefusedError(OFFSET_OUT_OF_RANGE)
        found = bytearray()
        for data in (data for header, data in self._batches if header.next_offset > offset):
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return bytes(found)

    def records(self) -> list[Record]:
        data = [(header, batch) for header, batch in self._batches if not header.is_control]
        return [each for header, batch in data for each in decode(batch, header) if each.offset >= self.start]

    def first_at(self, time_ms: int) -> tuple[int, int]:
        """Offset and time of the first record at that time or later; -1 and -1 where there is none."""
        for header, data in self._batches:
            if header.max_timestamp_ms >= time_ms and not header.is_control:
                for record in decode(data, header):
                    if record.timestamp_ms >= time_ms and record.offset >= self.start:
                        return record.offset, record.timestamp_ms
        return -1, -1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """As Kafka's LeaderEpochFileCache says it: the last known epoch up to `epoch`, and where the next one begins;
        the end for the last one. -1 and -1 for what comes after all; for what comes before all, where the first
        begins."""
        if epoch == self.epoch:
            return epoch, self.end
        later = [known for known in self.epochs if known[0] > epoch]
        if not later:
            return -1, -1
        return max((known for known, _ in self.epochs if known <= epoch), default=epoch), later[0][1]

    def delete_before(self, offset: int) -> None:
        """Epochs whose records are gone are forgotten; the one that holds the log's start begins there now."""
        self.start = max(self.start, offset)
        gone = [known for known in self.epochs if known[1] <= self.start]
        if gone:
            self.epochs = [(gone[-1][0], self.start), *self.epochs[len(gone) :]]
        self._batches = [each for each in self._batches if each[0].next_offset > self.start]

    def elect(self, *, cut_to: int | None = None) -> None:
        """A new leader, in a new epoch; with `cut_to` one that has lost what was there from that offset on. An epoch
        without records is forgotten when the next one begins, as in Kafka."""
        epoch = self.epoch + 1
        if cut_to is not None:
            self._batches = [each for each in self._batches if each[0].next_offset <= cut_to]
            self.end, self.start = cut_to, min(self.start, cut_to)
        self.epochs = [*(known for known in self.epochs if known[1] < self.end), (epoch, self.end)]

    def damage(self, offset: int) -> None:
        """Flip a bit in the last byte of the batch that holds `offset`."""
        for number, (header, data) in enumerate(self._batches):
            if header.base_offset <= offset < header.next_offset:
                self._batches[number] = (header, data[:-1] + bytes([data[-1] ^ 1]))

    def _producer(self, header: BatchHeader) -> _Producer:
        known = self.producers.setdefault(header.producer_id, _Producer(epoch=header.producer_epoch))
        if header.producer_epoch > known.epoch:
            known.epoch, known.last_sequence, known.taken = header.producer_epoch, -1, []
        return known

    def _note_transaction(self, header: BatchHeader) -> None:
        if header.is_transactional and not header.is_control:
            known = self._producer(header)
            known.first_offset = header.base_offset if known.first_offset < 0 else known.first_offset


def _offset_of(known: _Producer, header: BatchHeader) -> int | None:
    if header.producer_epoch != known.epoch:
        return None
    return dict(known.taken).get(header.base_sequence)


def _check_next(known: _Producer, header: BatchHeader) -> None:
    if header.producer_epoch < known.epoch:
        raise RefusedError(INVALID_PRODUCER_EPOCH)
    expected = known.last_sequence + 1 if header.producer_epoch == known.epoch else 0
    if header.base_sequence != expected:
        raise RefusedError(OUT_OF_ORDER_SEQUENCE_NUMBER)
