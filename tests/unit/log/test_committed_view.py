"""What a read_committed consumer sees, of ranges that cut transactions, and with markers from either source."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import CONTROL_BIT, BatchHeader, scan
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.markers import Marker, Markers, with_hole_starts
from offsite.log.range import Chunk, Gap, GapEvidence, Hole, LogRange
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.log.transactions import TransactionIndexer, UndecidedTransaction, log_markers
from offsite.model.errors import DamagedObject
from tests.batches import chunk_of

Kind = Literal["data", "commit", "abort", "plain"]


class Step(NamedTuple):
    """A batch of one record: its offset is its place in the log."""

    kind: Kind
    producer_id: int = 1
    epoch: int = 0


DATA, COMMIT, ABORT, PLAIN = Step("data"), Step("commit"), Step("abort"), Step("plain", -1)


def of_producer(step: Step, producer_id: int) -> Step:
    return step._replace(producer_id=producer_id)


def batch_of(offset: int, step: Step) -> bytes:
    key = struct.pack(">hh", 0, 1 if step.kind == "commit" else 0)
    batch = encode(
        [Record(offset, 0, 0, key, struct.pack(">hi", 0, 3))],
        producer_id=step.producer_id,
        producer_epoch=step.epoch,
        is_transactional=step.kind != "plain",
    )
    if step.kind in ("commit", "abort"):
        batch[22] |= CONTROL_BIT
    return bytes(batch)


def header_of(offset: int, step: Step) -> BatchHeader:
    return scan(batch_of(offset, step))[0]


def part(start: int, end: int) -> LogRange:
    return LogRange(topic="orders", partition=0, start=start, end=end)


class LiveLog:
    """A cluster's partition: a chunk for each batch, and for each read what was read of it, as `[start, end)`."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.reads: list[tuple[int, int]] = []

    def read(self, log_range: LogRange) -> Iterator[Chunk]:
        number = len(self.reads)
        self.reads.append((log_range.start, log_range.start))
        for offset in range(log_range.start, min(log_range.end, len(self._steps))):
            self.reads[number] = (log_range.start, offset + 1)
            yield chunk_of(batch_of(offset, self._steps[offset]))


def live_view(steps: Sequence[Step], start: int, end: int) -> CommittedView:
    """Of `[start, end)`, with the range's own markers only."""
    return CommittedView(log_markers(LiveLog(steps).read, part(start, end)), end_offset=end)


def visible(view: CommittedView, steps: Sequence[Step], start: int, end: int) -> list[int]:
    return [offset for offset in range(start, end) if view.is_visible(header_of(offset, steps[offset]))]


def marker_parts(steps: Sequence[Step], *, size: int) -> list[Markers]:
    """The log's markers, as `size` batches after the other have them."""
    indexer, parts = TransactionIndexer(), []
    for start in range(0, len(steps), size):
        for offset, step in enumerate(steps[start : start + size], start):
            indexer.feed(*_chunk(batch_of(offset, step)))
        parts.append(indexer.drain())
    return parts


def _chunk(batch: bytes) -> tuple[memoryview, Sequence[BatchHeader]]:
    chunk = chunk_of(batch)
    return chunk.data, chunk.batches


def test_no_isolation_level_sees_control_batches() -> None:
    view = CommittedView([[Marker(5, 1, 0, True, 0)]], end_offset=10)
    markers = [header_of(2, COMMIT), header_of(2, ABORT)]
    markers += [header._replace(attributes=CONTROL_BIT) for header in markers]  # of a kind without a transaction
    assert not any(
        view.is_visible(header) or view.is_undecided(header) or sees_uncommitted(header) for header in markers
    )
    assert all(sees_uncommitted(header_of(2, step)) for step in (DATA, PLAIN))


def test_a_transaction_that_began_before_the_range_ends_in_it() -> None:
    steps = [DATA, DATA, PLAIN, DATA, COMMIT]
    assert visible(live_view(steps, 1, 5), steps, 1, 5) == [1, 2, 3]
    steps[4] = ABORT
    assert visible(live_view(steps, 1, 5), steps, 1, 5) == [2]


def test_a_transaction_that_goes_on_behind_the_range_is_undecided_in_it() -> None:
    steps = [DATA, PLAIN, DATA, COMMIT]
    view = live_view(steps, 0, 3)
    assert visible(view, steps, 0, 3) == [1]
    assert [view.is_undecided(header_of(offset, steps[offset])) for offset in range(3)] == [True, False, True]
    assert view.undecided == [UndecidedTransaction(producer_id=1, first_offset=0)]


