"""A real standalone Spark cluster on loopback: one master, one worker of two cores, ended with the block."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from offsite.spark.local.jvm import spark_home
from tests.processes import wait_until

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_JVMS = {f"spark.{each}.extraJavaOptions": _QUICK for each in ("driver", "executor")}
"""Settings for who runs a few small jobs on the cluster: the optimising compiler never pays off."""

_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The master's URL. Its processes have the environment of this one."""
    master, worker = folder / "master.log", folder / "worker.log"
    with ExitStack() as processes:
        _start(processes, master, f"{_DEPLOY}.master.Master", "--port", "0", "--webui-port", "0")
        url = _logged(master, r"Starting Spark master at (spark://\S+)")
        options = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), "--webui-port", "0", url)
        _start(processes, worker, f"{_DEPLOY}.worker.Worker", *options)
        _logged(worker, r"(Successfully registered with master)")
        yield url


def _start(processes: ExitStack, log: Path, main_class: str, *options: str) -> None:
    command = [f"{spark_home()}/bin/spark-class", main_class, "--host", "127.0.0.1", *options]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK,
    }
    with log.open("wb") as output:
        process = processes.enter_context(subprocess.Popen(command, stdout=output, stderr=output, env=environment))
    processes.callback(process.terminate)


def _logged(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()) is not None, f"{pattern} in {log}")
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found.group(1)
