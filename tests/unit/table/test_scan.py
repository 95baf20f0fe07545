"""What a scan yields, and what it reads for that, on real segments in a folder."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.points.point_in_time import chains_of, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, RecordedHole
from offsite.stores.open_store import open_store
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import RowFilter, plan_scan
from tests.batches import FIRST_TIME_MS, make_control_batch
from tests.tables import ORDERS, ORDERS_1, USERS, CountingStore, batch_of, commit_batches, new_table, transactional

FRAME_BYTES = 4 << 20
NOISE = random.Random(7).randbytes(100_000)  # the stored size is then the size that counts
FRAMES = 5


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(inner=open_store(str(tmp_path / "repository")))


@pytest.fixture
def backup(store: CountingStore) -> Backup:
    return new_table(store)


def rows(
    backup: Backup,
    wanted: RowFilter | None = None,
    *,
    read_committed: bool = True,
    ends: dict | None = None,
    until_ms: int | None = None,
    task_bytes: int = 1 << 26,
) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of each row, as the scan of everything gives them."""
    selected = chains_of(point_in_time(backup.state(), ends=ends, until_ms=until_ms), ["orders", "users"])
    tasks = plan_scan(selected, wanted or RowFilter(), read_committed=read_committed, task_bytes=task_bytes)
    found = [row for task in tasks for batch in scan_arrow(task, backup.store) for row in batch.to_pylist()]
    return [(row["topic"], row["partition"], row["offset"]) for row in found]


def offsets(*arguments: object, **options: object) -> list[int]:
    return [offset for _, _, offset in rows(*arguments, **options)]  # type: ignore[arg-type]


@pytest.fixture
def wide(backup: Backup, store: CountingStore) -> Backup:
    """One segment of five frames: 10 records of 100 kB in a batch, four batches in a frame, a millisecond apart."""
    commit_batches(backup, {ORDERS: [batch_of(base, 10, value=NOISE) for base in range(0, 250, 10)]})
    store.read_bytes.clear()
    return backup


def test_everything_is_read_once_and_in_order(backup: Backup) -> None:
    for base in (0, 20):
        commit_batches(backup, {p: [batch_of(base, 20)] for p in (ORDERS, ORDERS_1, USERS)})
    assert rows(backup) == [(p.topic, p.partition, n) for p in (ORDERS, ORDERS_1, USERS) for n in range(40)]


def test_small_tasks_give_the_same_rows_as_large_ones(backup: Backup) -> None:
    for base in range(0, 100, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 20)]})
    assert rows(backup, task_bytes=1) == rows(backup)


def test_an_offset_costs_one_frame(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide, RowFilter(start=123, end=124)) == [123]
    assert store.total_read_bytes < FRAME_BYTES * 1.3


def test_a_range_of_offsets_costs_the_frames_that_hold_it(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide, RowFilter(start=35, end=55)) == list(range(35, 55))
    assert store.total_read_bytes < 2 * FRAME_BYTES * 1.3


def test_the_newest_records_cost_the_last_frames(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide, RowFilter(since_ms=FIRST_TIME_MS + 230)) == list(range(230, 250))
    assert store.total_read_bytes < 2 * FRAME_BYTES * 1.3


def test_times_and_offsets_together_cost_what_both_leave(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide, RowFilter(end=150, since_ms=FIRST_TIME_MS + 140)) == list(range(140, 150))
    assert store.total_read_bytes < 2 * FRAME_BYTES * 1.3


def test_nothing_is_read_for_records_that_no_segment_can_hold(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide, RowFilter(since_ms=FIRST_TIME_MS + 250)) == []
    assert offsets(wide, RowFilter(start=250)) == []
    assert offsets(wide, RowFilter(topics=frozenset({"users"}))) == []
    assert offsets(wide, RowFilter(partitions=frozenset({1}))) == []
    assert store.total_read_bytes == 0


def test_a_whole_scan_reads_every_byte_once(wide: Backup, store: CountingStore) -> None:
    assert offsets(wide) == list(range(250))
    (segment,) = wide.state().all_segments()
    assert store.read_bytes[segment.key] == segment.stored_bytes


def test_a_producer_s_falling_times_are_found_though_headers_cannot_tell_them(backup: Backup) -> None:
    times = [500, 100, 300]
    batch = encode([Record(n, FIRST_TIME_MS + time, 0, None, b"v") for n, time in enumerate(times)])
    commit_batches(backup, {ORDERS: [bytes(batch)]})
    assert offsets(backup, RowFilter(until_ms=FIRST_TIME_MS + 100)) == [1]
    assert offsets(backup, RowFilter(since_ms=FIRST_TIME_MS + 200, until_ms=FIRST_TIME_MS + 400)) == [2]


def test_segments_that_the_broker_dated_later_are_not_read(backup: Backup, store: CountingStore) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10, is_append_time=True)]})
    store.read_bytes.clear()
    assert offsets(backup, RowFilter(until_ms=FIRST_TIME_MS + 9)) == list(range(10))
    assert len([key for key in store.read_bytes if "/topics/" in key]) == 1


def test_a_point_inside_a_batch_ends_there(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10), batch_of(10, 10)]})
    assert offsets(backup, ends={ORDERS: 13}) == list(range(13))
    assert offsets(backup, until_ms=FIRST_TIME_MS + 4) == list(range(5))


