"""What one backup must hold so that an older one may go because of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId
from offsite.operator.decide.succession import (
    Successor,
    held_spans,
    judge_coverage,
    judge_successor,
    must_have_batch,
)
from offsite.repository.commit import Position, RecordedHole, TopicShape
from offsite.repository.segments.segment import Compression, Segment, SegmentList
from offsite.repository.state import BackupState

SHAPE = TopicShape(topic="orders", topic_id="id", partitions=1, replication_factor=1)
KNOWN = PartitionId(topic="orders", topic_id="id", partition=0)


def segment(start: int, end: int, known: PartitionId = KNOWN) -> Segment:
    return Segment(
        key=f"{known.topic}-{start}",
        topic=known.topic,
        topic_id=known.topic_id,
        partition=known.partition,
        start=start,
        end=end,
        first_offset=start,
        last_offset=end - 1,
        records=end - start,
        control_batches=0,
        batches=1,
        largest_batch_bytes=1,
        raw_bytes=1,
        stored_bytes=1,
        compression=Compression.NONE,
        base_timestamp_min_ms=0,
        timestamp_max_ms=0,
        timestamp_types=(0,),
        leader_epochs=(0,),
        has_transactions=False,
        hash="blake3:",
    )


def state(
    *spans: tuple[int, int], end: int = -1, shape: TopicShape = SHAPE, log_start: int = 0, **parts: Any
) -> BackupState:
    known = KNOWN._replace(topic=shape.topic, topic_id=shape.topic_id)
    last = spans[-1][1] if spans else 0
    position = Position(
        partition_id=known,
        log_start=log_start,
        end=last if end < 0 else end,
        leader_epoch=0,
        last_batch=LastBatch(last_offset=last - 1, crc=7) if last else None,
    )
    segments = SegmentList(segment(start, high, known) for start, high in spans)
    return BackupState(
        backup="b",
        topics={shape.incarnation: shape},
        positions={known: position},
        segments={known: segments} if spans else {},
        **parts,
    )


def lacks(older: BackupState, point: BackupState, *, is_same: bool | None = True, began: int | None = None) -> str:
    known = next(iter(older.positions))
    same = {known: is_same} if is_same is not None else {}
    successor = Successor(name="new", point=point, began={known: began} if began is not None else {})
    return str(judge_coverage(older, successor, same_batch=same)).removeprefix("new ")


@pytest.mark.parametrize(
    ("older", "point", "why"),
    [
        (state((0, 40)), state((0, 40)), ""),
        (state((0, 40)), state((30, 90)), ""),
        (state((0, 40)), state((40, 90)), ""),
        (state((0, 40)), state((41, 90)), "begins at offset 41 of orders/0, but the older backup ends at 40"),
        (state((0, 40)), state((0, 20), (30, 90)), "does not have offsets 20 to 30 of orders/0"),
        (state((0, 10), (30, 40)), state((0, 10), (30, 90)), ""),
        (state((0, 40)), state((0, 90), end=30), "does not have offsets 30 to 40 of orders/0"),
        (state((0, 40)), state(end=90), "has no records of orders/0"),
        (state(end=40), state(end=40), ""),
        (state((0, 40)), state((0, 40), shape=replace(SHAPE, topic_id="made anew")), "has another topic orders"),
        (state((0, 40)), state((0, 40), shape=replace(SHAPE, topic="users")), "does not have topic orders"),
        (state((0, 40), shape=replace(SHAPE, deleted_ms=1)), state((0, 40), shape=replace(SHAPE, topic="users")), ""),
    ],
)
def test_ranges_are_compared_from_where_the_successor_begins(older: BackupState, point: BackupState, why: str) -> None:
    assert lacks(older, point) == why


COMPACTED = replace(SHAPE, configs=(("cleanup.policy", "compact"),))


@pytest.mark.parametrize(
    ("point", "why"),
    [
        (state((0, 5), (80, 90), shape=COMPACTED), ""),
        (state((0, 5), end=30, shape=COMPACTED), "does not have offsets up to 40 of orders/0"),
        (
            state((50, 90), shape=COMPACTED, log_start=50),
            "begins at offset 50 of compacted partition orders/0, but the older backup begins at 0",
        ),
        (
            state((30, 90), shape=COMPACTED, holes=(RecordedHole(partition_id=KNOWN, start=10, end=30, reason="x"),)),
            "has a hole in orders/0",
        ),
        (state(end=90, shape=COMPACTED), "has no records of orders/0"),
    ],
)
def test_a_compacted_topic_may_lack_what_was_superseded_and_nothing_else(point: BackupState, why: str) -> None:
    assert lacks(state((0, 40), shape=COMPACTED), point) == why
    assert not must_have_batch(state((0, 40), shape=COMPACTED), point, KNOWN)


def test_the_last_batch_of_the_older_one_must_be_there() -> None:
    assert must_have_batch(state((0, 40)), state((30, 90)), KNOWN)
    assert not must_have_batch(state((0, 40)), state((40, 90)), KNOWN), "the source had let go of it"
    why = "has another record at the end of the older backup of orders/0"
    assert lacks(state((0, 40)), state((30, 90)), is_same=False) == why


def test_without_topic_ids_only_a_batch_shows_that_it_is_the_same_topic() -> None:
    nameless = replace(SHAPE, topic_id="")
    why = "may have another topic orders: its source gives topics no ids"
    older, point = state((0, 40), shape=nameless), state((0, 90), shape=nameless)
    assert lacks(older, point) == ""
    assert lacks(older, point, is_same=None) == why
    compacted = replace(nameless, configs=COMPACTED.configs)
    assert lacks(state((0, 40), shape=compacted), state((0, 90), shape=compacted)) == why


def test_what_the_successor_held_and_let_go_by_its_own_retention_is_no_gap() -> None:
    point = state((70, 90), expired={KNOWN: ((0, 70),)})
    assert lacks(state((0, 40)), point, began=0) == ""
    assert lacks(state((0, 40)), point, began=50) == "begins at offset 50 of orders/0, but the older backup ends at 40"
    assert lacks(state((0, 40)), point) == "begins at offset 70 of orders/0, but the older backup ends at 40"


def test_held_is_what_segments_have_below_the_position() -> None:
    assert held_spans(state((0, 10), (10, 20), (40, 60), end=50), KNOWN) == ((0, 20), (40, 50))


GOOD = Successor(name="new", point=state((0, 40)), since_ms=1000, until_ms=61_000)


@pytest.mark.parametrize(
    ("successor", "minimum_ms", "why"),
    [
        (GOOD, 60_000, ""),
        (GOOD, 60_001, "does not reach back far enough yet: 1 min 00 s of 1 min 00 s"),
        (GOOD, 0, "may not replace another backup: the resource has no minimumRestorable"),
        (replace(GOOD, point=None), 1, "has not completed a full copy since it began"),
        (
            replace(GOOD, left_behind="orders/0 (OFF-1503)"),
            1,
            "does not have partitions that could not be read: orders/0 (OFF-1503)",
        ),
        (replace(GOOD, missing="order"), 1, "does not have declared topics: order"),
        (replace(GOOD, problem="cannot be read: x"), 1, "cannot be read: x"),
    ],
)
def test_a_successor_has_no_condition_and_reaches_back(successor: Successor, minimum_ms: int, why: str) -> None:
    assert str(judge_successor(successor, minimum_ms=minimum_ms)).removeprefix("new ") == why
