"""The resource `Backup`: a continuous backup of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints

from offsite.model.errors import BadOption
from offsite.model.named import named
from offsite.model.time import parse_duration_s
from offsite.operator.resources.model import (
    Duration,
    Line,
    OptionalDuration,
    OptionalName,
    Patterns,
    Resource,
    Strict,
    Text,
)
from offsite.operator.resources.pod_template import NUMBER_OR_TEXT, VARIABLE_NAMES, PodMetadata, PodSpec
from offsite.operator.resources.told import shortened
from offsite.spark.choice import SparkChoice

DEFAULT_TIMESTAMP_FORMAT = "-2006-01-02T15:04:05Z-07:00"
FINALIZER = "offsite.dev/deletion"


class BackupState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"


class Destination(Strict):
    """Where backups go. A change begins a new backup there; the one of before is kept until expiry deletes it."""

    account: OptionalName = ""
    """An account of the accounts file. Empty: its first one."""
    endpoint: Text = ""
    """The repository: a folder, or a URL (`s3://bucket/prefix`). Empty: that of the account."""
    path: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=80)] = ""
    """The name of the backups in the repository, before the timestamp. Empty: the name of the resource."""
    timestamp_format: Annotated[str, StringConstraints(max_length=60)] = DEFAULT_TIMESTAMP_FORMAT
    """Put behind `path` when a backup is begun: the time in UTC in Go's notation. Empty: nothing, so that a backup that
    is begun again goes on where it was."""


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
"""Settings of Spark that a resource may have: sizes, numbers, times. Others choose code, or where data and secrets
go."""
_SIZE = re.compile(r"[0-9A-Za-z.]*")
_LOCAL = re.compile(r"local(\[[0-9*]+( *, *[0-9]+)?\])?")
_NAMED_MAX = 8


def _named(names: Iterable[str]) -> str:
    return named([shortened(name) for name in sorted(names)], most=_NAMED_MAX)


def _is_word(value: str) -> bool:
    """No path: the C library reads the file that TZ=/path or TZ=:../path names."""
    return value.isprintable() and value[:1] not in {"/", ":", "~"} and ".." not in value


def _setting_name(name: str) -> str:
    if not re.fullmatch(r"spark\.[^\s=]+", name):
        raise ValueError("a setting of Spark begins with spark. and has no blanks and no =")
    return name


class AgentTemplate(Strict):
    """How the processes run that copy."""

    spark_master: Text = ""
    """Spark master URL: `local[N]`, or that of the operator (its OFFSITE_SPARK_MASTER). Empty: the cores of the
    machine."""
    spark_conf: Annotated[
        dict[Annotated[str, StringConstraints(max_length=200), AfterValidator(_setting_name)], Line],
        Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 200, "enum": SPARK_NAMES}}),
    ] = {}
    """Settings of Spark that are sizes, numbers and times, such as `spark.executor.memory`. All others are the
    operator's (its OFFSITE_SPARK_PROPERTIES)."""
    spark_archive: Text = ""
    """What `offsite spark pack` made: that of the operator (its OFFSITE_SPARK_ARCHIVE). Empty: the same, where
    `sparkMaster` is the operator's."""
    image: Text = ""
    """In Kubernetes: the container image. Empty: that of the operator."""
    environment: Annotated[
        dict[str, Text],
        Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 200, "enum": VARIABLE_NAMES}}),
    ] = {}
    """More environment variables: of language, time zone, rack and threads. Their values are no paths."""
    resources: Annotated[
        dict[Literal["cpu", "memory"], Annotated[str, StringConstraints(max_length=20), *NUMBER_OR_TEXT]], Field()
    ] = {}
    """In Kubernetes: what is requested for each."""
    metadata: PodMetadata = PodMetadata()
    """In Kubernetes: labels and annotations of pods."""
    spec: PodSpec = PodSpec()
    """In Kubernetes: what else pods are, merged into what the operator makes them as `kubectl apply` merges:
    containers, variables and volumes by their names, mounts by their paths, all other lists as a whole."""

    @property
    def images(self) -> frozenset[str]:
        """The images that it names."""
        named = (self.image, *(container.image for container in self.spec.containers))
        return frozenset(image for image in named if image)

    def spark_environment(self) -> dict[str, str]:
        """The variables that tell an agent of its Spark, of those that are set. How executors come by secrets is for
        the operator to say."""
        choice = SparkChoice(master=self.spark_master or None, conf=self.spark_conf, archive=self.spark_archive or None)
        return {name: value for name, value in choice.environment().items() if name != "OFFSITE_SECRETS"}

    @property
    def is_local(self) -> bool:
        """Whether it runs in one JVM, where it names a master: what is written otherwise is for nobody to guess."""
        return _LOCAL.fullmatch(self.spark_master) is not None

    def forbidden(self) -> str:
        """What is not for a resource to choose: names of settings and variables that may lead to code, or secrets
        elsewhere. Empty: nothing. No rule of the model: what was accepted once stays readable."""
        settings = self.spark_conf
        variables = self.environment | {
            variable.name: variable.value for container in self.spec.containers for variable in container.env
        }
        where = "spec.agents.template"
        if names := settings.keys() - {*SPARK_NAMES}:
            own = "the operator's own file of settings (OFFSITE_SPARK_PROPERTIES)"
            return (
                f"{where}.sparkConf may not set {_named(names)}: it is for {own}; a resource chooses sizes and numbers"
            )
        if names := {name for name, value in settings.items() if not _SIZE.fullmatch(value)}:
            return f"{where}.sparkConf: {_named(names)} takes a size, a number or a time; more is for the operator"
        if names := variables.keys() - {*VARIABLE_NAMES}:
            own = "what opens a repository belongs into accounts.yaml, the rest into the environment of the operator"
            return (
                f"{where}: the environment may not set {_named(names)}: {own}; allowed are {', '.join(VARIABLE_NAMES)}"
            )
        if names := {name for name, value in variables.items() if not _is_word(value)}:
            return f"{where}: the variable {_named(names)} takes a word and no path; more is for the operator"
        return ""


