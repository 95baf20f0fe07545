"""A real YARN on loopback: one ResourceManager and its NodeManagers, each a process of its own, ended with the block.

There is no HDFS: what YARN and Spark stage lies in the folder. Containers begin with nothing of this environment but
what YARN gives them, so nothing of offsite is in them that was not sent.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx

from offsite.engine.local.jvm import java_binary, spark_home
from offsite.sandbox.settings import free_ports
from offsite.sandbox.versions import Jar
from tests.fetched_tools import maven_jars
from tests.processes import processes_with, wait_until
from tests.spark_cluster import bare_environment

HADOOP = "3.5.0"
"""What Spark's jars are made with: one half of YARN is among them, and both must be of one version."""
_BOUNCY_CASTLE = "1.82"
_JARS = (
    Jar(
        group="org.apache.hadoop",
        artifact="hadoop-client-minicluster",
        version=HADOOP,
        sha256="06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    Jar(
        group="org.bouncycastle",
        artifact="bcpkix-jdk18on",
        version=_BOUNCY_CASTLE,
        sha256="bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    ),
    Jar(
        group="org.bouncycastle",
        artifact="bcprov-jdk18on",
        version=_BOUNCY_CASTLE,
        sha256="14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    ),
    Jar(
        group="org.bouncycastle",
        artifact="bcutil-jdk18on",
        version=_BOUNCY_CASTLE,
        sha256="4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
    ),
)

MARK = "OFFSITE_TEST_YARN"
"""A variable of the environment of all that belongs to a cluster, containers too; its value is the folder."""

_SERVERS = "org.apache.hadoop.yarn.server"
_MANAGERS = {
    "resourcemanager": f"{_SERVERS}.resourcemanager.ResourceManager",
    "nodemanager": f"{_SERVERS}.nodemanager.NodeManager",
}
_RM_ADDRESSES = tuple(
    f"yarn.resourcemanager.{use}address" for use in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
)
_NM_ADDRESSES = tuple(f"yarn.nodemanager.{use}address" for use in ("", "localizer.", "webapp."))
_SIZE = {"memory-mb": "3072", "cpu-vcores": "3"}
_QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_ATTEMPTS = 3
_UNTIL_OURS_ENDS = 'exec 3<&0; "$@" 3<&- & own=$!; { cat <&3; kill -9 $own; } >/dev/null 2>&1 & wait $own'
"""A shell that runs a command until its input ends, which is when the test process ends, however it does."""

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnCluster:
    """`conf` is a HADOOP_CONF_DIR; at `url` the ResourceManager tells what it knows."""

    conf: Path
    url: str

    def applications(self) -> list[dict[str, Any]]:
        """All there ever were, the newest first, as the ResourceManager describes them."""
        found = httpx.get(f"{self.url}/ws/v1/cluster/apps").json()["apps"] or {"app": []}
        return sorted(found["app"], key=lambda each: -int(each["startedTime"]))

    def logs(self, application: str) -> str:
        """All that the containers of an application that has ended wrote, as `yarn logs -applicationId` prints it."""
        command = _java(
            self.conf, "org.apache.hadoop.yarn.client.cli.LogsCLI", "-applicationId", application, tmp=self.conf
        )
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    def nodes(self) -> int:
        """Those that are there, 0 while nobody answers."""
        try:
            said = httpx.get(f"{self.url}/ws/v1/cluster/metrics").json()
        except (httpx.TransportError, ValueError):
            return 0
        return int(said["clusterMetrics"]["activeNodes"])

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ws/v1/cluster/info").is_success
        except httpx.TransportError:
            return False


@contextmanager
def yarn_cluster(folder: Path, *, nodes: int = 1) -> Iterator[YarnCluster]:
    """Ready, each node of 3 cores and 3 GiB. Logs are in `folder`. Raises `NoTool` where its jars cannot be had."""
    _jars()
    with ExitStack() as processes:
        processes.callback(_end_containers, folder)
        cluster, settings = _resource_manager(processes, folder)
        for number in range(nodes):
            own = folder / f"node-{number}"
            _start(processes, "nodemanager", _written(own / "conf", settings | _node_settings(own)), folder)
        wait_until(lambda: cluster.nodes() == nodes, f"{nodes} nodes of YARN, whose logs are in {folder}")
        yield cluster


def _resource_manager(processes: ExitStack, folder: Path) -> tuple[YarnCluster, dict[str, str]]:
    """On ports that were free a moment ago: should somebody have taken one meanwhile, on others."""
    for _ in range(_ATTEMPTS):
        ports = free_ports(len(_RM_ADDRESSES))
        settings = _common_settings(folder) | {
            name: f"127.0.0.1:{port}" for name, port in zip(_RM_ADDRESSES, ports, strict=True)
        }
        cluster = YarnCluster(conf=_written(folder / "conf", settings), url=f"http://127.0.0.1:{ports[-1]}")
        if _comes_up(_start(processes, "resourcemanager", cluster.conf, folder), cluster):
            return cluster, settings
    raise AssertionError((folder / "resourcemanager.log").read_text()[-2000:])


def _comes_up(process: subprocess.Popen[bytes], cluster: YarnCluster) -> bool:
    """Whether it answers, and has not ended before it did."""
    wait_until(lambda: process.poll() is not None or cluster.answers(), "an answer of YARN, or its end")
    return process.poll() is None


def _common_settings(folder: Path) -> dict[str, str]:
    """What clients need to know as well. An application is tried once: a second try would hide what is wrong."""
    return {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(folder / "tmp"),
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.am.max-attempts": "1",
        "yarn.resourcemanager.scheduler.class": f"{_SERVERS}.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": str(folder / "logs"),
    }


def _node_settings(own: Path) -> dict[str, str]:
    """The memory of containers is watched, the address space is not: Java takes as much of that as it likes."""
    return {
        **dict.fromkeys(_NM_ADDRESSES, "127.0.0.1:0"),
        **{f"yarn.nodemanager.resource.{name}": value for name, value in _SIZE.items()},
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.local-dirs": str(own / "local"),
        "yarn.nodemanager.log-dirs": str(own / "logs"),
        "yarn.nodemanager.user-home-dir": str(own / "home"),
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.env-whitelist": f"PATH,JAVA_HOME,SPARK_LOCAL_IP,{MARK}",
    }


def _written(folder: Path, settings: Settings) -> Path:
    rows = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("core-site.xml", "yarn-site.xml"):
        (folder / name).write_text("<configuration>" + "\n".join(rows) + "</configuration>", encoding="utf-8")
    return folder


def _start(processes: ExitStack, manager: str, conf: Path, folder: Path) -> subprocess.Popen[bytes]:
    environment = {
        **bare_environment(folder),
        "HOME": str(folder),
        "JAVA_HOME": str(java_binary().parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        MARK: str(folder),
    }
    with (folder / f"{manager}.log").open("ab") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _UNTIL_OURS_ENDS, "sh", *_java(conf, _MANAGERS[manager], tmp=folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            process_group=0,
        )
    processes.enter_context(process)
    processes.callback(_kill, process)
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all of its group. What it would put away goes with the folder."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _java(conf: Path, main_class: str, *arguments: str, tmp: Path) -> list[str]:
    """Spark's Hadoop is one half of YARN, and these jars are the other."""
    jars = _jars()
    paths = [str(conf), *sorted(map(str, jars.glob("*.jar"))), str(spark_home() / "jars" / "*")]
    return [
        str(java_binary()),
        *_QUICK,
        f"-Djava.io.tmpdir={tmp}",
        "-cp",
        os.pathsep.join(paths),
        main_class,
        *arguments,
    ]


@functools.cache
def _jars() -> Path:
    """Those that Spark's own lack. Raises `NoTool`."""
    found = [each.name for each in (spark_home() / "jars").glob("hadoop-client-api-*.jar")]
    assert found == [f"hadoop-client-api-{HADOOP}.jar"], f"Spark comes with {found} now: pin what belongs to it"
    return maven_jars(f"yarn-{HADOOP}", _JARS)


def _end_containers(folder: Path) -> None:
    """They are sessions of their own, so they outlive their node."""
    for pid in processes_with(MARK, str(folder)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_with(MARK, str(folder)), f"the end of the containers in {folder}")
