"""How the ranges of a plan are dealt out to workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.backup.copy import (
    BUNDLE_BYTES_MAX,
    RANGE_BYTES,
    SMALL_BYTES,
    SMALL_OFFSETS,
    BackupEnds,
    CopyBundle,
    bundle_copies,
    copy_bundle,
)
from offsite.backup.copy_plan import PARTITION_ERRORS, CopyTask
from offsite.engine.runner import Done, Failed
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.read_task import Item, ReadTask
from offsite.log.range import LogRange
from offsite.model.errors import LeaderUnavailable
from offsite.model.options import CompressionChoice
from offsite.repository.layout import BackupLayout
from offsite.stores.posix_store import open_folder


def task(number: int, size_bytes: int, *, offsets: int = 100) -> CopyTask:
    log_range = LogRange(topic="t", partition=number, start=0, end=offsets)
    return CopyTask(topic_id="", range=log_range, estimated_bytes=size_bytes)


def test_a_few_small_ranges_are_tasks_of_their_own() -> None:
    tasks = [task(n, 1000) for n in range(3)]
    bundles = bundle_copies(tasks, slots=2, packed_from=4)
    assert [(each.tasks, each.packed) for each in bundles] == [((each,), False) for each in tasks]


def test_many_small_ranges_share_objects_and_large_ones_come_first() -> None:
    tasks = [task(0, 1000), task(1, SMALL_BYTES), *(task(n, 1000) for n in range(2, 10))]
    bundles = bundle_copies(tasks, slots=2, packed_from=4)
    assert [(each.numbers, each.packed) for each in bundles] == [
        ((1,), False),
        ((0, 3, 5, 7, 9), True),
        ((2, 4, 6, 8), True),
    ]


def test_where_sizes_are_not_known_offsets_tell() -> None:
    tasks = [task(0, 0, offsets=SMALL_OFFSETS), *(task(n, 0) for n in range(1, 4))]
    assert [each.packed for each in bundle_copies(tasks, slots=1, packed_from=2)] == [False, True]


def test_one_small_range_is_never_packed_alone() -> None:
    (bundle,) = bundle_copies([task(0, 1000)], slots=4, packed_from=1)
    assert len(bundle.tasks) == 1
    assert all(len(each.tasks) > 1 for each in bundle_copies([task(n, 9) for n in range(5)], slots=8, packed_from=2))


def ends_at(folder: Path) -> BackupEnds:
    store = open_folder(folder / "repository")
    store.prepare()
    kafka = KafkaConfig(bootstrap=parse_bootstrap("127.0.0.1:1"))
    return BackupEnds(kafka=kafka, store=store, layout=BackupLayout(backup="b"), compression=CompressionChoice.NONE)


def test_a_broker_that_is_gone_is_not_waited_for_again_and_again(tmp_path: Path) -> None:
    tried: list[int] = []

    def read(task: ReadTask) -> Iterator[Item]:
        tried.append(task.range.partition)
        if task.range.partition in {1, 3}:
            raise LeaderUnavailable("gone", hint="")
        return iter(())

    tasks = tuple(task(number, 10) for number in range(6))
    bundle = CopyBundle(numbers=tuple(range(6)), tasks=tasks, packed=True)
    outcomes = copy_bundle(bundle, ends=ends_at(tmp_path), base=1, open_reads=lambda *_: read)
    assert tried == [0, 1, 2, 3]
    assert [isinstance(each, Failed) for each in outcomes] == [False, True, False, True, True, True]
    assert all(isinstance(each.error, PARTITION_ERRORS) for each in outcomes if isinstance(each, Failed))


def test_one_partition_that_does_not_answer_costs_no_other_one(tmp_path: Path) -> None:
    """However many of its ranges are in the bundle."""
    tried: list[int] = []

    def read(task: ReadTask) -> Iterator[Item]:
        tried.append(task.range.partition)
        if task.range.partition == 0:
            raise LeaderUnavailable("gone", hint="")
        return iter(())

    tasks = tuple(task(number, 10) for number in (0, 0, 0, 1))
    bundle = CopyBundle(numbers=(0, 1, 2, 3), tasks=tasks, packed=True)
    assert [
        isinstance(each, Done)
        for each in copy_bundle(bundle, ends=ends_at(tmp_path), base=1, open_reads=lambda *_: read)
    ][-1]
    assert tried == [0, 0, 0, 1]


sizes = st.lists(st.integers(0, 2 * SMALL_BYTES), max_size=300)


@given(sizes, st.integers(1, 8), st.integers(1, 100))
def test_each_range_is_in_one_bundle_at_its_number(given_sizes: list[int], slots: int, packed_from: int) -> None:
    tasks = [task(number, size) for number, size in enumerate(given_sizes)]
    bundles = bundle_copies(tasks, slots=slots, packed_from=packed_from)
    assert sorted(number for each in bundles for number in each.numbers) == list(range(len(tasks)))
    assert all(tasks[n] is found for each in bundles for n, found in zip(each.numbers, each.tasks, strict=True))


@given(st.integers(1, 4), st.integers(2, 4000))
def test_no_bundle_is_too_large(slots: int, count: int) -> None:
    for bundle in bundle_copies([task(n, SMALL_BYTES // 2) for n in range(count)], slots=slots, packed_from=2):
        weight_bytes = bundle.estimated_bytes + len(bundle.tasks) * RANGE_BYTES
        assert weight_bytes <= BUNDLE_BYTES_MAX + 2 * (SMALL_BYTES // 2 + RANGE_BYTES)


@pytest.mark.parametrize("slots", [1, 2, 8, 16])
def test_bundles_weigh_alike_wherever_the_larger_ranges_stand(slots: int) -> None:
    sizes = [*[2_000] * 2_000, *[SMALL_BYTES - 1] * 200, *[2_000] * 500]
    bundles = bundle_copies([task(n, size) for n, size in enumerate(sizes)], slots=slots, packed_from=2)
    weights = [each.estimated_bytes + len(each.tasks) * RANGE_BYTES for each in bundles]
    assert max(weights) <= BUNDLE_BYTES_MAX + 2 * SMALL_BYTES
    assert sum(weights) / len(weights) >= BUNDLE_BYTES_MAX * 0.9


def test_what_ends_first_is_the_beginning_of_each_partition() -> None:
    """Ranges of a plan go round the partitions: here fifty of each."""
    tasks = [task(number % 100, 1_000) for number in range(5_000)]
    bundles = bundle_copies(tasks, slots=2, packed_from=2)
    assert len(bundles) > 8
    half = [number for each in bundles[: len(bundles) // 2] for number in each.numbers]
    assert max(half) < 0.6 * len(tasks)
