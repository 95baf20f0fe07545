"""Results that cannot be written, and standard streams that are closed: every command says so, and none shows a
traceback, or is done with half a result. Each command runs in a fork of one process, which has imported all of it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.cli.process import EXIT_UNREAD
from offsite.model.errors import OutputNotWritten
from offsite.stores.posix_store import open_folder
from tests.backups import new_backup, run_once

_FORKS = """
import io, json, os, sys, tempfile
import rich.table
from offsite.cli import app
from offsite.cli.commands import records, repository, verify
from offsite.cli.main import main
from offsite.overview import contents, status
from offsite.table import search as find
from offsite.upkeep.verification import run
from offsite.stores import open_store

def give(number, place):
    if place == "closed":
        os.close(number)
    elif place == "unread":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
    else:
        os.dup2(os.open(place, os.O_RDWR), number)

def stream(number, mode):
    try:
        return open(number, mode, closefd=False, encoding="utf-8")
    except OSError:  # as Python does at its start
        return None

for line in sys.stdin:
    arguments, places = json.loads(line)
    said = tempfile.TemporaryFile()
    child = os.fork()
    if not child:
        os.dup2(said.fileno(), 2)
        for number, place in enumerate(places):
            if place:
                give(number, place)
        said.close()
        sys.stdin = stream(0, "r")
        sys.stdout = sys.__stdout__ = stream(1, "w")
        sys.stderr = sys.__stderr__ = stream(2, "w")
        sys.argv = ["offsite", *arguments]
        code = 99
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:
            os.write(2, f"Traceback: {error!r}".encode())
        try:
            for each in (sys.stdout, sys.stderr):
                each.flush()  # as Python does at its end
        except BaseException as error:
            os.write(2, f"Traceback at the end: {error!r}".encode())
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.seek(0)
    print(json.dumps([code, said.read().decode()]), flush=True)
"""
FULL = "/dev/full"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Forks:
    process: subprocess.Popen[str]

    def run(self, *arguments: str, stdin: str = "", stdout: str = "/dev/null", stderr: str = "") -> End:
        """The end of a command whose streams are `closed`, `unread`, or a file; stderr as it is, to be read here."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([arguments, [stdin or "/dev/null", stdout, stderr]]) + "\n")
        self.process.stdin.flush()
        code, said = json.loads(self.process.stdout.readline())
        return End(code=code, said=said)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    if not Path(FULL).exists():
        pytest.skip(f"no {FULL} here")
    command = [sys.executable, "-c", _FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Forks(process)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = open_folder(tmp_path_factory.mktemp("streams") / "repository")
    run_once(new_backup(store))
    return str(store.root)


KINDS = {
    "list": ("list", "--repo", "REPO"),
    "list as JSON": ("list", "--repo", "REPO", "-o", "json"),
    "list as lines of JSON": ("list", "--repo", "REPO", "-o", "jsonl"),
    "show": ("show", "b", "--repo", "REPO"),
    "status": ("status", "--repo", "REPO"),
    "verify": ("verify", "--repo", "REPO", "--backup", "b"),
    "cat": ("cat", "orders/0", "--repo", "REPO", "--backup", "b"),
    "cat as JSON": ("cat", "orders/0", "--repo", "REPO", "--backup", "b", "-o", "json"),
    "cat of bytes": ("cat", "orders/0", "--repo", "REPO", "--backup", "b", "--raw"),
    "help": ("--help",),
}
"""One command of each way to print."""


def command_of(kind: str, repository: str) -> list[str]:
    return [repository if word == "REPO" else word for word in KINDS[kind]]


@pytest.mark.parametrize("place", [FULL, "closed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_cannot_be_written_is_an_error(kind: str, place: str, forks: Forks, repository: str) -> None:
    end = forks.run(*command_of(kind, repository), stdout=place)

    assert OutputNotWritten.id in end.said
    assert ("it is closed" if place == "closed" else "No space left on device") in end.said
    assert "Traceback" not in end.said
    assert end.code == OutputNotWritten.exit_code


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_nobody_reads_any_more_ends_as_by_sigpipe(kind: str, forks: Forks, repository: str) -> None:
    end = forks.run(*command_of(kind, repository), stdout="unread")

    assert (end.code, end.said) == (EXIT_UNREAD, "")


@pytest.mark.parametrize("place", [FULL, "closed", "unread"])
@pytest.mark.parametrize("kind", ["list", "status", "verify", "cat of bytes"])
def test_nothing_fails_because_messages_cannot_be_written(kind: str, place: str, forks: Forks, repository: str) -> None:
    command = command_of(kind, repository)

    assert forks.run(*command, stderr=place).code == forks.run(*command).code


def test_an_error_stays_what_it_is_where_its_message_cannot_be_written(forks: Forks, tmp_path: Path) -> None:
    ends = [forks.run("list", "--repo", str(tmp_path / "none"), stderr=each) for each in ("", "closed", FULL)]

    assert [each.code for each in ends] == [10, 10, 10]


def test_a_command_with_nothing_to_write_ends_well_without_streams(forks: Forks, tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = ("list", "--repo", str(tmp_path / "none"), "--log-file", str(log))
    end = forks.run(*arguments, stdin="closed", stdout="closed", stderr="closed")

    assert end.code == 10
    assert "error=OFF-1001" in log.read_text()


def test_no_file_of_a_command_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    script = (
        "import os, sys; from offsite.cli.process import open_streams; open_streams();"
        f"os.write(os.open({str(tmp_path / 'numbers')!r}, os.O_CREAT | os.O_WRONLY), b'%d' % os.dup(0));"
        "print('told', file=sys.stderr); sys.stdin.read()"
    )
    command = f"exec {sys.executable} -c {shlex.quote(script)} <&- >&- 2>&-"

    subprocess.run(["sh", "-c", command], check=True)

    assert int((tmp_path / "numbers").read_text()) > 3


def test_output_waits_where_somebody_has_told_a_full_pipe_not_to_wait() -> None:
    script = "from offsite.cli.process import open_streams; open_streams(); print('x' * 3_000_000, flush=True)"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen([sys.executable, "-c", script], stdout=writer) as process:
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert len(pipe.read()) == 3_000_001
    assert process.returncode == 0


def test_a_working_folder_that_was_deleted_is_told(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    script = "from offsite.cli.main import main; main()"
    command = f'rmdir "$PWD"; exec {sys.executable} -c "{script}" sandbox start --dir sb'
    ended = subprocess.run(["sh", "-c", command], cwd=gone, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (2, "error[OFF-0202]: the working folder was deleted")
