from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.model.errors import JavaMissing
from offsite.sandbox.java import OLDEST_MAJOR, find_java


def fake_java(folder: Path, version: str) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    launcher.chmod(0o755)
    return launcher


def test_the_java_of_this_machine_is_found() -> None:
    assert find_java().major >= OLDEST_MAJOR


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int) -> None:
    launcher = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = find_java()
    assert (java.launcher, java.major) == (launcher, major)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "who knows"])
def test_an_old_java_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    launcher = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=str(launcher)) as refused:
        find_java()
    assert "install a Java 17+" in refused.value.hint


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="no Java runtime") as missing:
        find_java()
    assert "install a Java 17+" in missing.value.hint


def test_a_java_home_without_java_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is no Java in JAVA_HOME="):
        find_java()


def test_a_java_is_found_from_a_working_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = fake_java(tmp_path, "17")
    launcher.write_text(launcher.read_text() + 'case "$(readlink /proc/$$/cwd)" in *deleted*) exit 1;; esac\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (gone := tmp_path / "gone").mkdir()
    before = Path.cwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert find_java().major == 17
    finally:
        os.chdir(before)
