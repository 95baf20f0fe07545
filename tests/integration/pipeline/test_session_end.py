"""The end of a driver, however it comes: no process, no folder and no noise is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsite.engine.scratch import ORPHANED_AFTER_S
from tests.processes import processes_with, wait_until

ROOT = Path(__file__).parents[3]
MARK = "OFFSITE_TEST_MARK"

TWO_RUNS = """
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from tests.spark_tasks import double
for _ in range(2):
    spark = SparkRunner(SparkChoice(master="local[2,4]"))
    print(spark.run([1, 2], double))
    spark.close()
"""

NO_CLOSE = """
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from tests.spark_tasks import double
print(SparkRunner(SparkChoice(master="local[2,4]")).run([1, 2], double))
"""

PLAIN_START = """
import logging
import sys
from operator import attrgetter
from importlib import import_module
from offsite.engine.local.pyspark_internals import PARTS
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from tests.spark_tasks import double
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
logging.getLogger("py4j").setLevel(logging.ERROR)
for module, name in PARTS:
    if module.startswith("pyspark."):
        delattr(import_module(module), name)
for _ in range(2):
    spark = SparkRunner(SparkChoice(master="local[2,4]"))
    print(spark.run([1, 2], double))
    spark.close()
"""

LONG_TASK = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell hands on that Ctrl-C is ignored
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from tests.spark_tasks import wait_for_ever
spark = SparkRunner(SparkChoice(master="local[2,4]"))
try:
    spark.run([Path(sys.argv[1])], wait_for_ever)
except KeyboardInterrupt:
    spark.close()
    print("interrupted")
"""

INTERRUPTED_START = """
import tempfile
import threading
import time
from pathlib import Path
from offsite.model.uninterrupted import interrupt
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
start = threading.Thread.start
def start_and_be_interrupted(thread):
    start(thread)
    if thread.name == "offsite-spark-start":
        while not any(Path(tempfile.gettempdir()).glob("offsite-spark-*/spark.log")):
            time.sleep(0.001)
        interrupt()
threading.Thread.start = start_and_be_interrupted
spark = SparkRunner(SparkChoice(master="local[2,4]"))
try:
    spark.begin()
except KeyboardInterrupt:
    spark.close()
    print("interrupted")
"""

ENDED_START = """
from offsite.engine.local.jvm import LocalJvm
from offsite.engine.scratch import Scratch
from offsite.engine.settings import local_settings
from offsite.model.clock import SystemClock
folder = Scratch().create()
LocalJvm(folder, local_settings(master="local[2,4]", folder=folder), environment={}, clock=SystemClock())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Own folder for temporary files, a mark to find the processes by; the class archive is the user's."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp"), MARK: uuid.uuid4().hex}


@contextmanager
def driver(script: str, environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def left_processes(environment: dict[str, str]) -> dict[int, str]:
    return processes_with(MARK, environment[MARK])


def left_files(environment: dict[str, str]) -> list[Path]:
    return list(Path(environment["TMPDIR"]).iterdir())


@pytest.mark.soak
def test_two_runs_in_one_process_leave_nothing_and_say_nothing(environment: dict[str, str]) -> None:
    with driver(TWO_RUNS, environment) as process:
        out, err = process.communicate()
    assert (out, err, process.returncode) == ("[2, 4]\n[2, 4]\n", "", 0)
    assert left_files(environment) == []
    wait_until(lambda: not left_processes(environment), "every process of the run to end")


NAMELESS = """
import socket
from unittest.mock import patch
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
try:
    socket.getaddrinfo(socket.gethostname(), None)
except socket.gaierror:
    print("no address")
with patch("offsite.engine.sessions.local_session.name_of_nameless", return_value="54321"):
    spark = SparkRunner(SparkChoice(master="local[1]"))
    print(spark.run([-1], abs))
    print(spark._session.ready()[0].sparkUser())
    spark.close()
