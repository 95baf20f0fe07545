"""The parts of Spark's start that need no Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, JavaMissing, SparkFailed
from offsite.spark.choice import SparkChoice
from offsite.spark.local.jvm import java_binary, scheduler_jars, spark_home
from offsite.spark.scratch import ORPHANED_AFTER_S, PREFIX, Scratch
from offsite.spark.sessions import local_session
from offsite.spark.sessions.master import check_reachable, runs_in_one_jvm, slots
from offsite.spark.settings import local_settings
from offsite.spark.spark_runner import SparkRunner


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
        "import os, sys; from offsite.spark.scratch import Scratch; folder = Scratch().create()\n"
        "if (child := os.fork()) == 0: sys.exit()\n"
        "os.waitpid(child, 0); print(folder.exists())"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", script], text=True, env=environment) == "True\n"
    assert list(tmp_path.iterdir()) == []


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
    script = "import sys, offsite.spark.spark_runner; print('pyspark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"


@pytest.mark.parametrize("port", ["9" * 5000, "70000", "\u00b2"])
def test_a_master_url_with_an_impossible_port_is_an_option_to_correct(port: str) -> None:
    with pytest.raises(BadOption):
        check_reachable(f"spark://host:{port}")


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
