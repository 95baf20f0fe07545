"""A cut of 2,000 partitions with 10,000 transactions in the window: seconds would hold up every commit."""

from __future__ import annotations

import time
from itertools import pairwise
from random import Random

import pytest

from offsite.cut.greatest import greatest_cut
from offsite.cut.window import GroupCommit, SpanOutcome, TransactionSpan, Window, WrittenRange
from offsite.log.range import PartitionId
from tests.cut_judge import group_violations, violations

PARTITIONS = [PartitionId(f"topic-{number // 20}", "id", number) for number in range(2_000)]
TRANSACTIONS = 10_000
BUSY_MAX_S = 5.0
"""The bar is 2 s on a quiet machine."""


def exactly_once(rng: Random) -> tuple[dict[PartitionId, int], Window]:
    """Transactions over ten partitions each, which read what others wrote. One in 300 lacks a marker."""
    ends = dict.fromkeys(PARTITIONS, 0)
    found = []
    for number in range(TRANSACTIONS):
        parts = rng.sample(PARTITIONS, 10)
        source, log = rng.choice(PARTITIONS), parts[0]
        read = GroupCommit(
            group=f"group-{number}",
            partition=source,
            offset=ends[source],
            log=log,
            position=ends[log],
            exactly_once=True,
        )
        is_whole = rng.random() > 1 / 300
        written = {
            each: WrittenRange(ends[each], ends[each] + 4, ends[each] + 5 if is_whole else None) for each in parts
        }
        ends.update({each: ends[each] + 6 for each in parts})
        outcome = SpanOutcome.COMMIT if is_whole else SpanOutcome.OPEN
        found.append(TransactionSpan(producer_id=number, epoch=0, written=written, outcome=outcome, reads=(read,)))
    return ends, Window(transactions=tuple(found))


def one_chain(rng: Random) -> tuple[dict[PartitionId, int], Window]:
    """The worst for a search in rounds: each transaction falls with the one behind it, and the list is the wrong way
    round."""
    ends = dict.fromkeys(PARTITIONS, 0)
    found = []
    places = [PARTITIONS[number % len(PARTITIONS)] for number in range(TRANSACTIONS + 1)]
    for number, parts in enumerate(pairwise(places)):
        written = {each: WrittenRange(ends[each], ends[each], ends[each] + 10) for each in parts}
        ends.update({each: ends[each] + 1 for each in parts})
        found.append(TransactionSpan(producer_id=number, epoch=0, written=written, outcome=SpanOutcome.COMMIT))
    rng.shuffle(found)
    return {each: end + 8 for each, end in ends.items()}, Window(transactions=tuple(found))


@pytest.mark.parametrize("workload", [exactly_once, one_chain])
def test_a_large_window_takes_less_than_seconds(workload: object) -> None:
    ends, window = workload(Random(7))  # type: ignore[operator]
    started = time.thread_time()  # others may have the processor meanwhile
    cut = greatest_cut(ends, window)
    took_s = time.thread_time() - started
    print(f"{len(cut.left_out):,} left out of {TRANSACTIONS:,}, in {took_s:.2f} s")  # noqa: T201
    left_out = [each.span for each in cut.left_out]
    assert took_s < BUSY_MAX_S
    assert len(left_out) > 1_000
    assert cut.ends == ends
    assert not list(violations(cut.ends, left_out, window))
    assert not list(group_violations(cut.ends, left_out, cut.groups, window))


def test_producers_that_always_overlap_lose_only_what_is_near_the_ends() -> None:
    """Thirty workers on ten partitions and one log of offsets, each with a transaction open all the time."""
    rng, ends = Random(7), dict.fromkeys(PARTITIONS[:10], 0)
    log, found = PARTITIONS[0], []
    running: dict[int, dict[PartitionId, int]] = {worker: {} for worker in range(30)}
    numbers = dict.fromkeys(running, 0)
    for _ in range(3_000):
        worker = rng.randrange(30)
        if firsts := running[worker]:
            found.append(ended(worker, numbers[worker], firsts, ends, log))
            numbers[worker] += 1
        running[worker] = {}
        for partition in {log, *rng.sample(PARTITIONS[:10], 3)}:
            running[worker][partition] = ends[partition]
            ends[partition] += 1
    for worker, firsts in running.items():
        written = {partition: WrittenRange(first, first, None) for partition, first in firsts.items()}
        span = TransactionSpan(
            producer_id=worker, number=numbers[worker], epoch=0, written=written, outcome=SpanOutcome.OPEN
        )
        found.append(span)
    cut = greatest_cut(ends, Window(transactions=tuple(found)))
    assert cut.ends == ends
    assert [each.span.outcome for each in cut.left_out] == [SpanOutcome.OPEN] * 30
    early = greatest_cut({**ends, log: ends[log] - 10}, Window(transactions=tuple(found)))
    print(f"{len(early.left_out)} of {len(found):,} left out with an end read early")  # noqa: T201
    assert 30 < len(early.left_out) < 60


def ended(
    worker: int, number: int, firsts: dict[PartitionId, int], ends: dict[PartitionId, int], log: PartitionId
) -> TransactionSpan:
    written = {partition: WrittenRange(first, first, ends[partition]) for partition, first in firsts.items()}
    ends.update({partition: ends[partition] + 1 for partition in firsts})
    source = PartitionId("input", "id", worker)
    read = GroupCommit(group="app", partition=source, offset=number, log=log, position=firsts[log], exactly_once=True)
    return TransactionSpan(
        producer_id=worker, number=number, epoch=0, written=written, outcome=SpanOutcome.COMMIT, reads=(read,)
    )
