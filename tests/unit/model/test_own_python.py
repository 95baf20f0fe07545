"""Processes of ours that run Python take no module from the folder in which they begin: others may write there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import offsite
from offsite.jobs.workers import Workers
from offsite.model.machine import OWN_PYTHON

SOURCES = Path(offsite.__file__).parent
NAKED = re.compile(r"sys\.executable,\s*\"-[cm]\"")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, into which somebody else has put modules of our name, and of the standard library's: they
    leave a file `taken`."""
    (package := tmp_path / "offsite").mkdir()
    for file in (package / "__init__.py", tmp_path / "json.py", tmp_path / "typing.py"):
        file.write_text(f"open({str(tmp_path / 'taken')!r}, 'w')\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [["-c", "import offsite, json"], ["-m", "offsite.sandbox.end_with_owner"]])
def test_no_module_is_taken_from_the_current_folder(hostile: Path, words: list[str]) -> None:
    subprocess.run([*OWN_PYTHON, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert not (hostile / "taken").exists()


def test_the_process_of_a_job_takes_none(hostile: Path) -> None:
    workers = Workers(environment={"OFFSITE_REPO": str(hostile / "nothing")}, at_once=1)
    workers.begin("20260101-000000-0000abcd", ["verify"])
    (process,) = workers._begun.values()
    assert process.wait(60) != 0
    assert not (hostile / "taken").exists()


def test_no_process_of_ours_begins_another_way() -> None:
    found = [str(file) for file in SOURCES.rglob("*.py") if NAKED.search(file.read_text(encoding="utf-8"))]
    assert found == []
