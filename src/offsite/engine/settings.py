"""Settings that offsite gives to Spark, as plain names and values, and the detection of secret settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from offsite.model.errors import BadOption
from offsite.model.hosts import is_loopback
from offsite.model.journal import decided

MAX_ATTEMPTS = 4
"""Attempts at one task before the task has failed for good: Spark's own default on a cluster."""

DRIVER_MEMORY_MIB = 512
"""The heap of the driver's JVM, which schedules and holds no data."""

LOOPBACK = "127.0.0.1"

WORKER_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # as Spark sets it for all its workers
    "PYTHONSAFEPATH": "1",  # `python -m` would put the current folder before the standard library
}


_DAEMON = "spark.python.daemon.module"

FIRM_SETTINGS = {
    "spark.speculation": "false",
    "spark.task.maxFailures": str(MAX_ATTEMPTS),
    "spark.python.worker.reuse": "true",
    _DAEMON: "offsite.engine.local.daemon",
}
"""Settings that nobody may change: see `_WHY`."""

_WHY = {
    "spark.speculation": "of two attempts at one partition of a restore, the later one stops the earlier one",
    "spark.task.maxFailures": "the last attempt at a task returns the error, so offsite must know the last attempt",
    "spark.python.worker.reuse": "workers keep their broker connections between tasks",
    _DAEMON: "workers need it to delete unfinished files when they are stopped",
}


def merge_settings(defaults: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Merge offsite's `defaults`, the `chosen` settings of a person over them, and the firm settings over all.
    Overruled settings are logged."""
    for name, value in FIRM_SETTINGS.items():
        if chosen.get(name, value) != value:
            decided("setting_overruled", why=_WHY[name], setting=name, asked=chosen[name], used=value)
    return {**defaults, **chosen, **FIRM_SETTINGS}


_FUNCTION_IN_FILE = "spark.broadcast.UDFCompressionThreshold"
"""From this size on pyspark puts a function into files, on the driver and on every executor: the function may hold
secrets."""


CLOSED_PAGES = {"spark.ui.enabled": "false", "spark.ui.killEnabled": "false"}
"""Spark's pages show settings and plans to everybody who reaches the port, with links that end jobs."""


def common_settings() -> dict[str, str]:
    """Return settings for any master, with small memory however many jobs a continuous backup runs."""
    return {
        "spark.driver.memory": f"{DRIVER_MEMORY_MIB}m",
        "spark.ui.showConsoleProgress": "false",
        **CLOSED_PAGES,
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "1000",
        _FUNCTION_IN_FILE: "2047m",
    }


def light_jvm_settings(chosen: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return further settings beside `chosen` settings, over the cluster's `defaults`, for JVMs that only pass bytes
    on: the optimising compiler would take more CPU than a job of a few seconds, and never pay off. Where Spark
    encrypts, the compiler stays, because Java's ciphers need it.

    The settings are default options: extra options of a person or the cluster come behind, and win.
    """
    settings = {**defaults, **chosen}
    if _encrypts_network(settings) or _is_on(settings, "spark.io.encryption.enabled"):
        return {}
    names = {f"spark.{role}.defaultJavaOptions" for role in ("driver", "executor")}
    return dict.fromkeys(sorted(names - defaults.keys()), "-XX:TieredStopAtLevel=1")


def encryption_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return further settings beside `chosen` settings that switch on Spark's AES encryption. Nobody on the way may
    then ask for less, as Spark's default allows, and data spilled to disks is encrypted too."""
    if not _by_aes(chosen):
        return {}
    return {"spark.network.crypto.saslFallback": "false", "spark.io.encryption.enabled": "true"}


_REDACTION = "spark.redaction.regex"
_SECRET = re.compile("secret|password|token|access[.]?key|account[.]?key", re.IGNORECASE)
"""Names of settings that Spark itself hides, and names of Azure's keys."""


def split_secrets(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split `settings` into shown and secret ones. Any user of the machine may read shown settings on a command line;
    secret settings must not be on a command line. A name is secret by `_SECRET`, or by the person's own
    `spark.redaction.regex`, which distinguishes upper and lower case as Spark does. Raises `BadOption` for an
    unreadable pattern."""
    redaction = _own_redaction(settings.get(_REDACTION, ""))
    hidden = {name for name in settings if _SECRET.search(name) or (redaction is not None and redaction.search(name))}
    shown = {name: value for name, value in settings.items() if name not in hidden}
    return shown, {name: settings[name] for name in settings if name in hidden}


def _own_redaction(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if pattern else None
    except re.error as error:
        raise BadOption(
            f"{_REDACTION}: {error}, as Python reads patterns",
            hint="write it in a way that Java and Python both understand: flags such as (?i) come first",
        ) from error


MAX_SOCKET_PATH_BYTES = 100
"""A socket's path must fit into sockaddr_un: 108 bytes on Linux, 104 on macOS."""

_SOCKET_NAME_BYTES = 43  # Spark's own names: a slash, a dot, a UUID, ".sock"


def local_settings(*, master: str, folder: Path) -> dict[str, str]:
    """Return settings for one JVM on this machine: loopback only, temporary files in `folder` only, no unread metrics.

    Further users of the machine reach the JVM's ports too. Spark draws the secret itself, in the JVM, and tells nobody:
    in local mode nobody needs to connect.
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
    """Whether Unix sockets fit into `folder`. Over TCP every task waits 40 ms for a delayed acknowledgement. Spark asks
    for no secret on the sockets, so they belong into a private folder."""
    return len(str(folder).encode()) + _SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES


def plain_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `local_settings` for a Spark started in Spark's own way: with Spark's own parent of workers, and with the
    environment that the JVM would have given to workers."""
    return {name: value for name, value in settings.items() if name != _DAEMON} | executor_variables(WORKER_ENVIRONMENT)


def executor_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return settings that put `variables` into the environment of executors."""
    return {f"spark.executorEnv.{name}": value for name, value in variables.items()}


STRANGERS = "spark.offsite.strangers"
"""Whether restores run on a Spark without authentication: `allowed`, else not."""


def accepts_strangers(settings: Mapping[str, str], *, in_one_jvm: bool) -> bool:
    """Whether anybody who reaches the ports of driver and executors may send them code, because Spark asks for no
    secret. On loopback addresses "anybody" means the machine's further users; executors have addresses of their own. A
    Spark `in_one_jvm` has no executors, so only other machines count. Source: Spark's page "Security",
    authentication."""
    host = settings.get("spark.driver.host", "")
    is_here = is_loopback(host) and is_loopback(settings.get("spark.driver.bindAddress", host))
    return not _is_on(settings, "spark.authenticate") and not (in_one_jvm and is_here)


def is_private(settings: Mapping[str, str]) -> bool:
    """Whether nobody on the network can read Spark's traffic: the traffic is encrypted, or stays on this machine,
    because executors on another machine could not reach a driver on loopback.

    Authentication alone encrypts nothing. Source: Spark's page "Security", AES-based encryption and SSL for RPC.
    """
    return _encrypts_network(settings) or is_loopback(settings.get("spark.driver.host", ""))


def _encrypts_network(settings: Mapping[str, str]) -> bool:
    return _by_aes(settings) or _is_on(settings, "spark.ssl.rpc.enabled")


def _by_aes(settings: Mapping[str, str]) -> bool:
    return _is_on(settings, "spark.authenticate") and _is_on(settings, "spark.network.crypto.enabled")


def _is_on(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "false").strip().lower() == "true"
