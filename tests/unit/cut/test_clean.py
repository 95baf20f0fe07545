"""Which readings are clean for a producer, by what its coordinator logged around them."""

from __future__ import annotations

import pytest

from offsite.cut.readings import EndsReading, clean_readings, find_unsettled, transactional_ids
from offsite.log.range import PartitionId
from offsite.log.transaction_state import ListedTransaction, TransactionChange, TransactionStatus

EMPTY, ONGOING, DEAD = TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.DEAD
PREPARE, COMPLETE = TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT
FENCE, PREPARE_ABORT = TransactionStatus.PREPARE_EPOCH_FENCE, TransactionStatus.PREPARE_ABORT

ORDERS, PAID = (PartitionId(name, f"id-{name}", 0) for name in ("orders", "paid"))


def reading(before: int, after: int) -> EndsReading:
    return EndsReading(before={0: before}, ends={ORDERS: 7}, after={0: after})


READINGS = (reading(10, 12), reading(20, 22))


def changes(*rows: tuple[int, TransactionStatus | None]) -> tuple[TransactionChange, ...]:
    return tuple(
        TransactionChange(0, position, "app", -1 if status is None else 1, 0, status) for position, status in rows
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(5, ONGOING)], (0, 1)),
        ([(15, EMPTY)], (0, 1)),
        ([(15, None)], (0, 1)),
        ([(15, DEAD)], (0, 1)),
        ([(5, PREPARE), (9, COMPLETE)], (0, 1)),
        ([(5, PREPARE), (10, COMPLETE)], (1,)),
        ([(11, PREPARE), (19, COMPLETE)], (1,)),
        ([(12, PREPARE), (19, COMPLETE)], (0, 1)),
        ([(12, PREPARE), (20, COMPLETE)], (0,)),
        ([(12, PREPARE_ABORT)], (0,)),
        ([(5, FENCE), (9, PREPARE_ABORT), (15, COMPLETE)], (1,)),
        ([(9, COMPLETE)], (0, 1)),
        ([(15, COMPLETE)], (1,)),
        ([(21, COMPLETE)], ()),
        ([(10, PREPARE), (11, COMPLETE), (20, PREPARE), (21, COMPLETE)], ()),
    ],
)
def test_a_reading_is_clean_where_nothing_was_being_prepared(
    rows: list[tuple[int, TransactionStatus | None]], expected: tuple[int, ...]
) -> None:
    assert clean_readings(READINGS, changes(*rows), {})["app"] == expected
    assert find_unsettled(READINGS, changes(*rows), {}) == (frozenset() if expected else {"app"})


@pytest.mark.parametrize(
    ("status", "expected"), [(ONGOING, (0, 1)), (EMPTY, (0, 1)), (COMPLETE, (0, 1)), (PREPARE, ()), (FENCE, ())]
)
def test_a_listing_speaks_for_those_that_did_not_change(status: TransactionStatus, expected: tuple[int, ...]) -> None:
    assert clean_readings(READINGS, (), {1: ListedTransaction("app", 1, status)}) == {"app": expected}


def test_a_record_outweighs_the_listing() -> None:
    listed = {1: ListedTransaction("app", 1, ONGOING)}
    assert clean_readings(READINGS, changes((15, COMPLETE)), listed) == {"app": (1,)}


def test_an_id_that_is_completed_with_a_new_producer_id_is_one_and_the_same() -> None:
    rows = (TransactionChange(0, 5, "app", 1, 0, PREPARE), TransactionChange(0, 15, "app", 2, 0, COMPLETE))
    assert clean_readings(READINGS, rows, {}) == {"app": (1,)}
    assert list(transactional_ids(rows, {0: ListedTransaction("app", 0, ONGOING)})) == [0, 1, 2]


def test_a_log_that_was_not_looked_at_is_unknown() -> None:
    readings = (EndsReading(before={1: 5}, ends={ORDERS: 7}, after={0: 12, 1: 5}), READINGS[1])
    assert clean_readings(readings, changes((15, ONGOING)), {}) == {"app": (1,)}
    listed = {1: ListedTransaction("app", 1, ONGOING)}
    assert clean_readings(readings, (), listed) == {"app": ()}


def test_a_reading_without_the_end_of_a_partition_is_not_clean() -> None:
    later = EndsReading(before={0: 20}, ends={ORDERS: 7, PAID: 0}, after={0: 22})
    assert clean_readings((READINGS[0], later), changes((5, ONGOING)), {}) == {"app": (1,)}
