from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from offsite.archives.import_staging import (
    Staging,
    UndoableChanges,
    find_dead_copies,
    find_staging_copies,
    open_staging,
    remove_dead_copy,
)
from offsite.cli.commands.restore_source import end_copy
from offsite.model.errors import (
    BadOption,
    ConfirmationMissing,
    DamagedArchive,
    DamagedObject,
    LeaderUnavailable,
    LeaseHeld,
    NoSuchTopic,
    RestoreRunning,
    RestoreTakenOver,
    TargetNotEmpty,
)
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.local_memory import is_written_here
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, put_outcome
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    UnreadableChange,
    get_before,
    put_group_change,
    try_open_changes,
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
    with staging.hold() as held:
        staging.remove(held)
    assert list((cache / "offsite" / "staging").iterdir()) == []


def test_two_restores_of_one_archive_have_a_copy_each_and_one_command_has_one(tmp_path: Path) -> None:
    for place in (None, str(tmp_path / "repository")):
        one, two = (open_staging(place, format_name="avro", archive="/a", purpose=each) for each in ("one", "two"))
        assert one.backup != two.backup
        with one.hold(), two.hold() as held:
            fill(one)
            fill(two)
            with pytest.raises(RestoreRunning, match=one.backup), one.hold():
                pass
            two.remove(held)
            assert one.backup in one.repository.backups()
        again = open_staging(place, format_name="avro", archive="/a", purpose="one")
        with again.hold():
            assert again.backup in again.repository.backups()


def test_who_has_lost_a_copy_does_not_remove_it() -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    with staging.hold():
        with pytest.raises(LeaseHeld) as refusal, staging.hold(removes=True):
            pass
        assert type(refusal.value) is LeaseHeld
        assert "--take-over" not in refusal.value.hint, "who sweeps cannot take a restore over"
    with staging.hold() as first, staging.hold(take_over=True), pytest.raises(RestoreTakenOver):
        staging.remove(first)
    assert staging.folder is not None
    assert staging.folder.exists()


def test_who_loses_a_copy_while_it_is_removed_stops(tmp_path: Path) -> None:
    """A removal of many objects takes longer than a lease lasts without a sign of life, or its process is stopped."""
    staging = open_staging(str(tmp_path / "repository"), format_name="avro", archive="/a")
    fill(staging)
    store, layout = staging.repository.store, BackupLayout(backup=staging.backup)
    for number in range(40):
        store.put_if_absent(layout.commit_key(number + 1), b"{}")

    class Slow:
        deleted = 0

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def delete(self, key: str) -> None:
            assert slow.is_renewed(), "nobody takes over what gives signs of life"
            store.delete(key)
            self.deleted += 1
            if self.deleted == 10:
                staging.terms.claim(ProcessIdentity.current(), "later", take_over=True)

        def is_renewed(self) -> bool:
            return held._thread.is_alive()

    slow = Slow()
    with staging.hold() as held, pytest.raises(RestoreTakenOver):
        replace(staging, repository=replace(staging.repository, store=slow)).remove(held)
    assert slow.deleted == 20


@pytest.mark.parametrize("began", [False, True])
def test_what_a_killed_restore_left_unused_goes_with_the_next_one_of_any_archive(cache: Path, began: bool) -> None:
    """Segments without a commit are of no use to anybody; a restore that has begun needs its copy to go on."""
    killed = open_staging(None, format_name="avro", archive="/a")
    dead = replace(ProcessIdentity.current(), pid=str(ended_process()))
    killed.terms.claim(dead, "w", take_over=False)
    killed.repository.store.put_if_absent(
        f"backups/{killed.backup}/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"bytes"
    )
    if began:
        fill(killed)
        killed.repository.store.put_if_absent(f"backups/{killed.backup}/restores/r/restore.json", b"{}")
    (cache / "offsite" / "staging" / "abc-1.going").mkdir()
    with open_staging(None, format_name="avro", archive="/b").hold():
        third = open_staging(None, format_name="avro", archive="/c")
        left = {each.name for each in (cache / "offsite" / "staging").iterdir()}
    assert killed.folder is not None
    assert third.folder is not None
    assert len(left) == 2 + began
    assert (killed.folder.name in left) is began


ENDED = RestoreOutcome(records=0, size_bytes=0, verified=True, findings=(), partitions=())
CHANGE = GroupChange(change="c", cluster_id="cluster", restore="r", commit=1, created_at_ms=5)


