"""`import offsite`: what a program can do, on a real cluster, with a Spark of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import offsite
from offsite.demo.data import compare_readings, read_topic
from offsite.model.errors import BackupNotFound, BadOption, RepositoryExists
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.site import produce_to
from tests.integration.e2e.test_proof import messages
from tests.integration.kafka.cluster import Cluster
from tests.own_session import SMALL_TABLES, own_session


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # Spark would take any python3 of the PATH
    with own_session(settings=SMALL_TABLES) as session:
        yield session


@pytest.mark.soak
def test_a_program_backs_up_looks_and_restores_on_its_own_spark(
    broker: SandboxInfo, tmp_path: Path, spark: SparkSession
) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic(partitions=2)
    produce_to(cluster.bootstrap, topic, messages(40))
    repo = offsite.init(str(tmp_path / "repo"), spark=spark)
    result = repo.back_up("orders", bootstrap=cluster.bootstrap, topics=[topic])
    backup = offsite.open(repo.url, spark=spark).backup("orders")
    assert [point.records for point in backup.restore_points()] == [result.records] == [40]
    assert backup.detail().topics[0].topic == topic
    assert backup.verify(deep=True).ok
    words = {"bootstrap": cluster.bootstrap, "rename": [f"{topic}={topic}-again"]}
    assert backup.plan_restore(**words).records == 40  # type: ignore[arg-type]
    restored = backup.restore(**words)  # type: ignore[arg-type]
    assert restored.verified
    again = read_topic(cluster.bootstrap, f"{topic}-again")
    assert compare_readings(topic, read_topic(cluster.bootstrap, topic), again).identical
    table = backup.to_df(spark, topics=[topic], startingOffset=5)
    assert table.where("value is not null").count() == 35
    exported = backup.export(str(tmp_path / "archive"), format="kafka-backup", topics=[topic])
    imported = repo.import_archive(exported.archive, format="kafka-backup", backup="from-archive")
    assert exported.records == imported.records == 40
    assert spark.range(3).count() == 3, "their Spark still works"


def test_what_a_program_asks_wrongly_is_an_error_of_the_same_tree(tmp_path: Path) -> None:
    repo = offsite.init(str(tmp_path / "repo"))
    assert repo.backups() == ()
    assert not repo.status().safe
    with pytest.raises(RepositoryExists):
        offsite.init(repo.url)
    with pytest.raises(BackupNotFound):
        repo.backup("orders")
    with pytest.raises(BadOption):
        repo.back_up("orders", bootstrap="127.0.0.1:1", topics=["regex:("])
