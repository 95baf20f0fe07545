"""Names that others chose, on every screen: nothing of them is a command to the terminal, markup, or a line of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.main import main
from offsite.cli.output import Line, OutputFormat, Table, emit, emit_each, emit_error, emit_notice, note
from offsite.cli.progress import progress
from offsite.engine.runner import RunProgress
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import PartitionId
from offsite.model.errors import DamagedArchive
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, LeftBehindPartition, Position, RecordedHole, TopicShape
from offsite.repository.snapshots.group_snapshot import put_group_snapshot
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import append_unchecked, new_backup, run_once

NAME = "\x1b]0;x\x07[/nope][red]:smile:\u202e\x9b\ud800\r\nSAFE"
SHOWN = r"\x1b]0;x\x07[/nope][red]:smile:\u202e\x9b\ud800\r\nSAFE"
GROUP = NAME.replace("\ud800", "")
"""Snapshots of groups are Parquet, which holds no lone surrogate."""


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def with_foreign_words(backup: Backup) -> None:
    """A commit of others may say anything but the name of a topic, which is refused unless Kafka can have it."""
    base = run_once(backup)
    partition = PartitionId(topic="other", topic_id=GROUP, partition=0)
    shape = TopicShape(topic="other", topic_id=GROUP, partitions=1, replication_factor=1, configs=((GROUP, GROUP),))
    hole = RecordedHole(partition_id=partition, start=0, end=5, reason=GROUP)
    changes = CommitChanges(
        topics=(shape,),
        holes=(hole,),
        positions=(Position(partition_id=partition, log_start=0, end=5),),
        left_behind=(LeftBehindPartition(partition_id=partition, error=GROUP),),
        accounted=True,
    )
    append_unchecked(backup, base, changes, committed_at_ms=base.committed_at_ms)


def with_a_foreign_group(backup: Backup) -> None:
    base = run_once(backup)
    offsets = TopicOffsets.of("orders", [CommittedOffset(0, 7)], topic_id="id-orders")
    group = GroupOffsets(group=GROUP, kind="classic", state="Empty", topics=(offsets,))
    groups = put_group_snapshot(backup.store, backup.layout, base.seq + 1, {GROUP: group})
    backup.commit(CommitChanges(groups=groups), base=base, writer="w")


def told(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code in {0, 3, 13}, done.exception
    return done.output


def is_bearable(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n")) and "\nSAFE" not in text.removeprefix("SAFE")


@pytest.mark.parametrize("command", [("show",), ("show", "--metadata"), ("verify",), ("status",), ("list",)])
def test_words_of_commits(store: PosixStore, command: tuple[str, ...]) -> None:
    with_foreign_words(new_backup(store))
    of = ["--backup", "b"] if command[0] == "verify" else ["b"] if command[0] == "show" else []
    text = told(*command, *of, "--repo", str(store.root))
    assert is_bearable(text)
    assert SHOWN.replace(r"\ud800", "") in text or command[0] not in {"show", "status"}


def test_ranges_in_tables_are_no_markup(store: PosixStore) -> None:
    run_once(new_backup(store))
    text = told("show", "b", "--repo", str(store.root))
    assert "[0, 20)" in text
    assert "\\" not in text


def test_names_of_groups(store: PosixStore) -> None:
    with_a_foreign_group(new_backup(store))
    text = told("groups", "show", "--backup", "b", "--repo", str(store.root))
    assert is_bearable(text)
    assert SHOWN.replace(r"\ud800", "") in text
    document = told("groups", "show", "--backup", "b", "--repo", str(store.root), "-o", "json")
    assert document.isascii()
    assert json.loads(document)["groups"][0]["group"] == GROUP


def test_names_of_files_in_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive" / "topics" / "orders" / "partition=0"
    folder.mkdir(parents=True)
    (folder / "\x1b[31m[red]\udcff\nhint: SAFE").symlink_to("/dev/zero")
    monkeypatch.setattr("sys.argv", ["offsite", "archive", "inspect", str(tmp_path / "archive"), "--format", "jsonl"])
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().err
    assert is_bearable(text)
    assert r"\x1b[31m[red]\udcff" in text
    assert "\nhint: SAFE" not in text
    assert "is a symbolic link" in text


@pytest.mark.parametrize("output", OutputFormat)
def test_errors(capsys: pytest.CaptureFixture[str], output: OutputFormat) -> None:
    emit_error(DamagedArchive(f"file {NAME}", hint=f"look at {NAME}"), output=output)
    text = capsys.readouterr().err
    assert is_bearable(text)
    assert output is OutputFormat.TABLE or json.loads(text)["error"]["message"] == f"file {NAME}"


def test_whatever_a_view_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def render(name: str) -> Iterator[Line]:
        table = Table(name)
        table.add_row(name)
        yield table
        yield name

    emit(NAME, output=OutputFormat.TABLE, render=render)
    emit_notice(NAME, render=render)
    emit_each([NAME], name="names", output=OutputFormat.TABLE, line=str)
    note(NAME)
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert is_bearable(text)
        assert r"\x1b]0;x\x07[/nope][red]:smile:\u202e\x9b\ud800\r" in text


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    now = RunProgress(
        tasks_total=1, tasks_done=0, tasks_failed=0, moved_bytes=0, records=0, elapsed_s=1e6, worker_peak_rss_bytes=0
    )
    with progress(NAME, total_bytes=5) as on_progress:
        on_progress(now)
    text = capsys.readouterr().err
    assert is_bearable(text)
    assert text.startswith(SHOWN)
