"""The rules by which worlds are cut are those of the planners: both get the same partitions here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import pytest

from bench.at_scale.cutting import Tasks, backup_tasks, proof_tasks, restore_tasks
from bench.at_scale.worlds import GB, TB, World
from offsite.backup.copy import bundle_copies, is_small
from offsite.backup.copy_plan import PartitionBounds, plan_copy
from offsite.backup.plan import PACKED_FROM
from offsite.model.units import MIB
from offsite.restore.compare.partition import bundle_proofs as proof_bundled
from offsite.restore.write.bundle import bundle_restores as restore_bundled

SIZES = {
    "few": [(700 * MIB, 1), (20 * MIB, 3), (MIB, 5)],
    "many small ones": [(300 * MIB, 2), (3 * MIB, 700), (MIB, 900)],
    "only small ones": [(MIB, 100)],
    "only large ones": [(2_000 * MIB, 9), (150 * MIB, 40)],
    "larger tasks": [(3 * TB, 1), (TB, 17), (200 * MIB, 40), (MIB, 3)],
    "larger tasks and many small ones": [(9 * TB, 1), (300 * MIB, 10), (MIB, 100)],
    "just below and above what is small": [(4 * MIB, 70), (4 * MIB - 1, 70)],
}


@pytest.mark.parametrize("slots", [2, 16])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_backup_is_cut_as_the_planner_cuts_it(sizes: list[tuple[int, int]], slots: int) -> None:
    bounds = [
        PartitionBounds(topic="t", topic_id="i", partition=number, log_start=0, end=10**7, size_bytes=size)
        for number, size in enumerate(_each(sizes))
    ]
    plan = plan_copy(bounds, {}, slots=slots)
    bundles = bundle_copies(plan.tasks, slots=slots, packed_from=PACKED_FROM)

    found = backup_tasks(sizes, slots=slots)

    assert sum(each.number for each in found) == len(bundles)
    assert sum(size * number for size, number in _counted(found).items()) == sum(len(each.tasks) for each in bundles)
    small_bytes = sum(each.estimated_bytes for each in bundles if all(map(is_small, each.tasks)))
    assert sum(t.number * t.size_bytes for t in found if t.small) == pytest.approx(small_bytes, rel=0.001)
    large = Counter(each.estimated_bytes for each in bundles if len(each.tasks) == 1)
    assert large == sum((Counter({t.size_bytes: t.number}) for t in found if t.large + t.small == 1), Counter())


@pytest.mark.parametrize("slots", [2, 16])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_restore_and_its_proof_are_dealt_out_as_the_planners_do_it(sizes: list[tuple[int, int]], slots: int) -> None:
    tasks = [_Task(_Chain(size)) for size in _each(sizes)]

    restore = restore_bundled(tasks, slots=slots)  # type: ignore[arg-type]  # they look at sizes alone
    proof = proof_bundled(tasks, slots=slots)  # type: ignore[arg-type]

    found = restore_tasks(sizes, slots=slots)
    assert _counted(found) == Counter(len(each.tasks) for each in restore)
    assert _bytes(found) == sum(map(_size, chain.from_iterable(each.tasks for each in restore)))
    assert found[0].size_bytes == pytest.approx(sum(map(_size, restore[0].tasks)), rel=0.01)
    assert _counted(proof_tasks(sizes, slots=slots)) == Counter(len(each.tasks) for each in proof)


@pytest.mark.parametrize("partitions", [200, 5_000])
def test_a_world_has_the_bytes_and_partitions_that_it_says(partitions: int) -> None:
    world = World(name="w", log_bytes=50 * TB, partitions=partitions, largest_bytes=5 * TB, executors=1, brokers=1)
    sizes = world.sizes()

    assert sum(number for _, number in sizes) == partitions
    assert sum(size * number for size, number in sizes) == 50 * TB
    assert sizes[0][1] == 1
    for kind in (backup_tasks, restore_tasks, proof_tasks):
        assert _bytes(kind(sizes, slots=world.slots)) == pytest.approx(50 * TB, rel=1e-6)


def test_a_world_whose_largest_partition_is_not_the_largest_is_refused() -> None:
    with pytest.raises(ValueError, match="one of the others"):
        World(name="w", log_bytes=TB, partitions=200, largest_bytes=GB, executors=1, brokers=1).sizes()


def test_trains_are_the_tasks_that_they_are_made_of() -> None:
    trains = list(Tasks(number=10, size_bytes=7, large=1).trains(4))

    assert [each.number for each in trains] == [4, 4, 2]
    assert {(each.size_bytes, each.large) for each in trains} == {(7, 1)}


@dataclass(frozen=True)
class _Chain:
    raw_bytes: int

    @property
    def chain(self) -> _Chain:
        return self


@dataclass(frozen=True)
class _Task:
    partition: _Chain


def _size(task: object) -> int:
    assert isinstance(task, _Task)
    return task.partition.raw_bytes


def _each(sizes: list[tuple[int, int]]) -> Sequence[int]:
    return [size for size, number in sizes for _ in range(number)]


def _counted(tasks: Sequence[Tasks]) -> Counter[int]:
    """Tasks by the number of ranges or partitions in them."""
    return sum((Counter({each.large + each.small: each.number}) for each in tasks), Counter())


def _bytes(tasks: Sequence[Tasks]) -> int:
    return sum(each.number * each.size_bytes for each in tasks)
