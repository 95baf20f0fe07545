"""However a partition is cut into runs, tasks, segments, chunks: joined, their tails are what one pass would find."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise, zip_longest
from typing import Any, Literal, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.backup import copy as backup_copy
from offsite.backup.copy import BackupEnds, BackupReceipt, copy_range
from offsite.backup.copy_plan import NO_WINDOW, CopyPlan, CopyTask, PartitionBounds, plan_copy
from offsite.backup.pass_cut import join_tails
from offsite.kafka.read_task import ReadTask
from offsite.log.markers import Marker, Markers
from offsite.log.range import Chunk, Hole, LogRange, PartitionId, Span
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.log.transactions import OpenTransaction, PartitionTail, StretchTail, TransactionIndexer
from offsite.repository.layout import BackupLayout
from tests.batches import chunk_of, make_control_batch
from tests.examples import examples
from tests.memory_store import MemoryStore

ValueT = TypeVar("ValueT")


class Step(NamedTuple):
    """A batch: data of `records` records, or a marker; or so many offsets that are missing."""

    kind: Literal["data", "commit", "abort", "plain", "hole"]
    producer_id: int = 1
    records: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The batches of a partition, each with its base offset, and its holes."""

    batches: dict[int, bytes]
    end: int
    holes: tuple[Span, ...] = ()

    @staticmethod
    def of(steps: Sequence[Step]) -> Log:
        bases = [0, *accumulate(step.records for step in steps)]
        placed = list(zip(bases, steps, strict=False))
        batches = {base: _batch(base, step) for base, step in placed if step.kind != "hole"}
        holes = tuple((base, base + step.records) for base, step in placed if step.kind == "hole")
        return Log(batches=batches, end=bases[-1], holes=holes)

    def items(self, start: int, end: int, edges: Sequence[int] = ()) -> Iterator[Chunk | Hole]:
        """What is in `[start, end)`: chunks, cut at `edges`, and holes."""
        holes = {max(low, start): min(high, end) for low, high in self.holes if low < end and start < high}
        inner = {edge for edge in (*edges, *holes, *holes.values()) if start < edge < end}
        for low, high in pairwise([start, *sorted(inner), end]):
            if low in holes:
                yield Hole(topic="orders", partition=0, start=low, end=holes[low], reason="retention")
            elif (chunk := self.chunk(low, high)).batches:
                yield chunk

    def chunk(self, start: int, end: int) -> Chunk:
        """Of all batches whose base offset is in `[start, end)`."""
        return chunk_of(b"".join(batch for base, batch in self.batches.items() if start <= base < end))


def _batch(base: int, step: Step) -> bytes:
    if step.kind in ("commit", "abort"):
        return make_control_batch(base, producer_id=step.producer_id, committed=step.kind == "commit")
    records = [Record(base + number, 0, 0, b"", b"") for number in range(step.records)]
    is_transactional = step.kind == "data"
    producer_id = step.producer_id if is_transactional else -1
    return bytes(encode(records, producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional))


def one_pass(log: Log, *, start: int = 0, window_start: int = 0, until: int | None = None) -> PartitionTail:
    """Of all of the log, its markers told from `start` and `window_start` on."""
    indexer = TransactionIndexer()
    until = log.end if until is None else until
    for item in log.items(0, until):
        if isinstance(item, Hole):
            indexer.forget_open()
        else:
            indexer.feed(item.data, item.batches)
    chunk = log.chunk(0, until)
    told = tuple(marker for marker in indexer.markers if marker.offset >= max(start, window_start))
    has_plain = any(
        not each.is_control
        and not each.is_transactional
        and each.base_offset >= start
        and each.next_offset > window_start
        for each in chunk.batches
    )
    return PartitionTail(markers=told, open=tuple(indexer.open_transactions), has_plain=has_plain)


def bounds_of(log: Log, number: int = 0) -> PartitionBounds:
    return PartitionBounds(topic="orders", topic_id="", partition=number, log_start=0, end=log.end, size_bytes=1)