def test_holes_among_what_is_wanted_are_told_in_the_journal(backup: Backup, caplog: pytest.LogCaptureFixture) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    hole = RecordedHole(partition_id=ORDERS, start=10, end=20, reason="retention")
    point = point_in_time(replace(backup.state(), holes=(hole,)))
    for unwanted in (RowFilter(end=10), RowFilter(partitions=frozenset({1}))):
        plan_scan(chains_of(point, ["orders"]), unwanted, read_committed=True)
    plan_scan(chains_of(point, ["users"]), RowFilter(), read_committed=True)
    assert caplog.text == ""
    plan_scan(chains_of(point, ["orders"]), RowFilter(), read_committed=True)
    assert "hole topic=orders partition=0 start=10 end=20 why=retention" in caplog.text


def test_records_before_the_log_began_do_not_count_though_their_batch_is_there(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    state = backup.state()
    (segment,) = state.all_segments()
    trimmed = replace(segment, start=4)
    point = point_in_time(replace(state, segments={ORDERS: type(state.segments[ORDERS])([trimmed])}))
    (task,) = plan_scan(chains_of(point, ["orders"]), RowFilter(), read_committed=True)
    found = [row["offset"] for batch in scan_arrow(task, backup.store) for row in batch.to_pylist()]
    assert found == [4, 5, 6, 7, 8, 9]


def test_aborted_and_undecided_records_are_left_out_unless_asked_for(backup: Backup) -> None:
    commit_batches(
        backup,
        {
            ORDERS: [
                transactional(0, 2, producer_id=1, sequence=0),
                transactional(2, 2, producer_id=2, sequence=0),
                make_control_batch(4, producer_id=1, committed=True),
                make_control_batch(5, producer_id=2, committed=False),
                transactional(6, 2, producer_id=1, sequence=2),
                batch_of(8, 1),
            ]
        },
    )
    assert offsets(backup) == [0, 1, 8]
    assert offsets(backup, read_committed=False) == [0, 1, 2, 3, 6, 7, 8]


def test_an_outcome_in_a_later_segment_and_task_counts(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0)]})
    commit_batches(backup, {ORDERS: [batch_of(2, 2)]})
    commit_batches(backup, {ORDERS: [make_control_batch(4, producer_id=1, committed=True)]})
    assert offsets(backup, task_bytes=1) == [0, 1, 2, 3]
    assert offsets(backup, RowFilter(end=2)) == [0, 1]


def test_an_outcome_in_a_segment_that_is_too_old_to_hold_rows_counts(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0)]})
    commit_batches(backup, {ORDERS: [make_control_batch(2, producer_id=1, committed=False)]})  # dated 0
    end = make_control_batch(5, producer_id=1, committed=True)
    commit_batches(backup, {ORDERS: [transactional(3, 2, producer_id=1, sequence=2), end]})
    assert offsets(backup, RowFilter(since_ms=FIRST_TIME_MS)) == [3, 4]


@pytest.mark.parametrize("task_bytes", [1, 1 << 26])
def test_what_is_open_where_offsets_are_missing_is_left_out_whatever_ends_behind_them(
    backup: Backup, task_bytes: int
) -> None:
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0), batch_of(2, 1)]})
    state = commit_batches(backup, {ORDERS: [batch_of(3, 1)]})
    hole = RecordedHole(partition_id=ORDERS, start=4, end=6, reason="retention")
    at_6 = Position(partition_id=ORDERS, log_start=0, end=6)
    backup.commit(CommitChanges(holes=(hole,), positions=(at_6,)), base=state, writer="w")
    ended = [transactional(6, 1, producer_id=1, sequence=5), make_control_batch(7, producer_id=1, committed=True)]
    commit_batches(backup, {ORDERS: ended})
    assert offsets(backup, task_bytes=task_bytes) == [2, 3, 6]


def test_an_outcome_behind_the_point_does_not_count(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0), batch_of(2, 2)]})
    commit_batches(backup, {ORDERS: [make_control_batch(4, producer_id=1, committed=True)]})
    assert offsets(backup, ends={ORDERS: 4}) == [2, 3]


def test_a_damaged_index_costs_reading_but_no_rows(wide: Backup, store: CountingStore) -> None:
    (segment,) = wide.state().all_segments()
    assert segment.index_key is not None
    (path,) = Path(store.url.removeprefix("file://")).rglob(Path(segment.index_key).name)
    path.write_bytes(b"not an index")
    assert offsets(wide, RowFilter(start=123, end=124)) == [123]


@pytest.mark.parametrize("time_ms", [(1 << 63) - 1, -(1 << 62)])
def test_a_time_beyond_microseconds_is_null_and_still_later_or_earlier_than_all_others(
    backup: Backup, time_ms: int
) -> None:
    records = [Record(0, FIRST_TIME_MS, 0, b"k", b"v"), Record(1, time_ms, 0, b"k", b"v")]
    commit_batches(backup, {ORDERS: [bytes(encode([each])) for each in records]})
    selected = chains_of(point_in_time(backup.state()), ["orders"])

    def times(wanted: RowFilter) -> list[tuple[int, object]]:
        tasks = plan_scan(selected, wanted, read_committed=True)
        found = [row for task in tasks for batch in scan_arrow(task, backup.store) for row in batch.to_pylist()]
        return [(row["offset"], row["timestamp"] and int(row["timestamp"].timestamp())) for row in found]

    first = (0, FIRST_TIME_MS // 1000)
    assert times(RowFilter()) == [first, (1, None)]
    assert times(RowFilter(since_ms=FIRST_TIME_MS)) == [first, *([(1, None)] if time_ms > 0 else [])]
    assert times(RowFilter(until_ms=FIRST_TIME_MS)) == [first, *([(1, None)] if time_ms < 0 else [])]
