"""Settings that offsite gives to Spark: plain names and values, no secret among them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MAX_ATTEMPTS = 4
"""Attempts at one task before it has failed for good: Spark's own default on a cluster."""

LOOPBACK = "127.0.0.1"

WORKER_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # as Spark sets it for all its workers
    "PYTHONSAFEPATH": "1",  # `python -m` would put the current folder before the standard library
}


FIRM_SETTINGS = {"spark.speculation": "false"}
"""Not for anybody to choose: of two attempts at one partition of a restore the later one shuts the earlier one out."""


_DAEMON = "spark.python.daemon.module"


def common_settings() -> dict[str, str]:
    """Settings for any master: quiet, and of small memory however many jobs a continuous backup runs."""
    return {
        "spark.task.maxFailures": str(MAX_ATTEMPTS),
        _DAEMON: "offsite.spark.local.daemon",
        "spark.python.worker.reuse": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "1000",
    }


MAX_SOCKET_PATH_BYTES = 100
"""A socket's path must fit into sockaddr_un: 108 bytes on Linux, 104 on macOS."""

_SOCKET_NAME_BYTES = 43  # Spark's own names: a slash, a dot, a UUID, ".sock"


def local_settings(*, master: str, folder: Path) -> dict[str, str]:
    """Settings for one JVM on this machine: loopback only, temporary files in `folder` only, no metrics that nobody
    reads.

    Other users of the machine reach its ports as well. Spark draws the secret by itself, in the JVM, and tells it to
    nobody: in local mode nobody needs to connect.
    """
    return common_settings() | {
        "spark.authenticate": "true",
        "spark.master": master,
        "spark.local.dir": str(folder),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.python.unix.domain.socket.enabled": str(_sockets_fit(folder)).lower(),
        "spark.python.unix.domain.socket.dir": str(folder),
        "spark.eventLog.enabled": "false",
        "spark.metrics.staticSources.enabled": "false",
        "spark.metrics.executorMetricsSource.enabled": "false",
    }


def _sockets_fit(folder: Path) -> bool:
    """Over TCP each task waits 40 ms for a delayed acknowledgement; Spark asks for no secret on these sockets, so they
    belong into a private folder."""
    return len(str(folder).encode()) + _SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES


def plain_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """`local_settings` for a Spark that is started its own way: with its own parent of workers, which gives them the
    environment that the JVM would have given them."""
    handed_on = {f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()}
    return {name: value for name, value in settings.items() if name != _DAEMON} | handed_on
