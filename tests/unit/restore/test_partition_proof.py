"""One partition against its backup: whatever the reader could not give is a difference or a named expiry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.log.range import Chunk, Hole, LogRange
from offsite.log.records.batch_records import decode, encode
from offsite.points.point_in_time import PartitionChain
from offsite.restore.compare.partition import ProofEnds, ProofTask, prove_by_reading
from offsite.restore.compare.records import PartitionProof
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.backups import PARTITIONS, new_backup, write_segment
from tests.batches import chunk_of, make_log

SOURCE = PARTITIONS[0]
END = 100


def part(start: int, end: int) -> LogRange:
    return LogRange(topic="orders", partition=0, start=start, end=end)


def hole(start: int, end: int, reason: str = "retention") -> Hole:
    return Hole(topic="orders", partition=0, start=start, end=end, reason=reason)


class Log:
    """A live log that tells, once, that some of its beginning went while it was read."""

    def __init__(self, start: int, end: int, *, went: Sequence[Hole] = ()) -> None:
        self.start, self.end, self._went = start, end, list(went)

    def read(self, log_range: LogRange) -> Iterator[Chunk | Hole]:
        start = max(log_range.start, self.start)
        if self._went:
            lost = self._went.pop(0)
            if start < lost.start:
                yield chunk_of(make_log(start, lost.start))
            yield lost
            start = lost.end
        if start < min(log_range.end, self.end):
            yield chunk_of(make_log(start, min(log_range.end, self.end)))


class Stored:
    """A backup of offsets `[0, END)`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.segment = write_segment(store, new_backup(store), SOURCE, 0, END)

    def prove(self, log: Log, *, exact: bool = False, **changes: object) -> PartitionProof:
        chain = PartitionChain(source=SOURCE, segments=(self.segment,), end=END)
        task = ProofTask(
            partition=chain, target=part(0, END), read_committed=False, offsets=True, compacted=False, bounded=True
        )
        ends = ProofEnds(kafka=KafkaConfig(bootstrap=parse_bootstrap("nowhere:1")), store=self.store, exact=exact)
        return prove_by_reading(replace(task, **changes), log.read, ends=ends)  # type: ignore[arg-type]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(open_store(str(tmp_path)))


class CompactedLog(Log):
    """One that lacks offsets 20 to 39, and whose records from offset 100 on have the keys of those from 0 on again."""

    def read(self, log_range: LogRange) -> Iterator[Chunk | Hole]:
        for start, end in ((0, 20), (40, END)):
            if log_range.start < end:
                yield chunk_of(make_log(max(start, log_range.start), end))
        if log_range.end > END:
            yield from self._went
            yield from self._again(log_range.end)

    def _again(self, end: int) -> Iterator[Chunk]:
        for item in Log(0, END).read(part(0, end - END)):
            assert isinstance(item, Chunk)
            for header in item.batches:
                found = decode(header.view(item.data), header)
                moved = [each._replace(offset=each.offset + END) for each in found]
                yield chunk_of(bytes(encode(moved)))


def test_a_compacted_log_may_lack_only_records_whose_key_comes_again_before_its_end(stored: Stored) -> None:
    log = CompactedLog(0, END + 40)
    proof = stored.prove(log, compacted=True, goes_on=True, log_end=END + 40)
    assert (proof.difference, proof.unknown, proof.records, proof.compacted_records) == (None, "", 80, 20)
    proof = stored.prove(log, compacted=True, goes_on=True, log_end=END + 30)
    assert proof.difference is not None
    assert (proof.difference.source_offset, proof.difference.records, proof.compacted_records) == (30, 10, 10)
    proof = stored.prove(log, compacted=True, offsets=False, bounded=False, target=part(0, END + 40), log_end=END + 40)
    assert (proof.difference, proof.records, proof.compacted_records, proof.following) == (None, 80, 20, END)


def test_where_the_cluster_deletes_what_could_excuse_a_record_the_verdict_is_open(stored: Stored) -> None:
    log = CompactedLog(0, END + 30, went=[hole(END, END + 10)])
    proof = stored.prove(log, compacted=True, goes_on=True, log_end=END + 30)
    assert proof.difference is None
    assert "offsets 100 to 109 were deleted (retention) during the comparison" in proof.unknown


def test_what_expires_while_it_is_read_is_counted_and_the_rest_compared(stored: Stored) -> None:
    proof = stored.prove(Log(0, END, went=[hole(0, 20), hole(20, 50)]))
    assert (proof.difference, proof.expired_offsets, proof.records) == (None, 50, 50)


def test_expiry_is_a_difference_when_all_has_to_be_there(stored: Stored) -> None:
    found = stored.prove(Log(0, END, went=[hole(0, 20)]), exact=True).difference
    assert found is not None
    assert (found.kind, found.source_offset, found.records) == ("missing", 0, 20)
    assert "offsets 0 to 19 were deleted (retention)" in found.detail


def test_a_log_that_was_cut_while_it_was_read_is_a_difference(stored: Stored) -> None:
    found = stored.prove(Log(0, END, went=[hole(60, END, "truncation")])).difference
    assert found is not None
    assert (found.kind, found.source_offset, found.records) == ("missing", 60, 40)
    assert "truncation" in found.detail


def test_a_hole_is_a_difference_even_where_the_backup_holds_nothing(stored: Stored) -> None:
    empty = PartitionChain(source=SOURCE, segments=(), end=END)
    found = stored.prove(Log(0, END, went=[hole(0, END, "truncation")]), partition=empty).difference
    assert found is not None
    assert (found.kind, found.source_offset) == ("missing", 0)


def test_all_of_a_bounded_range_must_be_in_the_backup_but_for_its_holes(stored: Stored) -> None:
    longer = replace(part(0, END), end=END + 30)
    found = stored.prove(Log(0, END + 30), target=longer).difference
    assert found is not None
    assert (found.kind, found.target_offset, found.records) == ("extra", END, 30)
    explained = stored.prove(Log(0, END + 30), target=longer, holes=(part(END, END + 30),))
    assert (explained.difference, explained.records) == (None, END)
    later = stored.prove(Log(0, END + 30), target=longer, bounded=False)
    assert (later.difference, later.following) == (None, END)
