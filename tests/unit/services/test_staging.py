from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.model.selection import TopicSelection
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.services.staging import Staging, open_staging, staging_copies

EVERYTHING = TopicSelection(include=("*",))
DAY_MS = 24 * 3_600_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(staging: Staging) -> None:
    staging.repository.create_backup(staging.backup, cluster_id="", selection=EVERYTHING)


def test_the_same_archive_finds_its_copy_again_and_another_does_not() -> None:
    first = open_staging(None, format_name="avro", archive="/a")
    fill(first)
    again = open_staging(None, format_name="avro", archive="/a")
    assert again.repository.backups() == (first.backup,)
    for format_name, archive in (("avro", "/b"), ("jsonl", "/a")):
        assert open_staging(None, format_name=format_name, archive=archive).place != first.place


def test_a_copy_of_ones_own_is_removed_with_its_repository(cache: Path) -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    fill(staging)
    staging.remove()
    assert list((cache / "offsite" / "staging").iterdir()) == []


def test_in_a_repository_that_was_given_only_the_copy_is_removed(tmp_path: Path) -> None:
    place = str(tmp_path / "repository")
    mine = Repository.init(open_store(place))
    mine.create_backup("nightly", cluster_id="c", selection=EVERYTHING)
    staging = open_staging(place, format_name="avro", archive="/a")
    fill(staging)
    assert mine.backups() == ("nightly", staging.backup)
    staging.remove()
    assert mine.backups() == ("nightly",)


def test_copies_that_nobody_adds_to_are_found_in_the_repository_and_in_the_cache(tmp_path: Path, cache: Path) -> None:
    place = tmp_path / "repository"
    mine = Repository.init(open_store(str(place)))
    mine.create_backup("nightly", cluster_id="c", selection=EVERYTHING)
    given, own = (open_staging(where, format_name="avro", archive="/a") for where in (str(place), None))
    fill(given)
    fill(own)
    assert list(staging_copies(mine, quiet_for_ms=DAY_MS)) == []
    for path in (*place.rglob("*"), *cache.rglob("*")):
        os.utime(path, (0, path.stat().st_mtime - 2 * DAY_MS / 1000))
    assert own.folder is not None
    places = [copy for copy, _ in staging_copies(mine, quiet_for_ms=DAY_MS)]
    assert places == [f"{place}/backups/{given.backup}/", str(own.folder)]


def test_a_cache_that_is_not_there_holds_no_copies(tmp_path: Path) -> None:
    mine = Repository.init(open_store(str(tmp_path / "repository")))
    assert list(staging_copies(mine, quiet_for_ms=DAY_MS)) == []
