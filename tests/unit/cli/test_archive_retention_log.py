"""`offsite archive retention log`: what went of an archive in a folder, and what strangers may write there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.archives.archive import ArchiveTopic
from offsite.archives.formats import open_writer
from offsite.cli.app import app
from offsite.log.records.record import Record
from offsite.stores.open_store import open_archive_files
from tests.archive_records import write_range

DAY_MS = 86_400_000


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Two files, the older one let go, with its object."""
    place = str(tmp_path / "lake")
    files = open_archive_files(place)
    writer = open_writer("jsonl", files)
    for start in (0, 2):
        writer.ends()
        some = [Record(at, 1_000_000 + at * DAY_MS, 0, b"k", b"v", ()) for at in (start, start + 1)]
        written = write_range(writer, some, start=start, end=start + 2, partition=0)
        writer.finish([written], [ArchiveTopic(topic="orders", partitions=1)], {})
    arguments = ["archive", "retention", "apply", place, "--format", "jsonl", "--yes", "--collect-after", "0s"]
    done = CliRunner().invoke(app, [*arguments, "--keep-age", "1d"])
    assert done.exit_code == 0, done.output
    return place


def log(place: str, *more: str) -> str:
    done = CliRunner().invoke(app, ["archive", "retention", "log", place, *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_log_says_what_went_and_by_which_rule(place: str) -> None:
    lines = json.loads(log(place, "-o", "json"))["deletions"]
    name = lines[0]["what"]
    assert [(each["kind"], each["what"], each["state"]) for each in lines] == [
        ("file", name, "done"),
        ("object", name, "done"),
    ]
    assert lines[0]["rule"] == "older than 1 d 0 h"
    assert lines[0]["bytes"] == lines[1]["bytes"] > 0
    assert all(each["who"] and each["at_ms"] and each["by"] == "archive retention" for each in lines)
    (Path(place) / name).write_bytes(b"")
    assert f"file, to be done: {name}" in log(place)


def test_what_cannot_be_read_hides_nothing_else(place: str) -> None:
    folder = Path(place) / "_audit"
    (folder / f"{0:020d}-00000000.log").write_bytes(b'{"format":1}\n\x1b[31m\n')
    shown = log(place)
    assert shown.count("cannot be read") == 2
    assert "object, done" in shown
    assert "\x1b" not in shown


def test_a_place_without_an_audit(tmp_path: Path) -> None:
    assert log(str(tmp_path)) == ""
