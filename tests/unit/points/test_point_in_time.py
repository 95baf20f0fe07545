from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import PartitionId
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME
from offsite.model.topic_choices import parse_partitions
from offsite.points.point_in_time import CutReport, PointInTime, point_in_time
from offsite.repository.commit import Position, RecordedHole, TopicShape
from offsite.repository.segments.segment import Compression, Segment, SegmentList
from offsite.repository.state import BackupState

ORDERS = PartitionId(topic="orders", topic_id="id", partition=0)
OTHER = PartitionId(topic="orders", topic_id="id", partition=1)
SIZE = 10
TIMES_MS = st.tuples(st.integers(0, 50), st.integers(0, 20))
SHAPES = st.lists(st.tuples(TIMES_MS, st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]), st.booleans()), max_size=6)


def segment(
    number: int,
    *,
    partition: PartitionId = ORDERS,
    times_ms: tuple[int, int] = (0, 0),
    kind: int = CREATE_TIME,
    transactions: bool = False,
) -> Segment:
    """Ten offsets, with times from `times_ms[0]` on over `times_ms[1]` milliseconds."""
    begin_ms, length_ms = times_ms
    return Segment(
        key=f"backups/b/topics/{partition}-{number}",
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        start=number * SIZE,
        end=number * SIZE + SIZE,
        first_offset=number * SIZE,
        last_offset=number * SIZE + SIZE - 1,
        records=SIZE,
        control_batches=0,
        batches=1,
        largest_batch_bytes=100,
        raw_bytes=100,
        stored_bytes=100,
        compression=Compression.NONE,
        base_timestamp_min_ms=begin_ms,
        timestamp_max_ms=begin_ms + length_ms,
        timestamp_types=(kind,),
        leader_epochs=(0,),
        has_transactions=transactions,
        hash="blake3:" + "0" * 64,
    )


def state(segments: Sequence[Segment], *others: Segment) -> BackupState:
    lists = {ORDERS: SegmentList(segments), OTHER: SegmentList(others)}
    shape = TopicShape(topic="orders", topic_id="id", partitions=2, replication_factor=1)
    return BackupState(
        backup="b",
        seq=3,
        topics={shape.incarnation: shape},
        positions={p: Position(partition_id=p, log_start=0, end=found.end) for p, found in lists.items()},
        segments={p: found for p, found in lists.items() if found},
    )


def taken(point: PointInTime, partition: PartitionId = ORDERS) -> list[int]:
    return [each.start // SIZE for each in point.state.segments.get(partition, ())]


@given(SHAPES, st.integers(-1, 75))
def test_no_segment_that_a_date_might_take_from_is_left_out(
    shapes: list[tuple[tuple[int, int], int, bool]], until_ms: int
) -> None:
    segments = [segment(n, times_ms=t, kind=k, transactions=x) for n, (t, k, x) in enumerate(shapes)]
    point = point_in_time(state(segments), until_ms=until_ms)
    for each, (times_ms, kind, _) in zip(segments, shapes, strict=True):
        earliest_ms = times_ms[0] if kind == LOG_APPEND_TIME else -1  # a record may be older than its batch's first
        if earliest_ms <= until_ms:
            assert each in point.state.segments[ORDERS]


@given(SHAPES, st.integers(0, 70))
def test_an_end_takes_what_begins_below_it_and_every_segment_is_counted_once(
    shapes: list[tuple[tuple[int, int], int, bool]], end: int
) -> None:
    segments = [segment(n, times_ms=t, kind=k, transactions=x) for n, (t, k, x) in enumerate(shapes)]
    point = point_in_time(state(segments), ends={ORDERS: end})
    last = len(segments) * SIZE
    assert point.state.positions[ORDERS].end == min(end, last)
    assert taken(point) == [n for n in range(len(segments)) if n * SIZE < end]
    for cut in point.cuts():
        assert cut.whole_segments == end // SIZE
        assert cut.whole_segments + cut.edge_segments + cut.left_out_segments == len(segments)
    assert bool(point.cuts()) == (end < last)


def test_a_segment_that_its_broker_dated_later_is_left_out_unless_it_may_decide_transactions() -> None:
    plain = segment(0, times_ms=(10, 5), kind=LOG_APPEND_TIME)
    deciding = segment(1, times_ms=(20, 5), kind=LOG_APPEND_TIME, transactions=True)
    late = segment(2, times_ms=(30, 5), kind=LOG_APPEND_TIME)
    point = point_in_time(state([plain, deciding, late]), until_ms=15)
    assert taken(point) == [0, 1]
    assert point.cuts() == (
        CutReport(
            topic="orders",
            partition=ORDERS.partition,
            end=30,
            commit_end=30,
            whole_segments=1,
            edge_segments=1,
            left_out_segments=1,
        ),
    )


def test_only_chosen_partitions_are_taken_and_their_positions_stay() -> None:
    given_state = state([segment(0)], segment(0, partition=OTHER))
    point = point_in_time(given_state, partitions=parse_partitions(["orders:1", "payments:0"]))
    assert (taken(point), taken(point, OTHER)) == ([], [0])
    assert point.state.positions == given_state.positions
    assert [(cut.topic, cut.partition, cut.left_out_segments) for cut in point.cuts()] == [("orders", 0, 1)]


def test_a_hole_behind_the_end_is_none_of_the_point() -> None:
    holes = tuple(RecordedHole(partition_id=ORDERS, start=n, end=n + 2, reason="retention") for n in (4, 14))
    point = point_in_time(replace(state([segment(0), segment(1)]), holes=holes), ends={ORDERS: 10})
    assert point.state.holes == holes[:1]


def test_a_point_that_is_a_commit_cuts_nothing() -> None:
    given_state = state([segment(0), segment(1)], segment(0, partition=OTHER))
    point = point_in_time(given_state)
    assert point.state == given_state
    assert point.cuts() == ()


def test_a_segment_that_reaches_past_the_commit_is_taken_as_far_as_the_commit_and_no_cut() -> None:
    """A roll-up has put later records beside those of then."""
    rolled_up = state([segment(0), segment(1)])
    position = replace(rolled_up.positions[ORDERS], end=15)
    given_state = replace(rolled_up, positions={**rolled_up.positions, ORDERS: position})
    assert point_in_time(given_state).cuts() == ()
    (cut,) = point_in_time(given_state, ends={ORDERS: 12}).cuts()
    assert (cut.end, cut.commit_end, cut.whole_segments, cut.edge_segments) == (12, 15, 1, 1)
