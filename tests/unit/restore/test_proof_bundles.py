from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.engine.bundles import Bundle
from offsite.engine.runner import Done, Failed
from offsite.kafka.net.backoff import SILENT_MAX
from offsite.log.range import LogRange, TopicPartition
from offsite.model.errors import DamagedBatch, LeaderUnavailable, OffsiteError
from offsite.points.point_in_time import PartitionChain
from offsite.restore.compare import partition as bundles_module
from offsite.restore.compare.partition import (
    SMALL_BYTES,
    SMALL_MAX,
    ProofTask,
    bundle_proofs,
    empty_proof,
    prove_bundle,
)
from offsite.restore.compare.records import PartitionProof
from tests.unit.restore.test_restore_plan import partition, segment

ENDS: Any = SimpleNamespace(kafka=None)


class Leaders:
    """A router that knows leaders and asks nobody: partitions go round `count` of them."""

    def __init__(self, count: int) -> None:
        self._count = count

    def leader(self, where: TopicPartition) -> SimpleNamespace:
        return SimpleNamespace(node_id=where.partition % self._count)


def task(number: int, size_bytes: int = 1) -> ProofTask:
    source = partition("t", number)
    held = replace(segment(source, 0, 10), raw_bytes=size_bytes)
    chain = PartitionChain(source=source, segments=(held,), end=10)
    where = LogRange(topic="t", partition=number, start=0, end=10)
    return ProofTask(partition=chain, target=where, read_committed=False, offsets=True, compacted=False)


def proven(
    monkeypatch: pytest.MonkeyPatch, failing: dict[int, Exception], count: int, *, leaders: int = 1
) -> list[Any]:
    """The outcomes of a bundle of `count` partitions, some of which raise."""

    def prove(each: ProofTask, *, ends: object) -> PartitionProof:
        if each.target.partition in failing:
            raise failing[each.target.partition]
        return empty_proof(each.target)

    monkeypatch.setattr(bundles_module, "prove_partition", prove)
    monkeypatch.setattr(bundles_module, "shared_router", lambda _: Leaders(leaders))
    tasks = tuple(map(task, range(count)))
    return list(prove_bundle(Bundle(numbers=tuple(range(count)), tasks=tasks), ends=ENDS))


def errors(outcomes: list[Any]) -> list[OffsiteError | None]:
    return [each.error if isinstance(each, Failed) else None for each in outcomes]


@given(st.lists(st.sampled_from([1, SMALL_BYTES - 1, SMALL_BYTES, 10**9]), max_size=300), st.integers(1, 16))
def test_each_task_is_in_one_bundle_and_large_ones_are_alone(sizes: list[int], slots: int) -> None:
    tasks = [task(number, size) for number, size in enumerate(sizes)]
    bundles = bundle_proofs(tasks, slots=slots)
    assert sorted(number for each in bundles for number in each.numbers) == list(range(len(tasks)))
    assert all(each.tasks == tuple(tasks[number] for number in each.numbers) for each in bundles)
    assert len(bundles) >= min(slots, len(tasks))
    assert all(0 < len(each.tasks) <= SMALL_MAX for each in bundles)
    for each in bundles:
        assert len(each.tasks) == 1 or all(sizes[number] < SMALL_BYTES for number in each.numbers)


def test_one_that_cannot_be_compared_spares_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = DamagedBatch("no")
    outcomes = proven(monkeypatch, {1: damaged, 2: ValueError("not ours")}, 4)
    assert [isinstance(each, Done) for each in outcomes] == [True, False, False, True]
    assert errors(outcomes)[1] is damaged
    assert "ValueError" in str(errors(outcomes)[2])


def test_a_broker_that_is_away_is_waited_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    away = {number: LeaderUnavailable(f"away {number}") for number in range(10)}
    told = [str(each) for each in errors(proven(monkeypatch, dict(away), 10))]
    assert all("away" in each for each in told[:SILENT_MAX])
    assert all("was not tried" in each for each in told[SILENT_MAX:])


def test_partitions_of_other_leaders_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    away = {number: LeaderUnavailable(f"away {number}") for number in range(0, 12, 3)}
    outcomes = proven(monkeypatch, dict(away), 12, leaders=3)
    assert [isinstance(each, Done) for each in outcomes] == [bool(number % 3) for number in range(12)]
    assert [each.tried for each in outcomes if isinstance(each, Failed)] == [True, True, False, False]


def test_an_error_of_one_that_is_alone_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LeaderUnavailable):
        proven(monkeypatch, {0: LeaderUnavailable("away")}, 1)
