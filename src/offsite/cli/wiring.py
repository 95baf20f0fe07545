"""Makes the parts of a command out of options: the repository, the cluster, Spark with its settings. Heavy imports
happen inside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.output import note, report_damage
from offsite.model.options import SecretsChoice

if TYPE_CHECKING:
    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.settings import SparkChoice
    from offsite.engine.spark_runner import SparkRunner
    from offsite.kafka.cluster import Cluster
    from offsite.repository.backup import Backup
    from offsite.repository.repository import Repository

CONF_VARIABLE = "OFFSITE_SPARK_CONF"
"""Read here and not by typer: typer would split at blanks, and values contain blanks."""
PROPERTIES_VARIABLE = "OFFSITE_SPARK_PROPERTIES"


def open_repository(url: str, *, looks: bool = False, records: str | None = None) -> Repository:
    """Open the repository at `url`. `looks`: for a command without changes, which works on a read-only store.
    `records`: another place of restore records. Raises `RepositoryNotFound`, `BadRepositoryUrl`, `FormatTooNew`."""
    from offsite.repository.repository import Repository
    from offsite.stores.open_store import open_store
    from offsite.stores.wrapped_store import ClockFallbackStore

    store = open_store(url)
    return Repository.open(
        ClockFallbackStore(store) if looks else store,
        on_damage=report_damage,
        records_at=None if records is None else open_store(records),
    )


def open_backup(url: str, name: str, *, looks: bool = False) -> Backup:
    """Open a backup of the repository at `url`, as `open_repository` does. Raises its errors, `BackupNotFound`, and
    `CommitsGone` where the backup lacks a commit that this machine has seen."""
    from offsite.repository.heads import RememberedHead

    repository = open_repository(url, looks=looks)
    opened = repository.backup(name)
    RememberedHead(repository=repository, backup=name).check(opened, opened.state())
    return opened


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """Connect to the cluster at `bootstrap`, which wins over the file's `bootstrap.servers`. Sends nothing to the
    cluster. Raises `BadKafkaConfig`."""
    from offsite.kafka import cluster

    connected = cluster.connect(bootstrap, kafka_config)
    for warning in connected.warnings:
        note(f"warning: {warning}")
    return connected


@contextmanager
def spark(choice: SparkChoice, *, preload: str, limits: RateLimits | None = None) -> Iterator[SparkRunner]:
    """Start Spark in the background; Spark ends with the context. Workers import `preload` at start, and obey
    `limits`."""
    from offsite.engine.spark_runner import SparkRunner

    runner = SparkRunner(choice, preload=[preload], limits=limits)
    try:
        runner.begin()
        yield runner
    finally:
        runner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """As typed."""

    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master", envvar="OFFSITE_SPARK_MASTER", help="Spark master URL [default: this machine's cores]."
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="A Spark setting, such as spark.executor.memory=2g; may be repeated. More in OFFSITE_SPARK_CONF, one "
            "per line; options override variables.",
        ),
    ] = None
    spark_properties: Annotated[
        Path | None,
        typer.Option(
            "--spark-properties",
            envvar=PROPERTIES_VARIABLE,
            help="A file of Spark settings; --spark-conf overrides it.",
        ),
    ] = None
    spark_archive: Annotated[
        str | None,
        typer.Option(
            "--spark-archive",
            envvar="OFFSITE_SPARK_ARCHIVE",
            metavar="FILE|URL",
            help="The archive made by offsite spark pack, for executors without offsite.",
        ),
    ] = None
    secrets: Annotated[
        SecretsChoice,
        typer.Option(
            "--secrets",
            envvar="OFFSITE_SECRETS",
            help="How executors get passwords of Kafka: encrypted by Spark, from the file of --kafka-config on each "
            "executor, or readable by others.",
        ),
    ] = SecretsChoice.DEFAULT

    def choice(self) -> SparkChoice:
        """Raises `BadOption`."""
        from offsite.engine.settings import SparkChoice

        return SparkChoice(
            master=self.spark_master,
            conf=self._conf(),
            archive=self.spark_archive,
            secrets=self.secrets,
        )

    def arguments(self) -> list[str]:
        """Return the options as arguments of another command, without the settings: settings may hold Spark's own
        secret, and any user of the machine reads a command line. See `environment`."""
        options = {
            "--spark-master": self.spark_master,
            "--spark-archive": self.spark_archive,
            "--secrets": self.secrets,
        }
        return [text for name, value in options.items() if value is not None for text in (name, str(value))]

    def environment(self) -> dict[str, str]:
        """Return the settings as variables of the other command. Raises `BadOption`."""
        from offsite.engine.settings import lines_of

        variables = {CONF_VARIABLE: lines_of(self._conf()), PROPERTIES_VARIABLE: ""}
        return {name: value for name, value in variables.items() if value or name in os.environ}

    def _conf(self) -> Mapping[str, str]:
        """Return the settings. Typed settings win over the environment, and single settings win over a file. A file
        named both ways counts as the environment's: typer does not say the origin."""
        from offsite.engine.settings import settings_of

        typed, environment = settings_of(None, self.spark_conf or ()), settings_of(None, _of_environment())
        file = settings_of(self.spark_properties, ())
        if self.spark_properties == Path(os.environ.get(PROPERTIES_VARIABLE, "")):
            return {**file, **environment, **typed}
        return {**environment, **file, **typed}


def _of_environment() -> list[str]:
    """Split at line feeds, as joined by `lines_of`, and nowhere else: values may contain other line separators of
    Python."""
    return [line for line in os.environ.get(CONF_VARIABLE, "").split("\n") if line.strip()]
