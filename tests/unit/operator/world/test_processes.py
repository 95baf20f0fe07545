from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import JobNotBegun
from offsite.operator.core.processes import (
    LOG_MAX_BYTES,
    ProcessLaunch,
    begin,
    bound_log,
    is_alive,
    kill,
    last_words,
    terminate,
)
from offsite.repository.lease import ProcessIdentity
from tests.processes import is_alive as is_pid_alive
from tests.processes import wait_until

SLEEP = ProcessLaunch(argv=("sleep", "60"), environment=dict(os.environ))


def begun(tmp_path: Path, launch: ProcessLaunch = SLEEP, told: Path | None = None) -> ProcessIdentity:
    noted: list[ProcessIdentity] = []
    begin(launch, log=tmp_path / "log", note=noted.append, exit_code_file=told)
    return noted[0]


def shell(script: str) -> ProcessLaunch:
    return ProcessLaunch(argv=("sh", "-c", script), environment=dict(os.environ))


def test_a_process_is_found_again_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    identity = begun(tmp_path)
    assert is_alive(identity)
    terminate(identity)

    wait_until(lambda: not is_alive(identity), "the end")


def test_a_process_has_a_session_of_its_own(tmp_path: Path) -> None:
    identity = begun(tmp_path)

    assert os.getsid(int(identity.pid)) == int(identity.pid)
    kill(identity)


def test_another_process_that_has_the_id_by_now_is_not_taken_for_it_and_not_signalled(tmp_path: Path) -> None:
    identity = begun(tmp_path)
    other = replace(identity, started="1")
    terminate(other)
    kill(other)

    assert not is_alive(other)
    assert is_alive(identity)
    kill(identity)


def test_a_process_of_this_machine_is_ours_also_when_the_machine_had_another_name(tmp_path: Path) -> None:
    identity = replace(begun(tmp_path), host="former")

    assert is_alive(identity)
    kill(identity)
    wait_until(lambda: not is_alive(identity), "its end")


@pytest.mark.parametrize("part", ["boot", "namespace"])
def test_a_process_of_another_machine_boot_or_container_is_none_of_ours(tmp_path: Path, part: str) -> None:
    identity = begun(tmp_path)
    other = replace(identity, **{part: "another"})
    kill(other)

    assert not is_alive(other)
    assert is_alive(identity)
    kill(identity)


def test_it_does_nothing_before_it_is_noted(tmp_path: Path) -> None:
    flag = tmp_path / "flag"

    def note(_: ProcessIdentity) -> None:
        assert not flag.exists()

    begin(shell(f"touch {flag}"), log=tmp_path / "log", note=note)
    wait_until(flag.exists, "its work")


def test_it_ends_without_doing_anything_when_it_could_not_be_noted(tmp_path: Path) -> None:
    noted: list[ProcessIdentity] = []

    def note(identity: ProcessIdentity) -> None:
        noted.append(identity)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        begin(shell(f"touch {tmp_path / 'flag'}"), log=tmp_path / "log", note=note)
    wait_until(lambda: not is_alive(noted[0]), "its end")
    assert not (tmp_path / "flag").exists()


@pytest.mark.slow
def test_it_ends_without_doing_anything_when_its_beginner_is_killed_before_it_was_noted(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from offsite.operator.core.processes import ProcessLaunch, begin
def note(identity):
    Path({str(tmp_path / "pid")!r}).write_text(identity.pid)
    os.kill(os.getpid(), signal.SIGKILL)
launch = ProcessLaunch(argv=("touch", {str(tmp_path / "flag")!r}), environment=dict(os.environ))
begin(launch, log=Path({str(tmp_path / "log")!r}), note=note)
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)

    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not is_pid_alive(int((tmp_path / "pid").read_text())), "its end")
    assert not (tmp_path / "flag").exists()


@pytest.mark.parametrize("code", [0, 14])
def test_its_exit_code_is_told_to_whoever_comes_later(tmp_path: Path, code: int) -> None:
    told = tmp_path / "told"
    begun(tmp_path, shell(f"echo the end; exit {code}"), told)

    wait_until(told.exists, "its exit code")
    assert int(told.read_text()) == code
    assert last_words(tmp_path / "log") == "the end"


def test_of_one_that_is_killed_no_exit_code_is_told(tmp_path: Path) -> None:
    identity = begun(tmp_path, SLEEP, tmp_path / "told")
    kill(identity)

    wait_until(lambda: not is_alive(identity), "its end")
    assert not (tmp_path / "told").exists()


def test_a_program_that_there_is_not_ends_with_a_line_in_its_log(tmp_path: Path) -> None:
    identity = begun(tmp_path, ProcessLaunch(argv=(str(tmp_path / "nothing"),), environment={}))

    wait_until(lambda: not is_alive(identity), "its end")
    assert "not found" in last_words(tmp_path / "log")


def test_what_the_system_refuses_to_begin_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(JobNotBegun):
        begun(tmp_path, ProcessLaunch(argv=("true", "x" * 3_000_000), environment={}))


def test_a_full_log_is_kept_beside_an_empty_one_that_goes_on(tmp_path: Path) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    identity = begun(tmp_path, shell(f"while [ ! -e {go} ]; do sleep 0.02; done; echo more; sleep 60"))
    log.write_bytes(b"x" * (LOG_MAX_BYTES + 1))
    bound_log(log)
    go.touch()

    wait_until(lambda: log.read_bytes() == b"more\n", "the next line")
    kept = (tmp_path / "log.1").stat()
    assert (kept.st_size, kept.st_mode & 0o077) == (LOG_MAX_BYTES + 1, 0)
    kill(identity)


def test_logs_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    identity = begun(tmp_path)

    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    kill(identity)
