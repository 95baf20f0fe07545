"""A real standalone Spark cluster on loopback that loses parts of itself: a master and workers of one core, each with
all that it starts a machine of its own, which can be killed, stopped, woken and started anew.

What belongs to a machine is known by a variable in its environment: Spark's Python daemons leave the process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from offsite.engine.local.jvm import spark_home
from tests.processes import processes_with
from tests.spark_cluster import DEPLOY, QUICK, QUICK_JVMS, logged

MACHINE = "OFFSITE_TEST_MACHINE"
LOOPBACK = "127.0.0.1"
_NOTICED_AFTER_S = 5

QUICKLY_NOTICED = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "6s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "6000",
    "spark.network.timeoutInterval": "1s",
    "spark.driver.host": LOOPBACK,
    "spark.offsite.strangers": "allowed",
    "spark.executor.memory": "512m",
    **QUICK_JVMS,
}
"""Spark settings for who loses executors in a test: a silent one is given up after seconds, not after two minutes."""


class Part(StrEnum):
    """Processes that run tasks, by what stands in their command lines."""

    EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    PYTHON = "offsite.engine.local.daemon"


@dataclass(slots=True, kw_only=True)
class Machine:
    """A process in a group of its own with all that it starts. `log` is written anew with each start."""

    name: str
    command: list[str]
    folder: Path
    ready: str
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def mark(self) -> str:
        return str(self.folder / self.name)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> str:
        """Return when its log has `ready`, with what stands in its brackets."""
        self.launch()
        return self.wait_until_ready()

    def launch(self) -> None:
        daemon = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOG_DIR": str(self.folder)}
        environment = {**os.environ, **daemon, **self.environment, MACHINE: self.mark}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                self.command, stdout=output, stderr=output, env=environment, start_new_session=True
            )

    def wait_until_ready(self) -> str:
        return logged(self.log, self.ready)

    def processes(self, part: Part | None = None) -> list[int]:
        """Ids of the living processes of this machine, or of those that run tasks."""
        return [pid for pid, command in processes_with(MACHINE, self.mark).items() if part is None or part in command]

    def signal(self, number: signal.Signals, part: Part | None = None) -> int:
        """How many there were."""
        found = self.processes(part)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(found)

    def kill(self) -> None:
        """As when the power fails."""
        while self.signal(signal.SIGKILL):  # again: one of them may have started another meanwhile
            pass
        if self.process is not None:
            self.process.wait()

    def stop(self) -> None:
        """As when it is cut off: connections stay open, and no answer comes."""
        self.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """All that was stopped goes on, as if no time had passed."""
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        self.kill()
        self.start()

    def kill_executors(self, *parts: Part) -> int:
        """SIGKILL to the executors' JVMs, to Python's daemons and workers, or to both; how many there were."""
        return sum(self.signal(signal.SIGKILL, part) for part in parts or tuple(Part))


@dataclass(slots=True, kw_only=True)
class WorkerCluster:
    master: Machine
    url: str = ""
    workers: list[Machine] = field(default_factory=list)

    @property
    def machines(self) -> list[Machine]:
        return [self.master, *self.workers]

    def mend(self) -> None:
        """All of them run, and none is stopped."""
        for machine in self.machines:
            machine.wake()
            if machine.process is None or machine.process.poll() is not None:
                machine.restart()


@contextmanager
def worker_cluster(
    folder: Path, *, count: int = 3, recovers: bool = True, environment: Mapping[str, str] | None = None
) -> Iterator[WorkerCluster]:
    """`count` workers, whose Python finds offsite and these tests. `recovers`: a master that is started anew knows
    the applications and workers of the one before."""
    found = {"PYTHONPATH": str(Path(__file__).parents[1]), **(environment or {})}
    cluster = WorkerCluster(master=_master(folder, recovers=recovers, environment=found))
    try:
        cluster.url = cluster.master.start()
        port = cluster.url.rpartition(":")[2]
        cluster.master.command[cluster.master.command.index("--port") + 1] = port  # the same when it is started anew
        cluster.workers += (_worker(folder, cluster.url, f"worker-{number}", found) for number in range(count))
        for worker in cluster.workers:
            worker.launch()
        for worker in cluster.workers:
            worker.wait_until_ready()
        yield cluster
    finally:
        for machine in cluster.machines:
            machine.kill()


def _master(folder: Path, *, recovers: bool, environment: Mapping[str, str]) -> Machine:
    (folder / "recovery").mkdir()
    recovery = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": str(folder / "recovery")} if recovers else {}
    options = {f"spark.deploy.{name}": value for name, value in recovery.items()}
    options["spark.worker.timeout"] = str(_NOTICED_AFTER_S)
    given = " ".join([QUICK, *(f"-D{name}={value}" for name, value in options.items())])
    return Machine(
        name="master",
        command=_command("master.Master", "--port", "0"),
        folder=folder,
        ready=r"Starting Spark master at (spark://\S+)",
        environment={**environment, "SPARK_DAEMON_JAVA_OPTS": given},
    )


def _worker(folder: Path, url: str, name: str, environment: Mapping[str, str]) -> Machine:
    options = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"{name}-work"), url)
    return Machine(
        name=name,
        command=_command("worker.Worker", *options),
        folder=folder,
        ready=r"(Successfully registered with master)",
        environment={**environment, "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.worker.timeout={_NOTICED_AFTER_S}"},
    )


def _command(main_class: str, *options: str) -> list[str]:
    return [
        f"{spark_home()}/bin/spark-class",
        f"{DEPLOY}.{main_class}",
        *("--host", LOOPBACK, "--webui-port", "0"),
        *options,
    ]


def spark_defaults(folder: Path) -> dict[str, str]:
    """The environment of a command whose Spark is to go by `QUICKLY_NOTICED`; files in `folder`."""
    settings = folder / "spark-conf"
    settings.mkdir(exist_ok=True)
    lines = [f"{name} {value}" for name, value in QUICKLY_NOTICED.items()]
    (settings / "spark-defaults.conf").write_text("\n".join(lines))
    return {"SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": LOOPBACK}