def test_a_transaction_spans_the_range_and_is_neither_begun_nor_ended_in_it() -> None:
    steps = [DATA, DATA, COMMIT]
    assert visible(live_view(steps, 1, 2), steps, 1, 2) == []
    view = CommittedView(log_markers(LiveLog(steps).read, part(1, 2), behind_to=3), end_offset=3)
    assert visible(view, steps, 1, 2) == [1]


def test_what_others_committed_behind_an_undecided_transaction_is_seen() -> None:
    steps = [DATA, of_producer(DATA, 2), of_producer(COMMIT, 2), PLAIN]
    view = live_view(steps, 0, 4)
    assert visible(view, steps, 0, 4) == [1, 3]
    assert view.undecided == [UndecidedTransaction(producer_id=1, first_offset=0)]


def test_interleaved_producers_end_with_their_own_markers() -> None:
    steps = [
        DATA,
        of_producer(DATA, 2),
        DATA,
        of_producer(ABORT, 2),
        of_producer(DATA, 2),
        COMMIT,
        DATA,
        of_producer(COMMIT, 2),
        ABORT,
    ]
    assert visible(live_view(steps, 0, 9), steps, 0, 9) == [0, 2, 4]
    assert visible(live_view(steps, 3, 9), steps, 3, 9) == [4]


def test_a_fenced_transaction_is_ended_by_the_next_epoch_and_the_new_one_by_its_own_marker() -> None:
    steps = [DATA, ABORT._replace(epoch=1), DATA._replace(epoch=1), COMMIT._replace(epoch=1), DATA._replace(epoch=1)]
    view = live_view(steps, 0, 5)
    assert visible(view, steps, 0, 5) == [2]
    assert view.undecided == [UndecidedTransaction(producer_id=1, first_offset=4)]


def test_a_marker_of_a_higher_epoch_also_commits() -> None:
    steps = [DATA._replace(epoch=6), COMMIT._replace(epoch=7)]
    assert visible(live_view(steps, 0, 2), steps, 0, 2) == [0]


@pytest.mark.parametrize(("last", "seen"), [(COMMIT, [1]), (ABORT, []), (PLAIN, [2])])
def test_a_marker_before_the_first_record_decides_on_nothing_behind_it(last: Step, seen: list[int]) -> None:
    steps = [COMMIT if last is ABORT else ABORT, DATA, last]
    view = live_view(steps, 0, 3)
    assert visible(view, steps, 0, 3) == seen
    assert view.undecided == ([UndecidedTransaction(producer_id=1, first_offset=1)] if last is PLAIN else [])


def test_as_needed_markers_are_read_only_until_the_batch_has_its_outcome() -> None:
    steps = [PLAIN, DATA, DATA, COMMIT, of_producer(DATA, 2), PLAIN, of_producer(ABORT, 2), DATA]
    taken: list[int] = []

    def parts() -> Iterator[Markers]:
        for number, markers in enumerate(marker_parts(steps, size=2)):
            taken.append(number)
            yield markers

    view = CommittedView(parts(), end_offset=8, as_needed=True)
    read = []
    for offset, step in enumerate(steps):
        view.is_visible(header_of(offset, step))
        read.append(len(taken))
    assert read == [0, 2, 2, 2, 4, 4, 4, 4]
    assert view.outcome(header_of(7, DATA)) is None
    assert taken == [0, 1, 2, 3]


def test_all_markers_are_read_at_once_otherwise() -> None:
    def damaged() -> Iterator[Markers]:
        yield Markers()
        raise DamagedObject("the index")

    with pytest.raises(DamagedObject):
        CommittedView(damaged(), end_offset=8)


@pytest.mark.parametrize("as_needed", [False, True])
@pytest.mark.parametrize("size", [1, 9])
def test_a_marker_behind_missing_offsets_decides_on_nothing_before_them(size: int, as_needed: bool) -> None:
    """The marker of what was open may have been among them: an abort, and the next one commits another transaction."""
    steps = [DATA, of_producer(DATA, 2), of_producer(COMMIT, 2), PLAIN, PLAIN, DATA, COMMIT, DATA, PLAIN]
    markers = with_hole_starts(marker_parts(steps, size=size), [3, 8])
    view = CommittedView(markers, end_offset=9, as_needed=as_needed)
    assert visible(view, steps, 0, 9) == [1, 3, 4, 5, 8]
    assert [view.is_undecided(header_of(offset, DATA)) for offset in (0, 5, 7)] == [True, False, True]
    assert not any(view.is_open(header_of(offset, DATA)) for offset in (0, 5, 7))
    assert view.undecided == [
        UndecidedTransaction(producer_id=1, first_offset=0),
        UndecidedTransaction(producer_id=1, first_offset=7),
    ]


