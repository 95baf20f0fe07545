"""What others make of our archives: Spark reads Parquet as a table, Java's Avro reads with the old schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from offsite.archives.archive import ArchiveTopic
from offsite.archives.avro import PLAIN_SCHEMA, AvroWriter
from offsite.archives.parquet import ParquetReader, ParquetWriter
from offsite.stores.archive_files import ArchiveFolder
from tests.archive_records import export, odd_records, plain_records, read_all, write_range
from tests.own_session import own_session

AVRO_FILE = "topics/orders/partition=0/orders+0-00000000000000000000.data"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with own_session(settings={"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}) as session:
        yield session


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(root=tmp_path)


@pytest.mark.soak
def test_spark_reads_the_parquet_archive_as_rows_of_its_kafka_source(
    session: SparkSession, files: ArchiveFolder
) -> None:
    writer = ParquetWriter(files=files)
    writer.ends()
    written = [
        write_range(writer, odd_records(), start=0, end=1_000_001),
        write_range(writer, plain_records(0, 50), start=0, end=50, partition=1),
    ]
    writer.finish(written, [ArchiveTopic(topic="orders", partitions=2)], {})
    table = session.read.parquet(str(files.root))
    rows = (
        table.where("partition = 0")
        .selectExpr("*", "unix_millis(timestamp) AS ms")
        .drop("timestamp")
        .orderBy("offset")
        .collect()
    )
    assert dict(table.dtypes) == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
        "leaderEpoch": "int",
        "producerId": "bigint",
    }
    assert [
        (
            row.topic,
            row.offset,
            row.ms,
            row.timestampType,
            row.key,
            row.value,
            row.headers and [tuple(h) for h in row.headers],
        )
        for row in rows
    ] == [
        ("orders", r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, list(r.headers) or None)
        for r in odd_records()
    ]
    assert table.where("partition = 1").count() == 50


@pytest.mark.soak
def test_rows_that_spark_writes_come_in_as_an_archive(session: SparkSession, files: ArchiveFolder) -> None:
    export(ParquetWriter(files=files), odd_records(), start=0, end=1_000_001)
    rows = session.read.parquet(str(files.root)).drop("leaderEpoch", "producerId").coalesce(1)
    other = ArchiveFolder(root=files.root / "other")
    rows.orderBy("offset").write.partitionBy("topic", "partition").parquet(str(other.root))
    (piece,) = ParquetReader(files=other).contents().pieces
    assert (piece.topic, piece.partition, piece.start) == ("orders", 0, 0)
    assert read_all(ParquetReader(files=other)) == odd_records()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_javas_avro_reads_our_files_with_the_plain_schema(
    session: SparkSession, files: ArchiveFolder, codec: str, plain: bool
) -> None:
    records = odd_records()
    export(AvroWriter(files=files, codec=codec, plain=plain, lossy=True), records, start=0, end=1_000_001)
    found = _rows_in_java(session, files.root / AVRO_FILE)
    assert found == [(r.offset, r.timestamp_ms, r.key, r.value or b"") for r in records]


def _rows_in_java(session: SparkSession, path: Path) -> list[tuple[int, int, bytes | None, bytes]]:
    """What Avro's own Java library reads. The old schema has a default that its parser takes only when told to."""
    java = session.sparkContext._jvm
    assert java is not None
    avro = java.org.apache.avro
    schema = avro.Schema.Parser().setValidateDefaults(False).parse(json.dumps(PLAIN_SCHEMA))
    reader = avro.file.DataFileReader(java.java.io.File(str(path)), avro.generic.GenericDatumReader(None, schema))
    rows = []
    while reader.hasNext():
        row = reader.next()
        key = row.get("key")
        rows.append(
            (row.get("offset"), row.get("timestamp"), key and bytes(key.array()), bytes(row.get("value").array()))
        )
    reader.close()
    return rows
