from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offsite.engine.bundles import Bundle
from offsite.points.point_in_time import PartitionChain
from offsite.restore.write.bundle import SMALL_BYTES, SMALL_MAX, TOGETHER_MAX, bundle_restores
from offsite.restore.write.plan import PartitionRestore
from offsite.restore.write.translate import RestoreTask
from tests.unit.restore.test_restore_plan import partition, segment


def task(number: int, size_bytes: int) -> RestoreTask:
    source = partition("t", number)
    held = replace(segment(source, 0, 10), raw_bytes=size_bytes)
    chain = PartitionChain(source=source, segments=(held,), end=10)
    return RestoreTask(partition=PartitionRestore.into("t", chain), target_start=0)


def is_large(bundle: Bundle[RestoreTask]) -> bool:
    return any(segment.raw_bytes >= SMALL_BYTES for each in bundle.tasks for segment in each.partition.chain.segments)


@given(st.lists(st.sampled_from([1, SMALL_BYTES - 1, SMALL_BYTES, 10**9]), max_size=300), st.integers(1, 16))
def test_each_task_is_in_one_bundle_and_no_slot_is_left_idle(sizes: list[int], slots: int) -> None:
    tasks = [task(number, size) for number, size in enumerate(sizes)]
    bundles = bundle_restores(tasks, slots=slots)
    assert sorted(number for each in bundles for number in each.numbers) == list(range(len(tasks)))
    assert all(each.tasks == tuple(tasks[number] for number in each.numbers) for each in bundles)
    assert len(bundles) >= min(slots, len(tasks))
    assert all(len(each.tasks) <= (TOGETHER_MAX if is_large(each) else SMALL_MAX) for each in bundles)


def test_large_ones_are_dealt_out_evenly() -> None:
    tasks = [task(number, 10**9) for number in range(8)]
    assert [each.numbers for each in bundle_restores(tasks, slots=2)] == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert [len(each.numbers) for each in bundle_restores(tasks[:3], slots=2)] == [2, 1]


def test_small_ones_are_many_in_a_bundle() -> None:
    tasks = [task(number, 100) for number in range(2_000)]
    bundles = bundle_restores(tasks, slots=2)
    assert len(bundles) == -(-2_000 // SMALL_MAX)