"""


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the machine another name")
def test_spark_starts_for_a_host_without_an_address_and_a_user_without_a_name(environment: dict[str, str]) -> None:
    renamed = ["unshare", "--uts", "sh", "-c", 'hostname no-such-host-7f9c.invalid; exec "$@"', "sh"]
    command = [*renamed, sys.executable, "-c", NAMELESS]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout.splitlines(), ended.returncode) == (["no address", "[1]", "54321"], 0), ended.stderr


@pytest.mark.soak  # two slow starts of Spark
def test_a_pyspark_without_the_parts_that_the_quick_start_needs_is_started_its_own_way(
    environment: dict[str, str],
) -> None:
    with driver(PLAIN_START, environment) as process:
        out, _ = process.communicate()
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith("plain_start")] == ["[2, 4]", "[2, 4]"]
    assert [line.partition(" ")[0] for line in lines] == ["plain_start", "[2,", "plain_start", "[2,"]
    assert left_files(environment) == []
    wait_until(lambda: not left_processes(environment), "every process of the run to end")


def test_a_driver_that_forgets_to_close_leaves_no_process(environment: dict[str, str]) -> None:
    with driver(NO_CLOSE, environment) as process:
        process.communicate()
    assert process.returncode == 0
    wait_until(lambda: not left_processes(environment), "every process of the run to end")


def test_a_driver_interrupted_before_it_knows_its_session_leaves_no_jvm(environment: dict[str, str]) -> None:
    """One that listens without a folder to tell where would wait for ever."""
    with driver(INTERRUPTED_START, environment) as process:
        out, err = process.communicate()
    assert (out, err) == ("interrupted\n", "")
    wait_until(lambda: not left_processes(environment), "every process of the run to end")
    assert left_files(environment) == []


def test_a_driver_that_ends_while_its_jvm_starts_leaves_none(environment: dict[str, str]) -> None:
    with driver(ENDED_START, environment) as process:
        assert process.communicate() == ("", "")
    wait_until(lambda: not left_processes(environment), "every process of the run to end")
    assert left_files(environment) == []


def test_a_driver_killed_in_the_middle_of_a_task_leaves_no_process(environment: dict[str, str], tmp_path: Path) -> None:
    with driver(LONG_TASK, environment, str(tmp_path / "started")) as process:
        wait_until((tmp_path / "started").exists, "the task to start")
        assert len(left_processes(environment)) >= 4  # driver, JVM, daemon, worker
        process.kill()
    wait_until(lambda: not left_processes(environment), "every process of the run to end")


@pytest.mark.soak
def test_what_a_killed_driver_left_is_deleted_by_a_later_one(environment: dict[str, str], tmp_path: Path) -> None:
    with driver(LONG_TASK, environment, str(tmp_path / "started")) as process:
        wait_until((tmp_path / "started").exists, "the task to start")
        process.kill()
    wait_until(lambda: not left_processes(environment), "every process of the run to end")
    (left,) = left_files(environment)
    long_ago_s = left.stat().st_mtime - ORPHANED_AFTER_S - 60
    os.utime(left, (long_ago_s, long_ago_s))
    with driver(TWO_RUNS, environment) as process:
        process.communicate()
    assert left_files(environment) == []


def test_ctrl_c_ends_a_run_at_once_and_quietly(environment: dict[str, str], tmp_path: Path) -> None:
    with driver(LONG_TASK, environment, str(tmp_path / "started")) as process:
        wait_until((tmp_path / "started").exists, "the task to start")
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert (out, err) == ("interrupted\n", "")
    wait_until(lambda: not left_processes(environment), "every process of the run to end")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder after a first run has recorded its class archive into it."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache), MARK: uuid.uuid4().hex}
    with driver(NO_CLOSE, environment) as process:
        process.communicate()
    wait_until(lambda: not left_processes(environment), "the recording to end")
    return cache


@pytest.mark.soak
def test_the_first_run_records_a_class_archive_for_the_next(recorded: Path) -> None:
    (archive,) = (recorded / "offsite" / "cds").iterdir()
    assert archive.suffix == ".jsa"
    assert archive.stat().st_size > 10 << 20


@pytest.mark.soak
def test_a_class_archive_cut_short_costs_no_run(recorded: Path, environment: dict[str, str], tmp_path: Path) -> None:
    environment["XDG_CACHE_HOME"] = str(shutil.copytree(recorded, tmp_path / "cache"))
    (archive,) = (tmp_path / "cache" / "offsite" / "cds").iterdir()
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.truncate(1 << 20)
    with driver(TWO_RUNS, environment) as process:
        out, err = process.communicate()
    assert (out, err, process.returncode) == ("[2, 4]\n[2, 4]\n", "", 0)
