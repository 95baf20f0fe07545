"""The settings of Spark, as plain names and values: chosen by a person, and given by offsite. Secret ones are detected
by name. What a person chooses is one frozen value for commands and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.errors import BadOption
from offsite.model.journal import decided, warned
from offsite.model.machine import exposure, is_loopback
from offsite.model.options import SecretsChoice
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties

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
"""Settings that nobody may change: see `_FIRM_REASONS`."""

_FIRM_REASONS = {
    "spark.speculation": "of two attempts at one partition of a restore, the later one stops the earlier one",
    "spark.task.maxFailures": "the last attempt at a task returns the error, so offsite must know the last attempt",
    "spark.python.worker.reuse": "workers keep their broker connections between tasks",
    _DAEMON: "workers need it to delete unfinished files when they are stopped",
}

_FUNCTION_IN_FILE = "spark.broadcast.UDFCompressionThreshold"
"""From this size on pyspark puts a function into files, on the driver and on every executor: the function may hold
secrets."""
CLOSED_PAGES = {"spark.ui.enabled": "false", "spark.ui.killEnabled": "false"}
"""Spark's pages show settings and plans to everybody who reaches the port, with links that end jobs."""
_REDACTION = "spark.redaction.regex"
_SECRET = re.compile("secret|password|token|access[.]?key|account[.]?key", re.IGNORECASE)
"""Names of settings that Spark itself hides, and names of Azure's keys."""
MAX_SOCKET_PATH_BYTES = 100
"""A socket's path must fit into sockaddr_un: 108 bytes on Linux, 104 on macOS."""
_SOCKET_NAME_BYTES = 43  # Spark's own names: a slash, a dot, a UUID, ".sock"
STRANGERS = "spark.offsite.strangers"
"""Whether restores run on a Spark without authentication: `allowed`, else not."""
_SPARK_PREFIX = "spark."
_SETTING_NAME = re.compile(r"spark\.[^\s=\0]+")


def merge_settings(defaults: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Merge offsite's `defaults`, the `chosen` settings of a person over them, and the firm settings over all.
    Overruled settings are logged."""
    for name, value in FIRM_SETTINGS.items():
        if chosen.get(name, value) != value:
            decided("setting_overruled", why=_FIRM_REASONS[name], setting=name, asked=chosen[name], used=value)
    return {**defaults, **chosen, **FIRM_SETTINGS}


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


VARIABLES = frozenset(f"OFFSITE_SPARK_{name}" for name in ("MASTER", "CONF", "PROPERTIES", "ARCHIVE")) | {
    "OFFSITE_SECRETS"
}
"""Environment variables by which commands learn everything chosen here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """`master`: a Spark master URL, `SUBMITTED`, or None for this machine's cores. `conf`: Spark settings, without
    secrets of Kafka or of a store. `archive`: a file or URL made by `offsite spark pack`, for executors without
    offsite. `secrets`: how executors get Kafka's secrets."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    archive: str | None = None
    secrets: SecretsChoice = SecretsChoice.DEFAULT

    def __post_init__(self) -> None:
        """Take the master out of the settings, unless one was named besides, because most settings files contain a
        master. The master decides where code runs, and whether others can read the traffic."""
        conf = dict(self.conf)
        named = conf.pop("spark.master", None)
        object.__setattr__(self, "conf", conf)
        object.__setattr__(self, "master", self.master or named)

    def environment(self) -> Mapping[str, str]:
        """Return the variables by which another command makes the same choice, given no further `VARIABLES`. Raises
        `BadOption` for settings that do not fit on a line."""
        variables = {
            "OFFSITE_SPARK_MASTER": self.master,
            "OFFSITE_SPARK_CONF": lines_of(self.conf),
            "OFFSITE_SPARK_ARCHIVE": self.archive,
            "OFFSITE_SECRETS": str(self.secrets),
        }
        return {name: value for name, value in variables.items() if value}


def settings_of(properties: Path | None, pairs: Sequence[str]) -> Mapping[str, str]:
    """Read Spark settings from a file such as `spark-defaults.conf`, and from texts such as `spark.executor.memory=2g`,
    which win. Raises `BadOption` for a name without the prefix `spark.`, and for unreadable settings."""
    settings = {**dict(_of_file(properties)), **dict(map(_of_pair, pairs))}
    _check_lines(settings)
    return settings


def lines_of(settings: Mapping[str, str]) -> str:
    """Return `settings` in the form of OFFSITE_SPARK_CONF, one line per setting. Raises `BadOption` for a setting that
    does not fit on a line."""
    _check_lines(settings)
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _check_lines(settings: Mapping[str, str]) -> None:
    """Check names and values. No message holds a value, because a value may be a secret."""
    for name, value in settings.items():
        if not _SETTING_NAME.fullmatch(name):
            raise BadOption(f"{name[:200]!r} is not a Spark setting", hint="names of settings have no blanks and no =")
        if "\n" in value or "\0" in value:
            raise BadOption(f"the value of {name[:200]} is not one line of text", hint="write it without line breaks")


def _of_file(path: Path | None) -> Iterator[tuple[str, str]]:
    if path is None:
        return
    try:
        text, why = decode_text(path.read_bytes()), exposure(path.stat())
    except (OSError, NotUtf8) as error:
        raise BadOption(f"cannot read {path}: {error}", hint="check --spark-properties") from error
    settings = parse_properties(text)
    if why and split_secrets({setting.name: setting.value for setting in settings})[1]:
        warned("readable_by_others", why=f"it contains a secret, and {why}", file=path)
    for setting in settings:
        if not setting.name.startswith(_SPARK_PREFIX):
            raise BadOption(
                f"{path}:{setting.line}: {setting.name!r} is not a Spark setting",
                hint="names of Spark settings begin with spark.",
            )
        yield setting.name, setting.value.strip()


def _of_pair(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip().startswith(_SPARK_PREFIX):
        raise BadOption(
            f"--spark-conf {name[:200]!r} is not a Spark setting",
            hint="write it as --spark-conf spark.executor.memory=2g",
        )
    return name.strip(), value.strip()
