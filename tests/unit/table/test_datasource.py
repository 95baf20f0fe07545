"""The table without Spark: which restore point it shows, fixed when it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import BadOption, DamagedCommit, NoSuchRestorePoint
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, CommitChanges
from offsite.stores.open_store import open_store
from offsite.table.datasource import SCHEMA, OffsiteDataSource
from tests.tables import ORDERS, USERS, batch_of, commit_batches, new_table

Row = tuple[str, int, int | None]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """Three commits of ten records each."""
    backup = new_table(open_store(str(tmp_path / "repository")))
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    return backup


def load(backup: Backup, **options: str) -> OffsiteDataSource:
    return OffsiteDataSource({"repo": backup.store.url, "backup": "b", **options})


def rows(table: OffsiteDataSource) -> list[Row]:
    """(topic, offset, commit) of each row."""
    reader = table.reader(SCHEMA)  # type: ignore[arg-type]
    found = [row for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist()]
    return [(row["topic"], row["offset"], row["commit"]) for row in found]


def damage_newest_commit(backup: Backup) -> None:
    Path(backup.store.url, backup.layout.commit_key(3)).write_bytes(b"{")


def test_each_row_tells_which_commit_listed_it(backup: Backup) -> None:
    assert rows(load(backup)) == [("orders", n, 1 + n // 10) for n in range(30)]
    assert rows(load(backup, withCommit="false", startingOffset="28")) == [("orders", n, None) for n in (28, 29)]


def test_the_latest_of_each_key_is_shown_as_of_the_point(backup: Backup) -> None:
    def batch(base: int, *records: tuple[bytes | None, bytes | None]) -> bytes:
        made = [Record(base + n, 1_700_000_000_000 + n, 0, key, value) for n, (key, value) in enumerate(records)]
        return bytes(encode(made))

    commit_batches(backup, {USERS: [batch(0, (b"a", b"1"), (b"b", b"1"), (None, b"x"), (b"c", b"1"))]})
    commit_batches(backup, {USERS: [batch(4, (b"a", b"2"), (b"c", None))]})
    users = {"topics": "users", "latest": "true"}
    assert rows(load(backup, **users)) == [("users", 1, 4), ("users", 2, 4), ("users", 4, 5)]
    assert rows(load(backup, **users, commit="4")) == [("users", n, 4) for n in range(4)]
    assert rows(load(backup, **users, startingOffset="2")) == [("users", 2, 4), ("users", 4, 5)]
    assert rows(load(backup, latest="true", topics="orders")) == [("orders", n, 1 + n // 10) for n in range(30)]


def test_a_stream_has_no_latest(backup: Backup) -> None:
    with pytest.raises(BadOption, match="latest"):
        load(backup, latest="true").streamReader(SCHEMA).initialOffset()  # type: ignore[arg-type]


def test_the_point_stays_what_it_was_when_the_table_was_loaded(backup: Backup) -> None:
    table, by_time = load(backup), load(backup, asOf="0s-ago")
    commit_batches(backup, {ORDERS: [batch_of(30, 10)]})
    assert len(rows(table)) == len(rows(by_time)) == 30


def test_an_empty_backup_is_read_as_of_the_first_query(tmp_path: Path) -> None:
    backup = new_table(open_store(str(tmp_path / "new")))
    table = load(backup)
    with pytest.raises(NoSuchRestorePoint):
        rows(table)
    commit_batches(backup, {USERS: [batch_of(0, 1)]})
    assert rows(table) == [("users", 0, 1)]


def test_a_checkpoint_ends_partitions_where_it_was_taken(backup: Backup) -> None:
    commit_batches(backup, {USERS: [batch_of(0, 5)]})
    backup.commit(
        CommitChanges(checkpoint=Checkpoint(id=7, taken_at_ms=1, ends=((ORDERS, 12),))), base=backup.state(), writer="w"
    )
    assert rows(load(backup, checkpoint="7")) == [("orders", n, 1 + n // 10) for n in range(12)]
    with pytest.raises(NoSuchRestorePoint, match="no checkpoint 8"):
        load(backup, checkpoint="8")


def test_a_restore_point_that_is_none_is_refused_when_the_table_is_loaded(backup: Backup) -> None:
    for options in ({"commit": "4"}, {"asOf": "2001-01-01"}):
        with pytest.raises(NoSuchRestorePoint):
            load(backup, **options)


def test_damage_behind_what_is_read_is_passed_over_only_where_a_commit_is_named(backup: Backup) -> None:
    loaded = load(backup, commit="2")
    damage_newest_commit(backup)
    for options in ({}, {"asOf": "0s-ago"}, {"at": "0s-ago"}):
        with pytest.raises(DamagedCommit, match="option commit reads up to 2"):
            load(backup, **options)
    assert [offset for _, offset, _ in rows(load(backup, commit="2"))] == list(range(20))
    assert [offset for _, offset, _ in rows(loaded)] == list(range(20))
    with pytest.raises(DamagedCommit):
        load(backup, commit="3")


def test_a_partition_that_no_topic_has_holds_no_rows(backup: Backup) -> None:
    assert rows(load(backup, partitions="orders:9")) == []
