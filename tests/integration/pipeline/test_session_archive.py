"""Executors without offsite: named when they get none, and at work when they get the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsite.engine.executor_archive import own_manifest, pack, read_manifest
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.errors import SparkFailed
from tests.shared_spark import end_shared_spark
from tests.spark_cluster import QUICK_JVMS, Cluster, bare_environment, spark_cluster

CONF = {**QUICK_JVMS, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
OWN_PYTHON = f"python{own_manifest().python}"

pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.timeout(300)]  # packing, and up to four JVMs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A worker of one core without offsite. (Three of them copy a topic in `docs/test_docs_run`, a long test.)"""
    end_shared_spark()
    folder = tmp_path_factory.mktemp("bare-cluster")
    with spark_cluster(folder, environments=[bare_environment(folder)]) as found:
        yield found


@pytest.mark.soak
def test_without_the_archive_an_executor_without_offsite_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", OWN_PYTHON)
    spark = SparkRunner(SparkChoice(master=cluster.url, conf=CONF))
    try:
        with pytest.raises(SparkFailed, match="the Python of an executor cannot import offsite") as raised:
            spark.run_all(list(range(4)), str)
    finally:
        spark.close()
    assert "offsite spark pack" in raised.value.hint


@pytest.mark.soak
def test_with_the_archive_a_worker_runs_the_archives_offsite(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "offsite.pex"
    made = pack(file, compress=False)  # seconds, not half a minute
    assert read_manifest(file) == own_manifest()
    assert made.file_bytes == file.stat().st_size

    spark = SparkRunner(SparkChoice(master=cluster.url, conf=CONF, archive=str(file)))
    try:
        places = set(spark.run(list(range(4)), _where()))
    finally:
        spark.close()

    assert {worker for worker, _ in places} == {str(folder) for folder in cluster.folders}
    assert all(Path(offsite).is_relative_to(worker) for worker, offsite in places)
    assert list(tmp_path.iterdir()) == [file]


def _where() -> Callable[[int], tuple[str, str]]:
    """Tells the folder of the worker, and where its offsite lies. It travels as it is: executors have no tests."""

    def where(_: int) -> tuple[str, str]:
        import pyarrow.parquet  # noqa: F401  # machine code

        import offsite.repository

        return str(Path.cwd().parents[2]), offsite.repository.__file__

    return where
