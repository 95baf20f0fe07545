"""Where a restore straight from an archive keeps its copy, and for how long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.cli.commands.restore_source import RestoreRunOptions, backup_to_restore
from offsite.model.errors import BadOption, RestoreRunning, TargetNotEmpty
from offsite.repository.repository import Repository
from offsite.repository.snapshots.group_change import GroupChange, put_group_change, try_open_changes
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner

PEERS = Path(__file__).parents[2] / "fixtures" / "peers" / "kafka-backup"


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "offsite" / "staging"


OPTIONS = RestoreRunOptions(archive=str(PEERS), format="kafka-backup")


def test_the_copy_is_kept_while_the_restore_has_not_succeeded_and_then_goes(
    staging: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TargetNotEmpty):
        fail_to_restore(OPTIONS)
    assert f"kept in {staging}" in capsys.readouterr().err
    with backup_to_restore(OPTIONS, InlineRunner()) as backup:
        assert backup.state().seq == 1, "the same command goes on with the copy"
    assert list(staging.iterdir()) == []


def test_two_restores_of_one_archive_do_not_share_a_copy(staging: Path) -> None:
    """The first to succeed took away what the other one was reading."""
    for other, cluster in ((replace(OPTIONS, words={"topics": ["o*"]}), "one"), (OPTIONS, "two")):
        with backup_to_restore(OPTIONS, InlineRunner(), cluster_id=lambda: "one") as backup:
            with backup_to_restore(other, InlineRunner(), cluster_id=lambda: cluster):  # noqa: B023  # called within
                assert len(copies(staging)) == 2
            assert backup.state().seq == 1
            assert all(backup.store.head(segment.key) for segment in backup.state().all_segments())
    assert list(staging.iterdir()) == []


def test_the_same_restore_of_an_archive_runs_once(staging: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with backup_to_restore(OPTIONS, InlineRunner()) as backup:
        with pytest.raises(RestoreRunning, match="has been busy with"), backup_to_restore(OPTIONS, InlineRunner()):
            pass
        assert "kept" not in capsys.readouterr().err
        assert backup.state().seq == 1
    assert list(staging.iterdir()) == []


def fail_to_restore(options: RestoreRunOptions) -> None:
    with backup_to_restore(options, InlineRunner()):
        raise TargetNotEmpty("the target is not empty")


def copies(staging: Path) -> list[Path]:
    return [each for each in staging.iterdir() if each.is_dir()]


def test_the_copy_is_kept_where_that_was_said(staging: Path) -> None:
    with backup_to_restore(replace(OPTIONS, keep_staging=True), InlineRunner()) as backup:
        assert sum(segment.records for segment in backup.state().all_segments()) == 995
    assert len(list(staging.iterdir())) == 1


def test_the_copy_goes_though_groups_were_set_and_what_undoes_that_stays(
    staging: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with backup_to_restore(replace(OPTIONS, words={"groups": ["all"]}), InlineRunner()) as backup:
        change = GroupChange(change="c", cluster_id="one", restore="r", commit=1, created_at_ms=1)
        put_group_change(backup.record_store, backup.layout, change, {})
    assert list(staging.iterdir()) == []
    place = tmp_path / "state" / "offsite" / "restored"
    line = f"to go back: offsite groups undo --repo {place} --backup {backup.descriptor.name} --change c"
    assert line in capsys.readouterr().err
    kept = Repository.open(open_store(str(place))).backup(backup.descriptor.name)
    assert [each.change for each in try_open_changes(kept.record_store, kept.layout)] == ["c"]


@pytest.mark.parametrize(
    "options",
    [
        RestoreRunOptions(archive="a"),
        RestoreRunOptions(archive="a", format="avro", backup="b"),
        RestoreRunOptions(repo="r", backup="b", format="avro"),
        RestoreRunOptions(repo="r", backup="b", keep_staging=True),
        RestoreRunOptions(repo="r"),
    ],
)
def test_an_archive_or_a_backup_is_restored(options: RestoreRunOptions) -> None:
    with pytest.raises(BadOption), backup_to_restore(options, InlineRunner()):
        pass