def cut_at(task: CopyTask, edges: Sequence[int]) -> list[CopyTask]:
    """The task as several that begin and end at `edges`, as far as these lie in it."""
    inner = sorted({edge for edge in edges if task.range.start < edge < task.range.end})
    spans = pairwise([task.range.start, *inner, task.range.end])
    ranges = [LogRange(topic="orders", partition=task.range.partition, start=start, end=end) for start, end in spans]
    return [replace(task, range=each, is_first=each.start == task.range.start) for each in ranges]


def sent(value: ValueT) -> ValueT:
    """As it arrives in another process."""
    back: ValueT = pickle.loads(pickle.dumps(value))
    return back


def copied(task: CopyTask, log: Log, *, edges: Sequence[int] = ()) -> BackupReceipt:
    """The receipt of a copy with a chunk between any two of `edges`, each of them a segment of its own."""

    def read(task: ReadTask) -> Iterator[Chunk | Hole]:
        return log.items(task.range.start, task.range.end, edges)

    kafka: Any = None
    ends = BackupEnds(kafka=kafka, store=MemoryStore(), layout=BackupLayout(backup="b"), compression="none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backup_copy, "paced_destination", lambda store: (store, 1))
        return sent(copy_range(sent(task), ends=ends, read=read))


def tails(
    logs: Sequence[Log], starts: Sequence[int], windows: Sequence[int], task_edges: Sequence[int], edges: Sequence[int]
) -> dict[PartitionId, PartitionTail]:
    """The joined tails of a run that copies each log from its start on."""
    bounds = [bounds_of(log, number) for number, log in enumerate(logs)]
    positions = {each.partition_id: start for each, start in zip(bounds, starts, strict=True)}
    window_starts = {each.partition_id: window for each, window in zip(bounds, windows, strict=True)}
    plan = plan_copy(bounds, positions, slots=1, window_starts=window_starts)
    shares = [cut_at(task, task_edges) for task in plan.tasks]
    plan = replace(plan, tasks=tuple(task for task in chain.from_iterable(zip_longest(*shares)) if task is not None))
    receipts = [copied(task, logs[task.range.partition], edges=edges) for task in plan.tasks]
    known_open = {
        each.partition_id: one_pass(log, until=start).open
        for each, log, start in zip(bounds, logs, starts, strict=True)
    }
    return join_tails(plan, receipts, known_open=known_open)


kinds = st.sampled_from(["data", "data", "data", "commit", "abort", "plain", "hole"])
steps = st.builds(
    lambda kind, producer_id, records: Step(kind, producer_id, records if kind in ("data", "plain", "hole") else 1),
    kinds,
    st.integers(1, 3),
    st.integers(1, 3),
)
logs = st.lists(steps, min_size=8, max_size=25).map(Log.of)
offsets = st.integers(0, 40)
edges = st.lists(offsets, max_size=8)


@examples(400)
@given(st.lists(st.tuples(logs, offsets, offsets), min_size=1, max_size=2), edges, edges)
def test_joined_tails_are_what_one_pass_over_the_whole_log_finds(
    partitions: list[tuple[Log, int, int]], task_edges: list[int], edges: list[int]
) -> None:
    logs = [log for log, _, _ in partitions]
    windows = [window for _, _, window in partitions]
    bases = [sorted({*log.batches, *(low for low, _ in log.holes)}) for log in logs]
    starts = [
        next((base for base in known if base >= start), log.end)
        for known, (log, start, _) in zip(bases, partitions, strict=True)
    ]
    joined = tails(logs, starts, windows, task_edges, edges)
    assert {each.partition: tail for each, tail in joined.items()} == {
        number: one_pass(log, start=start, window_start=window)
        for number, (log, start, window) in enumerate(zip(logs, starts, windows, strict=True))
    }


def run_of(log: Log, *edges: int, window_start: int) -> tuple[CopyPlan, list[BackupReceipt]]:
    bounds = bounds_of(log)
    plan = plan_copy([bounds], {}, slots=1, window_starts={bounds.partition_id: window_start})
    plan = replace(plan, tasks=tuple(cut_at(plan.tasks[0], edges)))
    return plan, [copied(task, log) for task in plan.tasks]


DATA, COMMIT = Step("data"), Step("commit")


def test_a_receipt_tells_what_its_range_alone_shows() -> None:
    _, receipts = run_of(Log.of([DATA, DATA, COMMIT, DATA]), 1, window_start=0)
    assert [receipt.tail for receipt in receipts] == [
        StretchTail(open=(OpenTransaction(producer_id=1, first_offset=0, last_offset=0),)),
        StretchTail(
            markers=Markers([Marker(2, 1, 0, True, 1)]),
            open=(OpenTransaction(producer_id=1, first_offset=3, last_offset=3),),
        ),
    ]


def test_a_marker_before_the_window_is_told_of_only_by_whose_it_is() -> None:
    plan, receipts = run_of(Log.of([DATA, COMMIT, DATA, COMMIT]), 1, window_start=3)
    assert receipts[1].tail == StretchTail(
        markers=Markers([Marker(3, 1, 0, True, 2)]), ended_producer_ids=frozenset({1})
    )
    (joined,) = join_tails(plan, receipts, known_open={}).values()
    assert joined == PartitionTail(markers=(Marker(3, 1, 0, True, 2),))


def test_what_is_open_is_ended_by_the_first_marker_alone() -> None:
    plan, receipts = run_of(Log.of([DATA, DATA, COMMIT, DATA, COMMIT]), 1, window_start=0)
    (joined,) = join_tails(plan, receipts, known_open={}).values()
    assert joined == PartitionTail(markers=(Marker(2, 1, 0, True, 0), Marker(4, 1, 0, True, 3)))


def test_what_began_before_all_that_is_known_has_no_first_offset() -> None:
    plan, receipts = run_of(Log.of([COMMIT]), window_start=0)
    (joined,) = join_tails(plan, receipts, known_open={}).values()
    assert joined == PartitionTail(markers=(Marker(0, 1, 0, True, -1),))


def test_a_range_without_transactions_ends_none_and_has_no_tail_before_the_window() -> None:
    plan, receipts = run_of(Log.of([Step("plain"), Step("plain")]), 1, window_start=1)
    assert [receipt.tail for receipt in receipts] == [None, StretchTail(has_plain=True)]
    known = OpenTransaction(producer_id=7, first_offset=3, last_offset=5)
    partition_id = plan.bounds[0].partition_id
    joined = join_tails(plan, receipts, known_open={partition_id: [known]})
    assert joined == {partition_id: PartitionTail(open=(known,), has_plain=True)}


HOLE = Step("hole")


def test_what_is_open_where_offsets_are_missing_is_not_joined_to_what_ends_behind_them() -> None:
    plan, receipts = run_of(Log.of([DATA, HOLE, DATA, COMMIT, DATA, HOLE]), 1, 2, window_start=0)
    (joined,) = join_tails(plan, receipts, known_open={}).values()
    assert joined == PartitionTail(markers=(Marker(3, 1, 0, True, 2),))


def test_nor_where_they_are_missing_before_what_the_plan_copies() -> None:
    log = Log.of([DATA, HOLE, COMMIT])
    bounds = replace(bounds_of(log), log_start=2)
    plan = plan_copy([bounds], {bounds.partition_id: 1}, slots=1, window_starts={bounds.partition_id: 0})
    known = OpenTransaction(producer_id=1, first_offset=0, last_offset=0)
    receipts = [copied(task, log) for task in plan.tasks]
    joined = join_tails(plan, receipts, known_open={bounds.partition_id: [known]})
    assert joined == {bounds.partition_id: PartitionTail(markers=(Marker(2, 1, 0, True, -1),))}


def test_a_partition_whose_tail_is_not_wanted_has_none() -> None:
    plan, receipts = run_of(Log.of([DATA, COMMIT]), 1, window_start=NO_WINDOW)
    assert [receipt.tail for receipt in receipts] == [None, None]
    assert join_tails(plan, receipts, known_open={}) == {}
