"""Records for an export: of a backup up to the first open transaction, of a cluster with outcomes from behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.archives.export import task as export
from offsite.archives.export.task import BackupRecordSource, ClusterRecordSource, ExportTask, RecordSource
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.read_task import ReadTask
from offsite.log.range import Chunk, Hole, LogRange
from offsite.points.point_in_time import PartitionChain
from offsite.stores.open_store import open_store
from tests.batches import chunk_of, make_control_batch
from tests.tables import ORDERS, CountingStore, batch_of, commit_batches, new_table, transactional

LOG = [
    transactional(0, 2, producer_id=1, sequence=0),
    batch_of(2, 2),
    make_control_batch(4, producer_id=1, committed=True),
    transactional(5, 2, producer_id=2, sequence=0),
    transactional(7, 2, producer_id=1, sequence=2),
    make_control_batch(9, producer_id=1, committed=False),
    batch_of(10, 2),
    make_control_batch(12, producer_id=2, committed=True),
]
VISIBLE = [0, 1, 2, 3, 5, 6, 10, 11]


def part(start: int, end: int) -> LogRange:
    return LogRange(topic="orders", partition=0, start=start, end=end)


def offsets(source: RecordSource, task: ExportTask, log_range: LogRange) -> list[int]:
    items = [item for item in source.records(task, log_range) if not isinstance(item, Hole)]
    return [offset for columns in items for offset in columns.offsets]


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(inner=open_store(str(tmp_path / "repository")))


def stored(store: CountingStore, batches: Sequence[bytes], log_range: LogRange) -> ExportTask:
    """The range's task, of a backup in two segments that ends with it."""
    backup = new_table(store)
    for some in (batches[:5], batches[5:]):
        state = commit_batches(backup, {ORDERS: some})
    chain = PartitionChain(source=ORDERS, segments=tuple(state.segments[ORDERS]), end=log_range.end)
    return ExportTask(range=log_range, estimated_bytes=1, chain=chain)


@pytest.mark.parametrize(
    ("log_range", "end"),
    [((0, 13), 13), ((0, 12), 5), ((5, 12), 5), ((6, 12), 6), ((7, 12), 12), ((7, 9), 7), ((0, 4), 0)],
)
def test_of_a_backup_comes_what_lies_before_the_first_open_transaction_in_the_range(
    store: CountingStore, log_range: tuple[int, int], end: int
) -> None:
    task = stored(store, LOG, part(*log_range))
    source = BackupRecordSource(store=store, read_committed=True)
    assert source.stable_range(task) == part(log_range[0], end)
    seen = [offset for offset in VISIBLE if log_range[0] <= offset < end]
    assert offsets(source, task, source.stable_range(task)) == seen


def test_what_no_marker_will_ever_decide_on_is_left_out_and_keeps_no_export_waiting(store: CountingStore) -> None:
    """The markers of both producers may have been among the offsets that are missing between the two segments."""
    behind = [transactional(11, 1, producer_id=2, sequence=2), make_control_batch(12, producer_id=2, committed=True)]
    task = stored(store, [*LOG[:4], transactional(7, 1, producer_id=1, sequence=2), *behind], part(0, 13))
    assert task.chain is not None
    task = replace(task, chain=replace(task.chain, hole_starts=(8,)))
    source = BackupRecordSource(store=store, read_committed=True)
    assert source.stable_range(task) == part(0, 13)
    assert offsets(source, task, part(0, 13)) == [0, 1, 2, 3, 11]


def test_with_read_uncommitted_a_backup_s_range_is_stable_as_it_is(store: CountingStore) -> None:
    task = stored(store, LOG, part(0, 12))
    source = BackupRecordSource(store=store, read_committed=False)
    assert source.stable_range(task) == part(0, 12)
    assert offsets(source, task, part(0, 12)) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]


def test_nothing_is_read_to_find_open_transactions_where_there_were_none(store: CountingStore) -> None:
    task = stored(store, [batch_of(base, 2) for base in range(0, 20, 2)], part(0, 20))
    store.read_bytes.clear()
    assert BackupRecordSource(store=store, read_committed=True).stable_range(task) == part(0, 20)
    assert store.read_bytes == {}


class Cluster:
    """Readers of one partition, whose log has `LOG`, begins at `start`, and may say so while it is read."""

    def __init__(self, *, start: int = 0) -> None:
        self.reads: list[tuple[int, int]] = []
        self._start = start

    def reader(self, *_: object, **__: object) -> Cluster:
        return self

    def read_task(self, task: ReadTask) -> Iterator[Chunk | Hole]:
        start, end = task.range.start, task.range.end
        self.reads.append((start, end))
        if start < self._start:
            yield Hole(topic="orders", partition=0, start=start, end=self._start, reason="retention")
        for chunk in map(chunk_of, LOG):
            if chunk.batches[-1].next_offset > max(start, self._start) and chunk.batches[0].base_offset < end:
                yield chunk


def records_of(
    cluster: Cluster, log_range: LogRange, monkeypatch: pytest.MonkeyPatch, *, read_committed: bool = True
) -> list[int]:
    monkeypatch.setattr(export, "PartitionReader", cluster.reader)
    monkeypatch.setattr(export, "shared_router", lambda _: None)
    source = ClusterRecordSource(
        kafka=KafkaConfig(bootstrap=parse_bootstrap("nowhere:1")), read_committed=read_committed
    )
    task = ExportTask(range=log_range, estimated_bytes=1, high_watermark=13)
    return offsets(source, task, source.stable_range(task))


@pytest.mark.parametrize(
    ("log_range", "reads"),
    [
        ((0, 13), [(0, 13), (0, 13)]),
        ((2, 4), [(2, 4)]),
        ((1, 6), [(1, 6), (1, 6), (6, 13)]),
        ((7, 9), [(7, 9), (7, 9), (9, 13)]),
    ],
)
def test_of_a_cluster_outcomes_are_read_ahead_and_behind_the_range_where_one_is_open(
    monkeypatch: pytest.MonkeyPatch, log_range: tuple[int, int], reads: list[tuple[int, int]]
) -> None:
    cluster = Cluster()
    expected = [offset for offset in VISIBLE if log_range[0] <= offset < log_range[1]]
    assert records_of(cluster, part(*log_range), monkeypatch) == expected
    assert cluster.reads == reads


def test_of_a_batch_that_the_log_start_cuts_the_rest_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(start=6)
    assert records_of(cluster, part(0, 13), monkeypatch) == [6, 10, 11]
    assert cluster.reads == [(0, 13), (6, 13)]


def test_with_read_uncommitted_a_cluster_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    found = records_of(cluster, part(0, 13), monkeypatch, read_committed=False)
    assert (found, cluster.reads) == ([0, 1, 2, 3, 5, 6, 7, 8, 10, 11], [(0, 13)])
