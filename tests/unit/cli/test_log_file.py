from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from offsite.cli.logs import LogFile

WRITER = """
import logging, sys
from pathlib import Path
from offsite.cli.logs import LogFile
file = LogFile(Path(sys.argv[1]), max_bytes=2000, kept_files=100)
for number in range(300):
    file.emit(logging.makeLogRecord({"msg": f"{sys.argv[2]} {number}"}))
"""


def write(file: LogFile, text: str) -> None:
    file.emit(logging.makeLogRecord({"msg": text}))


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    write(LogFile(path), "after")
    assert path.read_text() == "before\nafter\n"


def test_a_full_file_is_turned_over_and_few_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path, max_bytes=100, kept_files=2)
    for number in range(100):
        write(file, f"line {number:03}")
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["log", "log.1", "log.2"]
    assert all((tmp_path / name).stat().st_size <= 100 for name in names)
    lines = [line for name in reversed(names) for line in (tmp_path / name).read_text().splitlines()]
    assert lines == [f"line {number:03}" for number in range(100 - len(lines), 100)]


def test_two_processes_share_a_file_and_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "ab"]
    assert [each.wait(60) for each in writers] == [0, 0]
    lines = [line for each in tmp_path.iterdir() for line in each.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{name} {number}" for name in "ab" for number in range(300))
    assert all(each.stat().st_size <= 2000 for each in tmp_path.iterdir())


def test_a_file_that_somebody_else_turns_over_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    write(file, "one")
    path.rename(tmp_path / "log-20260101")
    write(file, "two")
    assert path.read_text() == "two\n"


def test_others_may_not_read_it(tmp_path: Path) -> None:
    LogFile(tmp_path / "log")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_whom_somebody_let_read_it_may_read_the_next_one_too(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    path.chmod(0o640)
    file = LogFile(path, max_bytes=10)
    write(file, "one line")
    write(file, "another")
    assert (tmp_path / "log.1").exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_and_never_renamed() -> None:
    write(LogFile(Path(os.devnull), max_bytes=1), "gone")
    assert not Path(os.devnull).is_file()


def test_a_place_that_cannot_be_written_is_found_out_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "missing" / "log")


def test_a_disk_that_is_full_is_told_once_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    file = LogFile(Path("/dev/full"))
    write(file, "one")
    write(file, "two")
    assert capsys.readouterr().err.count("log lines are lost: cannot write /dev/full") == 1
