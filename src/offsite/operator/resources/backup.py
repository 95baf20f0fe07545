"""The resource `Backup`: a continuous backup of a cluster. The times in the names of its backups are in Go's notation.

In Go's notation a layout shows how the moment `Mon Jan 2 15:04:05 MST 2006` would be written. Source: package
`time` of Go, functions `nextStdChunk` and `Time.Format`. UTC only: a backup name is the same on every machine. Go
itself wrote the expected outputs in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints

from offsite.engine.settings import SparkChoice
from offsite.model.errors import BadOption
from offsite.model.names import named
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.text import shorten
from offsite.operator.resources.model import (
    Duration,
    Line,
    Name,
    OptionalDuration,
    OptionalName,
    Patterns,
    Resource,
    Sparse,
    Strict,
    Text,
)
from offsite.operator.resources.pod_template import NUMBER_OR_TEXT, VARIABLE_NAMES, PodMetadata, PodSpec

DEFAULT_TIMESTAMP_FORMAT = "-2006-01-02T15:04:05Z-07:00"
FINALIZER = "offsite.dev/deletion"
SPARK_NAMES = (
    *("spark.cores.max", "spark.default.parallelism", "spark.driver.cores", "spark.driver.maxResultSize"),
    *("spark.driver.memory", "spark.driver.memoryOverhead", "spark.dynamicAllocation.enabled"),
    *("spark.dynamicAllocation.executorIdleTimeout", "spark.dynamicAllocation.initialExecutors"),
    *("spark.dynamicAllocation.maxExecutors", "spark.dynamicAllocation.minExecutors"),
    *("spark.dynamicAllocation.shuffleTracking.enabled", "spark.executor.cores", "spark.executor.heartbeatInterval"),
    *("spark.executor.instances", "spark.executor.memory", "spark.executor.memoryOverhead"),
    *("spark.executor.memoryOverheadFactor", "spark.executor.pyspark.memory"),
    *("spark.kubernetes.executor.limit.cores", "spark.kubernetes.executor.request.cores", "spark.locality.wait"),
    *("spark.memory.fraction", "spark.memory.offHeap.enabled", "spark.memory.offHeap.size"),
    *("spark.memory.storageFraction", "spark.network.timeout", "spark.offsite.executors.wait"),
    *("spark.rpc.message.maxSize", "spark.speculation", "spark.sql.shuffle.partitions", "spark.task.cpus"),
    *("spark.task.maxFailures",),
)
"""Spark settings that a resource may set: sizes, numbers, times. Other settings choose code, or where data and secrets
go."""
_SIZE = re.compile(r"[0-9A-Za-z.]*")
_LOCAL = re.compile(r"local(\[[0-9*]+( *, *[0-9]+)?\])?")
_NAMED_MAX = 8
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LATER_LETTER = "(?![a-z])"
_FRACTION = r"[.,](?:0+|9+)(?![0-9])"


class DesiredBackupState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"


class Destination(Strict):
    """The destination of backups. A change starts a new backup at the new destination; the former backup stays until
    expiry deletes the backup."""

    account: OptionalName = ""
    """An account of the accounts file. Empty: its first account."""
    endpoint: Text = ""
    """The repository: a folder, or a URL (`s3://bucket/prefix`). Empty: the repository of the account."""
    path: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=80)] = ""
    """The name of the backups in the repository, before the timestamp. Empty: the name of the resource."""
    timestamp_format: Annotated[str, StringConstraints(max_length=60)] = DEFAULT_TIMESTAMP_FORMAT
    """Appended to `path` at the start of a backup: the time in UTC, in Go's notation. Empty: no timestamp, so a
    restarted backup continues in place."""


def _named(names: Iterable[str]) -> str:
    return named([shorten(name) for name in sorted(names)], most=_NAMED_MAX)


def _is_word(value: str) -> bool:
    """Whether the value is a word and no path: the C library reads the file named by TZ=/path or TZ=:../path."""
    return value.isprintable() and value[:1] not in {"/", ":", "~"} and ".." not in value


def _setting_name(name: str) -> str:
    if not re.fullmatch(r"spark\.[^\s=]+", name):
        raise ValueError("a setting of Spark begins with spark. and has no blanks and no =")
    return name


class AgentTemplate(Strict):
    """How the copying processes run."""

    spark_master: Text = ""
    """Spark master URL: `local[N]`, or the operator's master (its OFFSITE_SPARK_MASTER). Empty: the cores of the
    machine."""
    spark_conf: Annotated[
        dict[Annotated[str, StringConstraints(max_length=200), AfterValidator(_setting_name)], Line],
        Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 200, "enum": SPARK_NAMES}}),
    ] = {}
    """Spark settings that are sizes, numbers and times, such as `spark.executor.memory`. All other settings are the
    operator's (its OFFSITE_SPARK_PROPERTIES)."""
    spark_archive: Text = ""
    """The archive made by `offsite spark pack`: the operator's archive (its OFFSITE_SPARK_ARCHIVE). Empty: the same, if
    `sparkMaster` is the operator's."""
    image: Text = ""
    """In Kubernetes: the container image. Empty: the image of the operator."""
    environment: Annotated[
        dict[str, Text],
        Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 200, "enum": VARIABLE_NAMES}}),
    ] = {}
    """More environment variables: language, time zone, rack and threads. Values must not be paths."""
    resources: Annotated[
        dict[Literal["cpu", "memory"], Annotated[str, StringConstraints(max_length=20), *NUMBER_OR_TEXT]], Field()
    ] = {}
    """In Kubernetes: the resource requests of every pod."""
    metadata: PodMetadata = PodMetadata()
    """In Kubernetes: labels and annotations of pods."""
    spec: PodSpec = PodSpec()
    """In Kubernetes: further fields of pods, merged into the operator's pods as in `kubectl apply`: containers,
    variables and volumes by name, mounts by path, all other lists as a whole."""

    @property
    def images(self) -> frozenset[str]:
        """The images named by the template."""
        named = (self.image, *(container.image for container in self.spec.containers))
        return frozenset(image for image in named if image)

    def spark_environment(self) -> dict[str, str]:
        """The set variables that describe the agent's Spark. How executors get secrets is the operator's choice."""
        choice = SparkChoice(master=self.spark_master or None, conf=self.spark_conf, archive=self.spark_archive or None)
        return {name: value for name, value in choice.environment().items() if name != "OFFSITE_SECRETS"}

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in one JVM, if a master is named: another notation is not interpreted."""
        return _LOCAL.fullmatch(self.spark_master) is not None

    def forbidden(self) -> str:
        """Return the forbidden choices of a resource: settings and variables that may lead to code, or send secrets
        elsewhere. Empty: none. Not a rule of the model: a formerly accepted resource stays readable."""
        settings = self.spark_conf
        variables = self.environment | {
            variable.name: variable.value for container in self.spec.containers for variable in container.env
        }
        where = "spec.agents.template"
        if names := settings.keys() - {*SPARK_NAMES}:
            file = "the operator's own file of settings (OFFSITE_SPARK_PROPERTIES)"
            return (
                f"{where}.sparkConf may not set {_named(names)}: it belongs into {file}; a resource can set only "
                "sizes and numbers"
            )
        if names := {name for name, value in settings.items() if not _SIZE.fullmatch(value)}:
            return (
                f"{where}.sparkConf: {_named(names)} needs a size, a number or a time; only the operator can set "
                "other values"
            )
        if names := variables.keys() - {*VARIABLE_NAMES}:
            rule = (
                "credentials of a repository belong into accounts.yaml, other variables into the environment of the "
                "operator"
            )
            return (
                f"{where}: the environment may not set {_named(names)}: {rule}; allowed are {', '.join(VARIABLE_NAMES)}"
            )
        if names := {name for name, value in variables.items() if not _is_word(value)}:
            return (
                f"{where}: the variable {_named(names)} needs a word, not a path; only the operator can set other "
                "values"
            )
        return ""


class Agents(Strict):
    """The copying processes. A single process copies. The remaining processes stand by, and take over within half a
    minute."""

    replicas: Annotated[int, Field(ge=0, le=100, strict=True)] = 3
    """The number of processes."""
    template: AgentTemplate = AgentTemplate()


class Expiry(Strict):
    """The data to delete, and the data to keep in any case."""

    maximum_retention: OptionalDuration = ""
    """Older restore points are deleted. Empty: all are kept."""
    minimum_restorable: OptionalDuration = ""
    """A deletion must leave at least so much time restorable, and an older backup is deleted only after its successor
    covers so much time. Empty: no such guard."""
    deletion_finalizer: StrictBool = True
    """Whether the backups are deleted from their repositories before a deleted resource disappears."""

    def contradiction(self) -> str:
        """Return why both values are contradictory; empty: no contradiction. Not a rule of the model: a formerly
        accepted resource stays readable."""
        return expiry_contradiction(self.maximum_retention, self.minimum_restorable)


def expiry_contradiction(most: str, least: str) -> str:
    """Return why a `maximumRetention` and a `minimumRestorable` are contradictory; empty: no contradiction, or a value
    is not given. The definition for Kubernetes has the same rule in CEL."""
    try:
        if not most or not least or parse_duration_s(least) <= parse_duration_s(most):
            return ""
    except BadOption:  # it is told where it is read
        return ""
    return (
        f"spec.expiry: minimumRestorable ({least}) is longer than maximumRetention ({most}): data older than {most} "
        "would have to be both deleted and kept. Are the two values swapped?"
    )


class StrimziListener(Strict):
    """A listener of a cluster of Strimzi, and the user who logs in there."""

    name: Name
    """The name of the resource Kafka."""
    namespace: OptionalName = ""
    """The namespace of the resources Kafka and KafkaUser. Empty: that of this resource."""
    listener: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,11}$", max_length=11)]
    """The name of the listener."""
    user: Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)] = ""
    """The name of the KafkaUser. Empty: for a listener without authentication. The Secret of the user must be in the
    namespace of this resource, with the label for agents."""


class BackupSpec(Sparse):
    identity: Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9-]{7,62})?$", max_length=63)] = ""
    """The identity of a backup in one repository, shared by resources of several Kubernetes clusters: all resources
    with the identity are one backup. An account must list the identity. Empty: the backup belongs to this resource
    alone. Immutable."""
    cluster: OptionalName = ""
    """The source: a cluster of the clusters folder. Empty: the name of the resource. Immutable."""
    strimzi: StrimziListener | None = None
    """In Kubernetes: where agents reach the source, if Strimzi runs it, in place of a Secret with `client.properties`.
    Changed in place."""
    state: DesiredBackupState = DesiredBackupState.RUNNING
    """`paused`: the backup can continue in place. `stopped`: the backup ends, and the next run starts a new backup."""
    destination: Destination = Destination()
    tag: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "default"
    """A word for people, shown with every backup. A change starts a new backup."""
    topics: Patterns = ("*",)
    """Topics to back up: names, globs, `regex:PATTERN`. Changed in place: added topics are copied from their beginning,
    removed topics stay as they are, and get no new records."""
    exclude: Patterns = ()
    """Topics to leave out. Changed in place."""
    snapshot_duration: Duration = "7d"
    """How often a checkpoint is taken. Changed in place."""
    agents: Agents = Agents()
    parameters: Annotated[dict[Annotated[str, StringConstraints(max_length=40)], Text], Field(max_length=32)] = {}
    """Options of `offsite backup run` by name: `interval`, `read-limit`, `write-limit`, `compression`, `collect-after`,
    `groups`. Changed in place."""
    expiry: Expiry = Expiry()


class Backup(Resource):
    """A continuous backup of the topics of one cluster, made by agents."""

    kind: Literal["Backup"]
    spec: BackupSpec = BackupSpec()


_ELEMENTS: Mapping[str, Callable[[datetime], str]] = {
    "January": lambda t: _MONTHS[t.month - 1],
    "Jan" + _LATER_LETTER: lambda t: _MONTHS[t.month - 1][:3],
    "Monday": lambda t: _DAYS[t.weekday()],
    "Mon" + _LATER_LETTER: lambda t: _DAYS[t.weekday()][:3],
    "MST": lambda _: "UTC",
    "01": lambda t: f"{t.month:02}",
    "02": lambda t: f"{t.day:02}",
    "03": lambda t: f"{_twelve(t):02}",
    "04": lambda t: f"{t.minute:02}",
    "05": lambda t: f"{t.second:02}",
    "06": lambda t: f"{t.year % 100:02}",
    "002": lambda t: f"{t.timetuple().tm_yday:03}",
    "15": lambda t: f"{t.hour:02}",
    "1": lambda t: str(t.month),
    "2006": lambda t: f"{t.year:04}",
    "_2006": lambda t: f"_{t.year:04}",
    "2": lambda t: str(t.day),
    "_2": lambda t: f"{t.day:2}",
    "__2": lambda t: f"{t.timetuple().tm_yday:3}",
    "3": lambda t: str(_twelve(t)),
    "4": lambda t: str(t.minute),
    "5": lambda t: str(t.second),
    "PM": lambda t: "PM" if t.hour >= 12 else "AM",
    "pm": lambda t: "pm" if t.hour >= 12 else "am",
    "-07:00:00": lambda _: "+00:00:00",
    "-07:00": lambda _: "+00:00",
    "-070000": lambda _: "+000000",
    "-0700": lambda _: "+0000",
    "-07": lambda _: "+00",
    "Z07:00:00": lambda _: "Z",
    "Z07:00": lambda _: "Z",
    "Z070000": lambda _: "Z",
    "Z0700": lambda _: "Z",
    "Z07": lambda _: "Z",
}
_NEXT = re.compile("|".join(f"({element})" for element in [_FRACTION, *sorted(_ELEMENTS, key=len, reverse=True)]))
_WRITTEN = [None, *(_ELEMENTS[element] for element in sorted(_ELEMENTS, key=len, reverse=True))]


def format_go_time(layout: str, time_ms: int) -> str:
    """Format `time_ms` (epoch ms) in UTC by `layout`; other text in the layout is copied."""
    at = datetime.fromtimestamp(time_ms / 1000, tz=UTC).replace(microsecond=time_ms % 1000 * 1000)
    return _NEXT.sub(lambda match: _written(match, at), layout)


def _written(match: re.Match[str], at: datetime) -> str:
    write = _WRITTEN[(match.lastindex or 1) - 1]
    return _fraction(match[0], at) if write is None else write(at)


def _fraction(element: str, at: datetime) -> str:
    """As many digits as zeros in the layout; with nines, trailing zeros are dropped, and the sign if no digit is
    left."""
    digits = f"{at.microsecond:06}000"[: len(element) - 1].ljust(len(element) - 1, "0")
    if element[1] == "9":
        digits = digits.rstrip("0")
    return element[0] + digits if digits else ""


def _twelve(at: datetime) -> int:
    return at.hour % 12 or 12
