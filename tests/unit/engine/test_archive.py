from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.engine.local.jvm import MAX_ARCHIVES, RECORDING_LIMIT_S, ClassArchive, archive_for
from offsite.model.clock import SystemClock


@pytest.fixture
def java(tmp_path: Path) -> Path:
    (tmp_path / "java").write_text("java")
    return tmp_path / "java"


def archive(folder: Path, java: Path, *flags: str) -> ClassArchive:
    return archive_for(folder / "cds", java, [java], flags, clock=SystemClock())


def test_the_first_run_records_and_the_next_reads(tmp_path: Path, java: Path) -> None:
    first = archive(tmp_path, java)
    assert first.recording is not None
    first.recording.rename(first.path)
    second = archive(tmp_path, java)
    assert second.is_used
    assert list(second.flags) == [f"-XX:SharedArchiveFile={first.path}", "-Xshare:auto"]


def test_only_one_of_two_first_runs_records(tmp_path: Path, java: Path) -> None:
    assert archive(tmp_path, java).recording is not None
    second = archive(tmp_path, java)
    assert (list(second.flags), second.recording) == ([], None)


def test_a_recording_that_was_killed_is_taken_over(tmp_path: Path, java: Path) -> None:
    killed = archive(tmp_path, java).recording
    assert killed is not None
    long_ago_s = killed.stat().st_mtime - RECORDING_LIMIT_S - 60
    os.utime(killed, (long_ago_s, long_ago_s))
    assert archive(tmp_path, java).recording == killed


def test_another_java_or_other_flags_need_another_archive(tmp_path: Path, java: Path) -> None:
    before = archive(tmp_path, java).path
    assert archive(tmp_path, java, "-Xmx1g").path != before
    java.write_text("a newer java")
    assert archive(tmp_path, java).path != before


def test_a_discarded_archive_is_recorded_anew_by_a_later_run(tmp_path: Path, java: Path) -> None:
    archive(tmp_path, java).path.write_text("cut short")
    (tmp_path / "cds").joinpath(archive(tmp_path, java).path.stem + ".recording").unlink()
    assert not archive(tmp_path, java).discarded().is_used
    assert archive(tmp_path, java).recording is not None


def test_few_archives_are_kept_and_the_oldest_goes_first(tmp_path: Path, java: Path) -> None:
    (tmp_path / "cds").mkdir()
    for age_s in range(MAX_ARCHIVES + 2):
        old = tmp_path / "cds" / f"{age_s}.jsa"
        old.touch()
        os.utime(old, (1000 - age_s, 1000 - age_s))
    archive(tmp_path, java)
    assert sorted(path.name for path in (tmp_path / "cds").glob("*.jsa")) == [
        f"{n}.jsa" for n in range(MAX_ARCHIVES - 1)
    ]


def test_a_cache_that_cannot_be_written_means_no_archive(tmp_path: Path, java: Path) -> None:
    (tmp_path / "cds").write_text("a file where the folder should be")
    assert list(archive(tmp_path, java).flags) == []
