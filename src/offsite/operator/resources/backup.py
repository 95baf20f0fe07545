"""The resource `Backup`: a continuous backup of a cluster."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints

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


SETTING_NAME = r"^spark\.[^\s=]+$"
"""Of Spark. As the pattern of a key pydantic would make a schema of it that refuses nothing."""


def _setting_name(name: str) -> str:
    if not re.fullmatch(SETTING_NAME.strip("^$"), name):
        raise ValueError("a setting of Spark begins with spark. and has no blanks and no =")
    return name


class AgentTemplate(Strict):
    """How the processes run that copy."""

    spark_master: Text = ""
    """Spark master URL. Empty: the cores of the machine."""
    spark_conf: Annotated[
        dict[Annotated[str, StringConstraints(max_length=200), AfterValidator(_setting_name)], Line],
        Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 200, "pattern": SETTING_NAME}}),
    ] = {}
    """Settings of Spark by their names, such as `spark.executor.memory`. No secrets."""
    spark_archive: Text = ""
    """What `offsite spark pack` made, as a file or a URL, for executors without offsite."""
    image: Text = ""
    """In Kubernetes: the container image. Empty: that of the operator."""
    environment: Annotated[dict[str, Text], Field(max_length=64)] = {}
    """More environment variables."""
    resources: Annotated[dict[Literal["cpu", "memory"], Annotated[str, StringConstraints(max_length=20)]], Field()] = {}
    """In Kubernetes: what is requested for each."""

    def spark_environment(self) -> dict[str, str]:
        """The variables that tell an agent of its Spark, of those that are set. How executors come by secrets is for
        `environment` to say."""
        choice = SparkChoice(master=self.spark_master or None, conf=self.spark_conf, archive=self.spark_archive or None)
        return {name: value for name, value in choice.environment().items() if name != "OFFSITE_SECRETS"}


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
        most, least = self.maximum_retention, self.minimum_restorable
        if not most or not least or parse_duration_s(least) <= parse_duration_s(most):
            return ""
        return (
            f"spec.expiry: minimumRestorable ({least}) is longer than maximumRetention ({most}): what is older than "
            f"{most} would be let go and kept; were they mixed up?"
        )


class BackupSpec(Strict):
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
