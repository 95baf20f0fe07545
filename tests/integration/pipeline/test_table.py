"""A backup as a table and as a stream, in a Spark session of the user's own: nothing registered, no setting made."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.log.records.record_arrow import arrow_schema
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from tests.batches import FIRST_TIME_MS
from tests.own_session import SMALL_TABLES, own_session
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store
from tests.tables import ORDERS, ORDERS_1, USERS, batch_of, commit_batches, new_table

KAFKA_SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int,"
    " headers array<struct<key:string,value:binary>>"
)
"""What Spark's documentation says of its own source."""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with own_session(settings=SMALL_TABLES) as session:
            yield session


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Two commits of 20 records in each of three partitions."""
    backup = new_table(open_store(str(tmp_path_factory.mktemp("table") / "repository")))
    for base in (0, 20):
        commit_batches(backup, {p: [batch_of(base, 20)] for p in (ORDERS, ORDERS_1, USERS)})
    return backup


def table(session: SparkSession, backup: Backup, **options: str) -> DataFrame:
    place = {"repo": backup.store.url, "backup": "b"}
    return session.read.format("offsite").options(**place, **options).load()


def test_its_columns_are_those_of_spark_s_kafka_source_and_the_commit(session: SparkSession, backup: Backup) -> None:
    loaded = table(session, backup)
    expected = StructType.fromDDL(KAFKA_SOURCE + ", commit bigint")
    assert loaded.schema == expected
    assert arrow_schema() == to_arrow_schema(expected, timezone="UTC")


def test_every_row_is_there_with_all_that_kafka_knew(session: SparkSession, tmp_path: Path) -> None:
    backup = new_table(open_store(str(tmp_path / "repository")))
    headers = (("trace", b"\x00\xff"), ("trace", None), ("bad\udcff", b""))
    records = [Record(3, FIRST_TIME_MS + 1, 0, None, b"", headers), Record(7, -1, 0, b"\x00", None)]
    commit_batches(backup, {ORDERS: [bytes(encode(records))]})
    first, second = table(session, backup).collect()
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (None, b"", "orders", 0, 3)
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=FIRST_TIME_MS + 1)
    assert [tuple(header) for header in first.headers] == [("trace", b"\x00\xff"), ("trace", None), ("bad\ufffd", b"")]
    assert (first.timestampType, first.commit) == (0, 1)
    assert (second.key, second.value, second.headers) == (b"\x00", None, None)
    assert second.timestamp.astimezone(UTC) == datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1)


@pytest.mark.soak
def test_workers_read_from_a_bucket_with_the_credentials_of_their_environment(session: SparkSession) -> None:
    with moto_server() as endpoint:
        backup = new_table(new_s3_store(endpoint))
        commit_batches(backup, {ORDERS: [batch_of(0, 5)]})
        place = {"repo": f"{backup.store.url}?endpoint={endpoint}", "backup": "b"}
        assert session.read.format("offsite").options(**place).load().count() == 5


def test_commits_topics_and_points_choose_rows(session: SparkSession, backup: Backup) -> None:
    assert Counter(row.commit for row in table(session, backup).collect()) == {1: 60, 2: 60}
    until = f"{datetime.fromtimestamp(FIRST_TIME_MS / 1000 + 0.0045, UTC).isoformat()}"
    narrowed = table(session, backup, topics="orders", partitions="orders:1", at=until, startingOffset="2")
    assert [row.offset for row in narrowed.collect()] == [2, 3, 4]
    assert table(session, backup, commit="1").count() == 60


def test_a_loaded_table_stays_as_it_was_when_the_backup_grows(session: SparkSession, tmp_path: Path) -> None:
    backup = new_table(open_store(str(tmp_path / "repository")))
    commit_batches(backup, {ORDERS: [batch_of(0, 5)]})
    loaded = table(session, backup)
    commit_batches(backup, {ORDERS: [batch_of(5, 5)]})
    assert (loaded.count(), table(session, backup).count()) == (5, 10)


def test_one_table_can_be_asked_many_things(session: SparkSession, backup: Backup) -> None:
    """Spark's own pushdown would give the second and third the rows of the first."""
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    loaded = table(session, backup)
    try:
        assert loaded.where("offset < 5").count() == 15
        assert loaded.count() == 120
        both = loaded.where("offset < 5").union(loaded.where("offset >= 35"))
        assert Counter(row.offset for row in both.collect()) == Counter([*range(5), *range(35, 40)] * 3)
    finally:
        session.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_reach_the_table_where_that_is_asked_for(session: SparkSession, backup: Backup) -> None:
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        wanted = table(session, backup, pushdown="true").where("topic = 'orders' and partition = 1 and offset >= 38")
        assert [row.offset for row in wanted.collect()] == [38, 39]
        assert wanted.rdd.getNumPartitions() == 1  # of three
    finally:
        session.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_cannot_be_loaded_says_why(session: SparkSession, backup: Backup) -> None:
    with pytest.raises(Exception, match="no option 'topic'"):
        table(session, backup, topic="orders")
    with pytest.raises(Exception, match="has no commit 9"):
        table(session, backup, commit="9").count()


def test_a_stream_goes_on_where_it_was_without_loss_or_doubles(session: SparkSession, tmp_path: Path) -> None:
    backup = new_table(open_store(str(tmp_path / "repository")))
    commit_batches(backup, {ORDERS: [batch_of(0, 5)]})
    assert streamed(session, backup, tmp_path) == Counter((n, 1) for n in range(5))
    commit_batches(backup, {ORDERS: [batch_of(5, 5)]})
    commit_batches(backup, {ORDERS: [batch_of(10, 5)]})
    assert streamed(session, backup, tmp_path) == Counter((n, 1 + n // 5) for n in range(15))
    assert streamed(session, backup, tmp_path) == Counter((n, 1 + n // 5) for n in range(15))


def streamed(session: SparkSession, backup: Backup, folder: Path) -> Counter[tuple[int, int]]:
    """(offset, commit) of all rows so far, after a query over all that is there, from its checkpoint on."""
    place = {"repo": backup.store.url, "backup": "b"}
    rows = session.readStream.format("offsite").options(**place).load().select("offset", "commit")
    sink = rows.writeStream.format("json").option("checkpointLocation", str(folder / "checkpoint"))
    query = sink.option("path", str(folder / "out")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    lines = [line for file in (folder / "out").glob("*.json") for line in file.read_text().splitlines()]
    return Counter((row["offset"], row["commit"]) for row in map(json.loads, lines))
