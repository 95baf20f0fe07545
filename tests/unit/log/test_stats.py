"""The figures of a run of batches are those one gets by looking at every batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import BatchHeader
from offsite.log.stats import MAX_LEADER_EPOCHS, LogStats, LogSummary


def header(
    base_offset: int = 0,
    *,
    attributes: int = 0,
    count: int = 1,
    base_ms: int = 10,
    max_ms: int = 20,
    leader_epoch: int = 0,
    size_bytes: int = 100,
) -> BatchHeader:
    times_ms = (base_ms, max_ms)
    return BatchHeader(0, size_bytes, base_offset, leader_epoch, 0, attributes, count - 1, *times_ms, -1, -1, -1, count)


def summary_of(*headers: BatchHeader) -> LogSummary:
    stats = LogStats()
    stats.add(headers)
    return stats.summary()


def test_a_run_of_batches_is_added_up() -> None:
    first = header(5, count=10, base_ms=50, max_ms=90, leader_epoch=3)
    second = header(15, count=2, base_ms=40, max_ms=60, leader_epoch=2, attributes=4, size_bytes=30)
    assert summary_of(first, second) == LogSummary(
        records=12,
        batches=2,
        control_batches=0,
        size_bytes=130,
        largest_batch_bytes=100,
        uncompressed_batch_bytes=100,
        first_base_offset=5,
        last_offset=16,
        base_timestamp_min_ms=40,
        timestamp_max_ms=90,
        timestamp_types=(0,),
        leader_epochs=(2, 3),
        leader_epochs_complete=True,
        has_transactions=False,
    )


def test_nothing_adds_up_to_nothing() -> None:
    empty = summary_of()
    assert (empty.records, empty.batches, empty.size_bytes) == (0, 0, 0)
    assert (empty.first_base_offset, empty.last_offset) == (-1, -1)
    assert (empty.base_timestamp_min_ms, empty.timestamp_max_ms, empty.timestamp_types) == (-1, -1, ())


def test_control_batches_are_counted_apart_and_their_times_left_out() -> None:
    figures = summary_of(header(0, attributes=16), header(1, attributes=48, base_ms=1, max_ms=99))
    assert (figures.records, figures.batches, figures.control_batches) == (1, 2, 1)
    assert (figures.base_timestamp_min_ms, figures.timestamp_max_ms) == (10, 20)
    assert figures.has_transactions
    assert figures.last_offset == 1


def test_log_append_time_batches_begin_and_end_at_their_max() -> None:
    figures = summary_of(header(0, attributes=8, base_ms=1, max_ms=70), header(1, base_ms=80, max_ms=90))
    assert (figures.base_timestamp_min_ms, figures.timestamp_max_ms) == (70, 90)
    assert figures.timestamp_types == (0, 1)


def test_batches_that_do_not_know_their_begin_leave_the_minimum_alone() -> None:
    horizon = header(1, attributes=64, base_ms=1, max_ms=15)
    timeless = header(2, base_ms=-1, max_ms=-1)
    assert summary_of(header(0), horizon, timeless).base_timestamp_min_ms == 10
    assert summary_of(horizon).base_timestamp_min_ms == -1
    assert summary_of(timeless).timestamp_max_ms == -1


def test_only_so_many_leader_epochs_are_named_and_more_are_admitted() -> None:
    figures = summary_of(*(header(n, leader_epoch=n) for n in range(MAX_LEADER_EPOCHS + 1)))
    assert figures.leader_epochs == tuple(range(MAX_LEADER_EPOCHS))
    assert not figures.leader_epochs_complete


headers = st.builds(
    header,
    attributes=st.integers(0, 127),
    count=st.integers(0, 9),
    base_ms=st.integers(-1, 50),
    max_ms=st.integers(-1, 50),
    leader_epoch=st.integers(-1, 3),
    size_bytes=st.integers(61, 99),
)


@given(st.lists(headers), st.integers(1, 5))
def test_the_figures_do_not_depend_on_how_batches_are_grouped(run: list[BatchHeader], step: int) -> None:
    stats = LogStats()
    for start in range(0, len(run), step):
        stats.add(run[start : start + step])
    assert stats.summary() == summary_of(*run)
    data = [h for h in run if not h.is_control]
    assert stats.summary().records == sum(h.record_count for h in data)
    assert stats.summary().control_batches == len(run) - len(data)
    assert stats.summary().timestamp_max_ms == max((h.max_timestamp_ms for h in data), default=-1)
    assert stats.summary().timestamp_types == tuple(sorted({h.timestamp_type for h in data}))
    assert stats.summary().uncompressed_batch_bytes == sum(h.size_bytes for h in run if h.codec == 0)