class Agents(Strict):
    """The processes that copy. One copies; the others stand by and take its place within half a minute."""

    replicas: Annotated[int, Field(ge=0, le=100, strict=True)] = 3
    """How many."""
    template: AgentTemplate = AgentTemplate()


class Expiry(Strict):
    """What is let go, and what is kept whatever happens."""

    maximum_retention: OptionalDuration = ""
    """Restore points that are older are let go. Empty: all are kept."""
    minimum_restorable: OptionalDuration = ""
    """Nothing is let go that would leave less than so much time restorable, and an older backup is deleted only when
    the one that took its place covers so much. Empty: no such guard."""
    deletion_finalizer: StrictBool = True
    """Whether the backups are deleted from their repositories when the resource is deleted, before it is gone."""

    def contradiction(self) -> str:
        """Why both cannot be meant; empty: they can. No rule of the model: what was accepted once stays readable."""
        return expiry_contradiction(self.maximum_retention, self.minimum_restorable)


def expiry_contradiction(most: str, least: str) -> str:
    """Why a `maximumRetention` and a `minimumRestorable` cannot both be meant; empty: they can, or one is not given.
    The definition for Kubernetes has the same in CEL."""
    try:
        if not most or not least or parse_duration_s(least) <= parse_duration_s(most):
            return ""
    except BadOption:  # it is told where it is read
        return ""
    return (
        f"spec.expiry: minimumRestorable ({least}) is longer than maximumRetention ({most}): what is older than "
        f"{most} would be let go and kept; were they mixed up?"
    )


class BackupSpec(Strict):
    identity: Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9-]{7,62})?$", max_length=63)] = ""
    """Of a backup that resources of several Kubernetes clusters share, in one repository: all that declare it are one
    backup. An account lists it. Empty: the backup is this resource's alone. Immutable."""
    cluster: OptionalName = ""
    """The source: a cluster of the clusters folder. Empty: the name of the resource. Immutable."""
    state: BackupState = BackupState.RUNNING
    """`paused` goes on later where it is; `stopped` ends the backup, and what runs next is a new one."""
    destination: Destination = Destination()
    tag: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "default"
    """A word for people, told with each backup. A change begins a new backup."""
    topics: Patterns = ("*",)
    """What is backed up: names, globs, `regex:PATTERN`. Changed in place: what is added is copied from its beginning
    on, what is left out stays as it was, and gets nothing new."""
    exclude: Patterns = ()
    """Topics to leave out. Changed in place."""
    snapshot_duration: Duration = "7d"
    """How often a checkpoint is taken. Changed in place."""
    agents: Agents = Agents()
    parameters: Annotated[dict[Annotated[str, StringConstraints(max_length=40)], Text], Field(max_length=32)] = {}
    """Options of `offsite backup run` by their names: `interval`, `read-limit`, `write-limit`, `compression`,
    `collect-after`, `groups`. Changed in place."""
    expiry: Expiry = Expiry()


class Backup(Resource):
    """A continuous backup of the topics of one cluster, kept by agents."""

    kind: Literal["Backup"]
    spec: BackupSpec = BackupSpec()
