from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, RestoreRunning, RestoreTakenOver
from offsite.model.selections.selection import TopicSelection
from offsite.repository.repository import Repository
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.archives.staging import (
    Staging,
    dead_copies,
    open_staging,
    remove_dead_copy,
    staging_copies,
)
from offsite.stores.open_store import open_store

EVERYTHING = TopicSelection(include=("*",))
DAY_MS = 24 * 3_600_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def fill(staging: Staging) -> None:
    staging.repository.create_backup(staging.backup, cluster_id="", selection=EVERYTHING)


def test_the_same_archive_finds_its_copy_again_and_another_does_not() -> None:
    first = open_staging(None, format_name="avro", archive="/a")
    fill(first)
    again = open_staging(None, format_name="avro", archive="/a")
    assert again.repository.backups() == (first.backup,)
    for format_name, archive in (("avro", "/b"), ("jsonl", "/a")):
        assert open_staging(None, format_name=format_name, archive=archive).place != first.place


def test_copies_are_below_a_folder_for_their_owner_alone() -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    assert staging.folder is not None
    assert staging.folder.parent.stat().st_mode & 0o077 == 0


def test_a_copy_of_ones_own_is_removed_with_its_repository(cache: Path) -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    fill(staging)
    with staging.in_hand() as held:
        staging.remove(held)
    assert list((cache / "offsite" / "staging").iterdir()) == []


def test_two_restores_of_one_archive_have_a_copy_each_and_one_command_has_one(tmp_path: Path) -> None:
    for place in (None, str(tmp_path / "repository")):
        one, two = (open_staging(place, format_name="avro", archive="/a", purpose=each) for each in ("one", "two"))
        assert one.backup != two.backup
        with one.in_hand(), two.in_hand() as held:
            fill(one)
            fill(two)
            with pytest.raises(RestoreRunning, match=one.backup), one.in_hand():
                pass
            two.remove(held)
            assert one.backup in one.repository.backups()
        again = open_staging(place, format_name="avro", archive="/a", purpose="one")
        with again.in_hand():
            assert again.backup in again.repository.backups()


def test_who_has_lost_a_copy_does_not_remove_it() -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    with staging.in_hand() as first, staging.in_hand(take_over=True), pytest.raises(RestoreTakenOver):
        staging.remove(first)
    assert staging.folder is not None
    assert staging.folder.exists()


@pytest.mark.parametrize("began", [False, True])
def test_what_a_killed_restore_left_unused_goes_with_the_next_one_of_any_archive(cache: Path, began: bool) -> None:
    """Segments without a commit are of no use to anybody; a restore that has begun needs its copy to go on."""
    killed = open_staging(None, format_name="avro", archive="/a")
    dead = replace(ProcessIdentity.mine(), pid=str(ended_process()))
    killed.terms.claim(dead, "w", take_over=False)
    killed.repository.store.put_if_absent(
        f"backups/{killed.backup}/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"bytes"
    )
    if began:
        fill(killed)
        killed.repository.store.put_if_absent(f"backups/{killed.backup}/restores/r/restore.json", b"{}")
    (cache / "offsite" / "staging" / "abc-1.going").mkdir()
    with open_staging(None, format_name="avro", archive="/b").in_hand():
        third = open_staging(None, format_name="avro", archive="/c")
        left = {each.name for each in (cache / "offsite" / "staging").iterdir()}
    assert killed.folder is not None
    assert third.folder is not None
    assert len(left) == 2 + began
    assert (killed.folder.name in left) is began


def test_in_a_repository_that_was_given_only_the_copy_is_removed(tmp_path: Path) -> None:
    place = str(tmp_path / "repository")
    mine = Repository.init(open_store(place))
    mine.create_backup("nightly", cluster_id="c", selection=EVERYTHING)
    staging = open_staging(place, format_name="avro", archive="/a")
    fill(staging)
    assert mine.backups() == ("nightly", staging.backup)
    with staging.in_hand() as held:
        staging.remove(held)
    assert mine.backups() == ("nightly",)
    assert not list(mine.store.list(f"backups/{staging.backup}/"))


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


def test_a_copy_in_a_repository_goes_that_a_killed_import_left(tmp_path: Path) -> None:
    place = tmp_path / "repository"
    mine = Repository.init(open_store(str(place)))
    for purpose in ("killed", "committed", "unclaimed", "alive"):
        staging = open_staging(str(place), format_name="avro", archive="/a", purpose=purpose)
        who = (
            ProcessIdentity.mine() if purpose == "alive" else replace(ProcessIdentity.mine(), pid=str(ended_process()))
        )
        if purpose != "unclaimed":
            staging.terms.claim(who, "w", take_over=False)
        mine.store.put_if_absent(f"backups/{staging.backup}/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"bytes")
        if purpose == "committed":
            fill(staging)
            mine.store.put_if_absent(f"backups/{staging.backup}/commits/{1:020}.json", b"{}")
    assert list(dead_copies(mine)) == [], "none is quiet"
    alive = open_staging(str(place), format_name="avro", archive="/a", purpose="alive").terms.lease.prefix
    for path in (each for each in place.rglob("*") if each.is_file() and alive not in str(each)):
        os.utime(path, (0, path.stat().st_mtime - 2 * DAY_MS / 1000))
    killed = open_staging(str(place), format_name="avro", archive="/a", purpose="killed").backup
    ((found, folder),) = dead_copies(mine)
    assert (found.backup, folder.objects) == (killed, 2)
    assert remove_dead_copy(found)
    assert not list(mine.store.list(f"backups/{killed}/"))
    assert list(dead_copies(mine)) == []
    assert not remove_dead_copy(found)


def test_a_cache_that_is_not_there_holds_no_copies(tmp_path: Path) -> None:
    mine = Repository.init(open_store(str(tmp_path / "repository")))
    assert list(staging_copies(mine, quiet_for_ms=DAY_MS)) == []


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BadOption, match="cannot be put into") as caught:
        open_staging(None, format_name="avro", archive="/archive")
    assert "--staging" in caught.value.hint


def test_without_a_home_a_place_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _homeless)
    with pytest.raises(BadOption, match="no home folder"):
        open_staging(None, format_name="avro", archive="/archive")


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")
