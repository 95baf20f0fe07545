"""Which commit listed which segments, by reading no more of the commit log than is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from offsite.repository.backup import Backup
from offsite.repository.commit import StoredCommit
from offsite.repository.commit_log import listed_by
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup, run_once

RUNS = 4


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    backup = new_backup(open_store(str(tmp_path)))
    for _ in range(RUNS):
        run_once(backup)
    return backup


def keys(backup: Backup) -> list[str]:
    """Of one partition, one segment from each commit."""
    return [segment.key for segment in backup.state().segments[PARTITIONS[0]]]


def noted(commits: Iterable[StoredCommit], read: list[int]) -> Iterator[StoredCommit]:
    for stored in commits:
        read.append(stored.commit.seq)
        yield stored


def test_each_segment_is_found_in_its_commit_from_either_end(backup: Backup) -> None:
    expected = {key: number for number, key in enumerate(keys(backup), 1)}
    assert listed_by(backup.log.read(after=0), keys(backup)) == expected
    assert listed_by(backup.log.read_back(upto=RUNS), keys(backup)) == expected
    assert listed_by(backup.log.read_back(upto=2), keys(backup)) == dict(list(expected.items())[:2])


def test_reading_ends_when_all_are_found(backup: Backup) -> None:
    read: list[int] = []
    listed_by(noted(backup.log.read(after=0), read), keys(backup)[:2])
    listed_by(noted(backup.log.read_back(upto=RUNS), read), keys(backup)[-1:])
    assert read == [1, 2, 4]
    assert listed_by(noted(backup.log.read(after=0), read), []) == {}
    assert len(read) == 3


def test_what_nobody_listed_is_left_out(backup: Backup) -> None:
    assert listed_by(backup.log.read(after=0), ["backups/b/none"]) == {}
