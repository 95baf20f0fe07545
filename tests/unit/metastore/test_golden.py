"""Files that were released are read for ever: one of format 1, and one as ksqlDB writes them."""

from __future__ import annotations

from pathlib import Path

from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsite.metastore.backup_file import load
from offsite.metastore.folder import topic_of_service
from offsite.metastore.reading import UNKNOWN
from offsite.metastore.stored_command import Header

GOLDEN = Path(__file__).parents[2] / "golden" / "metastore-1"
TOPIC = topic_of_service("golden")
STATEMENT = (
    b"{\"statement\":\"CREATE STREAM TEST1(ID INT) WITH(KAFKA_TOPIC='test1', VALUE_FORMAT='JSON');\","
    b'"streamsProperties":{},"originalProperties":{},"plan":null,"version":18}'
)


def test_a_file_of_format_1() -> None:
    read = load(GOLDEN / f"{TOPIC}_1700000000.bak")
    assert read.problems == []
    assert read.header == Header(
        topic=TOPIC,
        cluster_id="golden-cluster",
        topic_id="11111111-2222-3333-4444-555555555555",
        created_at_ms=1_700_000_000_000,
        created_by="0.1.0",
        replication_factor=3,
    )
    headers = (("h", b"1"), ("none", None))
    assert [each.record for each in read.commands] == [
        Record(0, 1_700_000_000_000, CREATE_TIME, b'"stream/`TEST1`/create"', STATEMENT, headers),
        Record(2, 1_700_000_000_001, CREATE_TIME, b'"stream/`a:b`/create"', b'{"statement":"CREATE STREAM `a:b`;"}'),
        Record(4, 1_700_000_000_002, LOG_APPEND_TIME, b'"stream/`TEST1`/drop"', None),
        Record(7, 1_700_000_000_003, CREATE_TIME, b"\xff", b"\x00not text"),
        Record(8, -1, CREATE_TIME, b'"table/`T`/create"', b'{\n "statement": "CREATE TABLE T;"\n}'),
    ]


def test_a_file_of_ksqldb() -> None:
    read = load(GOLDEN / f"backup_{TOPIC}_1600000000000")
    assert (read.problems, read.header) == ([], None)
    assert [(each.line, each.record) for each in read.commands] == [
        (1, Record(UNKNOWN, UNKNOWN, CREATE_TIME, b'"stream/`TEST1`/create"', b'{"statement":"x"}')),
        (2, Record(UNKNOWN, UNKNOWN, CREATE_TIME, b'"stream/`a:b`/create"', b'{"statement":"y"}')),
    ]
