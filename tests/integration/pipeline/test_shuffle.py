"""A shuffle on a real Spark: what is found in all tasks comes to the task that it is sent to, whatever fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from offsite.engine import job
from offsite.engine.runner import Done, Failed, Runner, Shuffle
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.errors import DamagedBatch, ExecutorDiffers, SparkFailed
from tests import spark_tasks
from tests.shared_spark import end_shared_spark

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    end_shared_spark()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        spark = SparkRunner(SparkChoice(master="local[2,4]"))
        try:
            spark.begin()
            yield spark
        finally:
            spark.close()


def shuffle(folder: Path, *, broken: int = -1, damaged: int = -1) -> Shuffle[int, object, object]:
    return Shuffle(
        buckets=3,
        find=partial(spark_tasks.find_numbers, folder=folder, broken=broken, damaged=damaged),
        send=spark_tasks.send_largest,
        give_up=spark_tasks.give_up,
    )


def test_the_last_of_each_key_comes_to_the_task_that_holds_it(runner: Runner, tmp_path: Path) -> None:
    done = runner.run_shuffled(list(range(6)), spark_tasks.collect_sent, shuffle(tmp_path))
    assert done[:-1] == [Done(value=(task, [])) for task in range(5)]
    assert done[-1] == Done(value=(5, list(range(593, 600))))


def test_what_may_be_cured_is_tried_again(runner: Runner, tmp_path: Path) -> None:
    done = runner.run_shuffled(list(range(3)), spark_tasks.collect_sent, shuffle(tmp_path, broken=1))
    assert done[-1] == Done(value=(2, list(range(293, 300))))
    assert len(list(tmp_path.iterdir())) == 1


def test_what_lasts_goes_to_whom_it_concerns(runner: Runner, tmp_path: Path) -> None:
    done = runner.run_shuffled(list(range(3)), spark_tasks.collect_sent, shuffle(tmp_path, damaged=1))
    (failed,) = [each for each in done if isinstance(each, Failed)]
    assert isinstance(failed.error, DamagedBatch)
    assert done.index(failed) == 1


def test_a_worker_that_always_dies_ends_the_shuffle(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(SparkFailed):
        runner.run_shuffled(list(range(3)), spark_tasks.collect_sent, replace(shuffle(tmp_path), find=spark_tasks.die))
    assert runner.run([1], spark_tasks.double) == [2]


def test_workers_with_another_offsite_find_nothing(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "__version__", "0.0.1")  # the driver's; workers have what is installed
    with pytest.raises(ExecutorDiffers, match=r"has offsite .*, and this one is 0\.0\.1$"):
        runner.run_shuffled(list(range(3)), spark_tasks.collect_sent, shuffle(tmp_path, broken=1))
    assert list(tmp_path.iterdir()) == []


def test_a_runner_goes_on_behind_a_shuffle(runner: Runner, tmp_path: Path) -> None:
    runner.run_shuffled([1], spark_tasks.collect_sent, shuffle(tmp_path))
    assert runner.run([1, 2], spark_tasks.double) == [2, 4]