def test_a_batch_in_which_the_log_starts_behind_missing_offsets_is_decided_by_the_marker_behind_them() -> None:
    records = [Record(offset, 0, 0, b"", b"") for offset in range(1, 6)]
    (batch,) = scan(encode(records, producer_id=1, producer_epoch=0, is_transactional=True))
    markers = with_hole_starts([Markers([Marker(6, 1, 0, True, 1)])], [0, 3])  # told twice: first up to 3, then up to 4
    assert CommittedView(markers, end_offset=7).is_visible(batch)


def test_nor_where_a_live_log_deletes_offsets_while_its_markers_are_read() -> None:
    steps = [DATA, ABORT, DATA, COMMIT, DATA]

    def read(log_range: LogRange) -> Iterator[Chunk | Hole]:
        yield chunk_of(batch_of(0, DATA))
        yield Hole(topic="orders", partition=0, start=1, end=2, reason="retention")
        yield from (chunk_of(batch_of(offset, steps[offset])) for offset in range(2, log_range.end))

    view = CommittedView(log_markers(read, part(0, 5)), end_offset=5)
    assert visible(view, steps, 0, 5) == [2]
    assert [view.is_open(header_of(offset, DATA)) for offset in (0, 2, 4)] == [False, False, True]


logs = st.lists(
    st.tuples(st.sampled_from(["data", "data", "plain", "commit", "abort"]), st.integers(0, 2)).map(
        lambda drawn: Step(*drawn)
    ),
    max_size=25,
)


@given(logs, st.integers(0, 26), st.integers(1, 5))
def test_as_needed_a_view_shows_the_same(steps: list[Step], end: int, size: int) -> None:
    at_once = CommittedView(marker_parts(steps, size=size), end_offset=end)
    as_needed = CommittedView(marker_parts(steps, size=size), end_offset=end, as_needed=True)
    assert visible(as_needed, steps, 0, len(steps)) == visible(at_once, steps, 0, len(steps))
    assert as_needed.undecided == at_once.undecided


@given(logs, st.integers(0, 25), st.integers(0, 25))
def test_a_range_of_a_live_log_shows_what_the_whole_log_shows_of_it(steps: list[Step], start: int, count: int) -> None:
    start = min(start, len(steps))
    end = min(start + count, len(steps))
    whole = live_view(steps, 0, len(steps))
    of_range = CommittedView(
        log_markers(LiveLog(steps).read, part(start, end), behind_to=len(steps)), end_offset=len(steps)
    )
    assert visible(of_range, steps, start, end) == visible(whole, steps, start, end)


def test_a_live_log_is_read_behind_the_range_only_while_one_of_its_transactions_is_open() -> None:
    steps = [DATA, of_producer(DATA, 2), of_producer(COMMIT, 2), of_producer(DATA, 3), ABORT, PLAIN, PLAIN]
    log = LiveLog(steps)
    found = [marker for markers in log_markers(log.read, part(0, 3), behind_to=7) for marker in markers]
    assert [(marker.offset, marker.producer_id, marker.first_offset) for marker in found] == [(2, 2, 1), (4, 1, 0)]
    assert log.reads == [(0, 3), (3, 5)]


@pytest.mark.parametrize(("end", "behind_to"), [(3, 4), (2, 2), (2, 0)])
def test_nothing_is_read_behind_where_nothing_is_open_or_the_log_ends(end: int, behind_to: int) -> None:
    log = LiveLog([DATA, PLAIN, COMMIT, PLAIN])
    list(log_markers(log.read, part(0, end), behind_to=behind_to))
    assert log.reads == [(0, end)]


def test_an_open_transaction_is_looked_for_up_to_the_end_and_no_further() -> None:
    log = LiveLog([DATA, PLAIN, PLAIN, COMMIT])
    assert not any(log_markers(log.read, part(0, 1), behind_to=3))
    assert log.reads == [(0, 1), (1, 3)]


def test_holes_and_gaps_of_a_live_log_hold_no_markers() -> None:
    def read(log_range: LogRange) -> Iterator[Chunk | Hole | Gap]:
        yield Hole(topic="orders", partition=0, start=0, end=3, reason="retention")
        yield chunk_of(batch_of(3, DATA))
        yield Gap(topic="orders", partition=0, start=4, end=7, evidence=GapEvidence.BATCH, seen_at=7)
        yield chunk_of(batch_of(7, COMMIT))

    view = CommittedView(log_markers(read, part(0, 8)), end_offset=8)
    assert view.is_visible(header_of(3, DATA))
