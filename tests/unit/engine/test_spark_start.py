"""The parts of Spark's start that need no Spark."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from offsite.engine.local.jvm import LocalJvm, java_binary, scheduler_jars, spark_home
from offsite.engine.scratch import ORPHANED_AFTER_S, PREFIX, Scratch
from offsite.engine.sessions import local_session
from offsite.engine.sessions.master import check_reachable, runs_in_one_jvm, slots
from offsite.engine.sessions.session import BorrowedSession
from offsite.engine.settings import SparkChoice, local_settings
from offsite.engine.spark_runner import SparkRunner
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, JavaMissing, SparkFailed
from offsite.model.untrusted.java_failure import JAVA_HOME_HINT
from offsite.sandbox.java import find_java


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[4]", True),
        ("local[*,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_plain_local_master_runs_in_one_jvm(master: str, local: bool) -> None:
    assert runs_in_one_jvm(master) is local


@pytest.mark.parametrize(("master", "most"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[0]", 1)])
def test_a_local_master_runs_as_many_as_it_says_and_what_is_cut_for_it_is_cut_for_one_at_least(
    master: str, most: int
) -> None:
    assert slots(master) == most


def test_one_answering_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


def test_masters_that_do_not_answer_are_named() -> None:
    with pytest.raises(SparkFailed, match=r"spark://127\.0\.0\.1:1"):
        check_reachable("spark://127.0.0.1:1")


def test_a_master_url_without_a_port_is_an_option_to_correct() -> None:
    with pytest.raises(BadOption):
        check_reachable("spark://host")


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=str(tmp_path)):
        java_binary()


@pytest.mark.parametrize("home", ["bin/java", "bin"])
def test_a_java_home_that_is_the_program_is_told_from_no_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    launcher = tmp_path / "bin" / "java"
    launcher.parent.mkdir()
    launcher.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    for find in (java_binary, find_java):
        with pytest.raises(JavaMissing) as raised:
            find()
        assert raised.value.hint == JAVA_HOME_HINT


def test_the_class_path_is_short_and_begins_with_spark() -> None:
    jars = scheduler_jars(spark_home())
    assert jars[0].name.startswith("spark-core_")
    assert len(jars) < len(list((spark_home() / "jars").glob("*.jar"))) * 2 / 3


def test_a_folder_with_a_long_name_falls_back_from_unix_sockets() -> None:
    name = "spark.python.unix.domain.socket.enabled"
    assert local_settings(master="local", folder=Path("/tmp/short"))[name] == "true"
    assert local_settings(master="local", folder=Path("/tmp") / ("long" * 20))[name] == "false"


def test_scratch_is_private_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scratch = Scratch()
    folder = scratch.create()
    assert folder == scratch.create()
    assert folder.stat().st_mode & 0o077 == 0
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_scratch_goes_with_its_owner_though_it_was_not_asked_to_and_not_with_a_fork(tmp_path: Path) -> None:
    script = (
        "import os, sys; from offsite.engine.scratch import Scratch; folder = Scratch().create()\n"
        "if (child := os.fork()) == 0: sys.exit()\n"
        "os.waitpid(child, 0); print(folder.exists())"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", script], text=True, env=environment) == "True\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_temporary_folder_that_cannot_be_made_is_told_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: bool
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

    monkeypatch.setattr("tempfile.mkdtemp" if known else "tempfile.gettempdir", refuse)
    with pytest.raises(BadOption, match=f"{tmp_path}: No space left on device") as raised:
        Scratch().create()
    assert "TMPDIR" in raised.value.hint


def test_scratch_of_a_dead_process_goes_once_its_jvm_cannot_be_starting_any_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    fresh, old = tmp_path / f"{PREFIX}{ended.pid}-fresh", tmp_path / f"{PREFIX}{ended.pid}-old"
    fresh.mkdir()
    old.mkdir()
    long_ago_s = fresh.stat().st_mtime - 2 * ORPHANED_AFTER_S
    os.utime(old, (long_ago_s, long_ago_s))
    Scratch().create()
    assert fresh.exists()
    assert not old.exists()


def test_scratch_of_a_living_process_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    living, strange = tmp_path / f"{PREFIX}{os.getppid()}-x", tmp_path / f"{PREFIX}x"
    living.mkdir()
    strange.mkdir()
    Scratch().create()
    assert living.exists()
    assert strange.exists()


def test_importing_the_runner_imports_no_pyspark() -> None:
    script = "import sys, offsite.engine.spark_runner; print('pyspark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"


@pytest.mark.parametrize("port", ["9" * 5000, "70000", "\u00b2"])
def test_a_master_url_with_an_impossible_port_is_an_option_to_correct(port: str) -> None:
    with pytest.raises(BadOption):
        check_reachable(f"spark://host:{port}")


def fake_java(folder: Path, script: str) -> str:
    """A `JAVA_HOME` of a Java that does what `script` says."""
    launcher = folder / "home" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\n{script}\n")
    launcher.chmod(0o755)
    return str(folder / "home")


def started(folder: Path) -> LocalJvm:
    settings = local_settings(master="local", folder=folder)
    return LocalJvm(folder, settings, environment={}, clock=SystemClock())


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo Unrecognized VM option >&2; exit 1", "Unrecognized VM option"),
        ("kill -9 $$", "it was killed by SIGKILL"),
        ("exit 3", "exit code 3, without output"),
    ],
)
def test_a_jvm_that_ends_as_it_starts_is_told_by_its_cause(
    script: str, words: str, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache") if recorded else os.devnull)
    jvm = started(tmp_path)
    try:
        with pytest.raises(SparkFailed, match=f"ended during its start: {words}$"):
            jvm.gateway()
    finally:
        jvm.close()


def test_a_jvm_that_ends_behind_its_start_is_told_by_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that gets no more memory: what is wrong with the connection to it is no cause."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (tmp_path / "told").write_bytes(struct.pack(">ii", port, 1) + b"x")
    telling = f"cp {tmp_path}/told $_PYSPARK_DRIVER_CONN_INFO_PATH"
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, f"echo '# There is insufficient memory.'; {telling}; exit 1"))
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    runner = SparkRunner(SparkChoice(master="local[1,1]"))
    try:
        with pytest.raises(SparkFailed, match="did not start: # There is insufficient memory") as raised:
            runner.run([1], str)
    finally:
        runner.close()
    assert "free memory" in raised.value.hint


def test_a_failed_start_is_told_although_the_jvm_that_would_explain_it_has_ended() -> None:
    class JavaError(Exception):
        def __str__(self) -> str:
            raise ConnectionResetError

    def lend() -> NoReturn:
        raise JavaError

    with pytest.raises(SparkFailed, match="did not start: JavaError"):
        BorrowedSession(lend).ready()


def test_a_jvm_asks_for_no_address_of_this_host_and_needs_no_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, "echo Error: in $(pwd -P) at $SPARK_LOCAL_IP; exit 1"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    (gone := tmp_path / "gone").mkdir()
    before = Path.cwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        jvm = started(tmp_path)
    finally:
        os.chdir(before)
    with pytest.raises(SparkFailed, match=f"Error: in {tmp_path} at 127.0.0.1"):
        jvm.gateway()
    jvm.close()


def test_an_error_of_our_own_is_no_missing_part_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise TypeError("ours")

    monkeypatch.setattr(local_session, "LocalJvm", broken)
    monkeypatch.setattr(local_session, "SubmittedSpark", lambda *_: pytest.fail("started the plain way"))
    runner = SparkRunner(SparkChoice(master="local[1,1]"))
    try:
        with pytest.raises(SparkFailed, match="ours"):
            runner.run([1], str)
    finally:
        runner.close()
