"""A topic without an id goes on only where it still holds the batch that was backed up last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.backup.copy_plan import PartitionBounds
from offsite.backup.log_truncation import find_recreated
from offsite.log.batch import BatchHeader, scan
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import TopicReplaced
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, TopicShape
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from tests.backups import new_backup, write_segment
from tests.batches import make_batch

WHERE = PartitionId(topic="orders", topic_id="", partition=0)
SHAPE = TopicShape(topic="orders", topic_id="", partitions=1, replication_factor=1)
BOUNDS = PartitionBounds(topic="orders", topic_id="", partition=0, log_start=0, end=90, size_bytes=0)


class FakeAdmin:
    """A log in which one batch holds every offset that is asked for."""

    def __init__(self, batch: bytes | None) -> None:
        self.asked: list[int] = []
        self._batch = batch

    def batch_at(self, _: TopicPartition, offset: int) -> BatchHeader | None:
        self.asked.append(offset)
        return None if self._batch is None else scan(self._batch)[0]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_backup(open_folder(tmp_path / "repository"))


def backed_up(backup: Backup) -> BackupState:
    """To offset 40, the last batch at 30."""
    segment = write_segment(backup.store, backup, WHERE, 0, 40)
    position = Position(partition_id=WHERE, log_start=0, end=40)
    changes = CommitChanges(segments=(segment,), positions=(position,), topics=(SHAPE,))
    return backup.commit(changes, base=backup.state(), writer="w")


def found(backup: Backup, batch: bytes | None, bounds: PartitionBounds = BOUNDS) -> tuple[list[str], list[int]]:
    admin: Any = FakeAdmin(batch)
    sick = find_recreated(admin, backup.store, backed_up(backup), [bounds])
    return [each.error.id for each in sick], admin.asked


def test_a_log_that_holds_the_last_batch_goes_on(backup: Backup) -> None:
    assert found(backup, make_batch(30)) == ([], [39])


@pytest.mark.parametrize("batch", [make_batch(30, value=b"another"), make_batch(39, records=1), None])
def test_a_log_that_holds_something_else_there_is_another_one(backup: Backup, batch: bytes | None) -> None:
    assert found(backup, batch) == ([TopicReplaced.id], [39])


@pytest.mark.parametrize(
    "bounds",
    [replace(BOUNDS, end=40), replace(BOUNDS, log_start=60), replace(BOUNDS, was_compacted=True)],
    ids=["no news", "expired", "compacted"],
)
def test_nothing_is_asked_where_it_would_tell_nothing(backup: Backup, bounds: PartitionBounds) -> None:
    assert found(backup, None, bounds) == ([], [])
