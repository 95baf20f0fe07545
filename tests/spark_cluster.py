"""A real standalone Spark cluster on loopback: a master and workers, each a process group, ended with the block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.engine.local.jvm import spark_home
from tests import spark_classes
from tests.processes import wait_until

QUICK = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {spark_classes.USED}"
QUICK_JVMS = {f"spark.{each}.extraJavaOptions": QUICK for each in ("driver", "executor")}
"""Settings for who runs a few small jobs on the cluster: the optimising compiler never pays off."""

DEPLOY = "org.apache.spark.deploy"
END_LIMIT_S = 20.0


BARE = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""The environment of a machine without offsite: no PYTHONPATH, no virtual environment, no home."""


def bare_environment(folder: Path) -> Mapping[str, str]:
    """`BARE`, with a Python of this minor version on its path: the machine's own, or else the one below ours."""
    elsewhere, own_python = folder / "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not elsewhere.exists():
        elsewhere.mkdir()
        (elsewhere / own_python).symlink_to(Path(sys.base_prefix) / "bin" / own_python)
    return {**BARE, "PATH": f"{BARE['PATH']}:{elsewhere}"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Its processes, each the leader of its own group. What a worker's executors wrote lies in its folder `work`."""

    url: str
    master: subprocess.Popen[bytes]
    workers: Sequence[subprocess.Popen[bytes]]
    folders: Sequence[Path]


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with one worker of two cores. Its processes have the environment of this one."""
    with spark_cluster(folder, environments=[os.environ], cores=2) as cluster:
        yield cluster.url


@contextmanager
def spark_cluster(
    folder: Path, *, environments: Sequence[Mapping[str, str]], cores: int = 1, memory: str = "1g"
) -> Iterator[Cluster]:
    """A worker of `cores` and `memory` for each of `environments`, in which it and its executors run."""
    with ExitStack() as processes:
        log = folder / "master.log"
        options = ("--port", "0", "--webui-port", "0")
        master = _start(processes, log, os.environ, f"{DEPLOY}.master.Master", *options)
        url = logged(log, r"Starting Spark master at (spark://\S+)")
        folders = [folder / f"worker-{number}" for number in range(len(environments))]
        limits = ("--cores", str(cores), "--memory", memory)
        workers = [
            _worker(processes, each, environment, *limits, url)
            for each, environment in zip(folders, environments, strict=True)
        ]
        for each in folders:
            logged(each / "log", r"(Successfully registered with master)")
        yield Cluster(url, master, workers, folders)


def _worker(
    processes: ExitStack, folder: Path, environment: Mapping[str, str], *options: str
) -> subprocess.Popen[bytes]:
    folder.mkdir()
    places = ("--work-dir", str(folder / "work"), "--webui-port", "0")
    return _start(processes, folder / "log", environment, f"{DEPLOY}.worker.Worker", *places, *options)


def _start(
    processes: ExitStack, log: Path, environment: Mapping[str, str], main_class: str, *options: str
) -> subprocess.Popen[bytes]:
    command = [f"{spark_home()}/bin/spark-class", main_class, "--host", "127.0.0.1", *options]
    settings = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
    }
    with log.open("wb") as output:
        process = processes.enter_context(
            subprocess.Popen(
                command, stdout=output, stderr=output, env={**environment, **settings}, start_new_session=True
            )
        )
    processes.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end its executors and itself; what is left of its group then ends the hard way."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_LIMIT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def logged(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()) is not None, f"{pattern} in {log}")
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found.group(1)