def restored_from(staging: Staging, *, ended: bool, changed: bool = True) -> None:
    """The copy, of which a restore was begun by a process that is no more, and that set groups."""
    fill(staging)
    layout, store = BackupLayout(backup=staging.backup), staging.repository.store
    staging.terms.claim(replace(ProcessIdentity.current(), pid=str(ended_process())), "w", take_over=False)
    store.put_if_absent(RestoreLayout(backup=layout, restore="r").record_key, b"{}")
    if changed:
        put_group_change(store, layout, CHANGE, {})
    if ended:
        put_outcome(store, RestoreLayout(backup=layout, restore="r"), ENDED)


def folders(cache: Path) -> set[str]:
    return {each.name for each in (cache / "offsite" / "staging").iterdir()}


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def undoable(states: Path, backup: str) -> list[str]:
    kept = Repository.open(open_store(str(states / "offsite" / "restored"))).backup(backup)
    return [each.change for each in try_open_changes(kept.record_store, kept.layout) if is_ours(kept, each)]


def is_ours(backup: Backup, change: GroupChange | UnreadableChange) -> bool:
    assert isinstance(change, GroupChange)
    layout = GroupChangeLayout(backup=backup.layout, change=change.change)
    assert get_before(backup.record_store, backup.layout, change) == {}
    return is_written_here(backup.record_store, layout.record_key)


@pytest.mark.parametrize(("ended", "kept"), [(True, False), (True, True), (False, False)])
def test_what_was_killed_after_its_restore_had_ended_goes_with_the_next_one(
    cache: Path, states: Path, ended: bool, kept: bool
) -> None:
    killed = open_staging(None, format_name="avro", archive="/a")
    killed.keep(stays=kept)
    restored_from(killed, ended=ended)
    next_one = open_staging(None, format_name="avro", archive="/b")
    with next_one.hold() as held:
        next_one.keep(stays=False)
        next_one.remove(held)
    assert killed.folder is not None
    if ended and not kept:
        assert folders(cache) == set()
        assert undoable(states, killed.backup) == ["c"]
    else:
        assert killed.folder.name in folders(cache)


def test_who_removes_a_copy_is_told_how_to_go_back(cache: Path, states: Path) -> None:
    for _ in range(2):  # the same command again, with a backup of the same name
        staging = open_staging(None, format_name="avro", archive="/a")
        restored_from(staging, ended=True)
        with staging.hold() as held:
            changes = staging.remove(held)
        assert changes == UndoableChanges(
            place=str(states / "offsite" / "restored"), backup=staging.backup, changes=("c",)
        )
    assert folders(cache) == set()
    assert undoable(states, staging.backup) == ["c"]


def test_a_copy_stays_where_a_record_of_its_changes_cannot_be_read(cache: Path) -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    restored_from(staging, ended=True, changed=False)
    layout = GroupChangeLayout(backup=BackupLayout(backup=staging.backup), change="c")
    staging.repository.store.put_if_absent(layout.record_key, b"{")
    with staging.hold() as held, pytest.raises(DamagedObject):
        staging.remove(held)
    assert len(folders(cache)) == 1


def test_a_copy_stays_where_what_its_groups_had_is_gone(cache: Path, states: Path) -> None:
    """Nothing was kept in its place, and the command for it told."""
    staging = open_staging(None, format_name="avro", archive="/a")
    restored_from(staging, ended=True)
    layout = GroupChangeLayout(backup=BackupLayout(backup=staging.backup), change="c")
    staging.repository.store.delete(layout.before_key)
    with staging.hold() as held, pytest.raises(DamagedObject):
        staging.remove(held)
    assert len(folders(cache)) == 1
    assert not states.exists()


def test_a_copy_stays_where_what_undoes_its_changes_can_be_kept_nowhere(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    staging = open_staging(None, format_name="avro", archive="/a")
    restored_from(staging, ended=True)
    with staging.hold() as held, pytest.raises(BadOption, match="undo data of group changes"):
        staging.remove(held)
    assert len(folders(cache)) == 1
    quiet = open_staging(None, format_name="avro", archive="/b")
    restored_from(quiet, ended=True, changed=False)
    with quiet.hold() as held:
        quiet.remove(held)
    assert len(folders(cache)) == 1, "there is nothing to undo"


ENDS: dict[str, tuple[BaseException, bool, bool]] = {
    "what came back differs": (typer.Exit(13), True, False),
    "groups were refused": (typer.Exit(3), True, True),
    "no such topic": (NoSuchTopic("no"), False, False),
    "topics are there": (TargetNotEmpty("no"), False, True),
    "a damaged archive": (DamagedArchive("no"), False, False),
    "not confirmed": (ConfirmationMissing("no"), False, True),
    "no broker": (LeaderUnavailable("no"), False, True),
    "stopped": (KeyboardInterrupt(), False, True),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_however_a_command_ends_its_copy_stays_only_where_something_needs_it(
    cache: Path, states: Path, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error, begun, stays = ENDS[end]
    staging = open_staging(None, format_name="avro", archive="/a")
    restored_from(staging, ended=True) if begun else fill(staging)
    with staging.hold(take_over=True) as held:
        staging.keep(stays=False)
        end_copy(staging, held, error)
    assert bool(folders(cache) - {f"{staging.folder.name}.passing" if staging.folder else ""}) is stays
    said = capsys.readouterr().err
    assert ("is kept in" in said) is stays
    assert ("groups undo --repo" in said) is (begun and not stays)
    assert states


def test_a_copy_that_is_to_be_kept_is_kept_whatever_the_error(cache: Path) -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    fill(staging)
    with staging.hold() as held:
        staging.keep(stays=True)
        end_copy(staging, held, NoSuchTopic("no"))
    assert len(folders(cache)) == 1


def test_a_restore_that_has_begun_keeps_its_copy_whatever_the_error(cache: Path) -> None:
    staging = open_staging(None, format_name="avro", archive="/a")
    restored_from(staging, ended=False)
    with staging.hold(take_over=True) as held:
        staging.keep(stays=False)
        end_copy(staging, held, TargetNotEmpty("no"))
    assert len(folders(cache)) == 2, "and the mark beside it"


def test_in_a_repository_that_was_given_only_the_copy_is_removed(tmp_path: Path) -> None:
    place = str(tmp_path / "repository")
    mine = Repository.init(open_store(place))
    mine.create_backup("nightly", cluster_id="c", selection=EVERYTHING)
    staging = open_staging(place, format_name="avro", archive="/a")
    fill(staging)
    assert mine.backups() == ("nightly", staging.backup)
    with staging.hold() as held:
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
    assert list(find_staging_copies(mine, quiet_for_ms=DAY_MS)) == []
    for path in (*place.rglob("*"), *cache.rglob("*")):
        os.utime(path, (0, path.stat().st_mtime - 2 * DAY_MS / 1000))
    assert own.folder is not None
    places = [copy for copy, _ in find_staging_copies(mine, quiet_for_ms=DAY_MS)]
    assert places == [f"{place}/backups/{given.backup}/", str(own.folder)]


def test_a_copy_in_a_repository_goes_that_a_killed_import_left(tmp_path: Path) -> None:
    place = tmp_path / "repository"
    mine = Repository.init(open_store(str(place)))
    for purpose in ("killed", "committed", "unclaimed", "alive"):
        staging = open_staging(str(place), format_name="avro", archive="/a", purpose=purpose)
        who = (
            ProcessIdentity.current()
            if purpose == "alive"
            else replace(ProcessIdentity.current(), pid=str(ended_process()))
        )
        if purpose != "unclaimed":
            staging.terms.claim(who, "w", take_over=False)
        mine.store.put_if_absent(f"backups/{staging.backup}/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"bytes")
        if purpose == "committed":
            fill(staging)
            mine.store.put_if_absent(f"backups/{staging.backup}/commits/{1:020}.json", b"{}")
    assert list(find_dead_copies(mine)) == [], "none is quiet"
    alive = open_staging(str(place), format_name="avro", archive="/a", purpose="alive").terms.prefix
    for path in (each for each in place.rglob("*") if each.is_file() and alive not in str(each)):
        os.utime(path, (0, path.stat().st_mtime - 2 * DAY_MS / 1000))
    killed = open_staging(str(place), format_name="avro", archive="/a", purpose="killed").backup
    ((found, folder),) = find_dead_copies(mine)
    assert (found.backup, folder.objects) == (killed, 2)
    assert remove_dead_copy(found)
    assert not list(mine.store.list(f"backups/{killed}/"))
    assert list(find_dead_copies(mine)) == []
    assert not remove_dead_copy(found)


def test_a_cache_that_is_not_there_holds_no_copies(tmp_path: Path) -> None:
    mine = Repository.init(open_store(str(tmp_path / "repository")))
    assert list(find_staging_copies(mine, quiet_for_ms=DAY_MS)) == []


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
