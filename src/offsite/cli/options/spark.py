"""Options of all commands that run jobs: which Spark runs them, and how."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.model.choices import SecretsChoice

if TYPE_CHECKING:
    from offsite.spark.choice import SparkChoice


CONF_VARIABLE = "OFFSITE_SPARK_CONF"
"""Read here and not by typer, which would divide it at blanks: values have some."""


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
            help="A Spark setting, such as spark.executor.memory=2g; may be repeated. More in OFFSITE_SPARK_CONF, one a"
            " line.",
        ),
    ] = None
    spark_properties: Annotated[
        Path | None,
        typer.Option(
            "--spark-properties", envvar="OFFSITE_SPARK_PROPERTIES", help="A file of Spark settings; --spark-conf wins."
        ),
    ] = None
    spark_archive: Annotated[
        str | None,
        typer.Option(
            "--spark-archive",
            envvar="OFFSITE_SPARK_ARCHIVE",
            metavar="FILE|URL",
            help="What offsite spark pack made, for executors without offsite.",
        ),
    ] = None
    secrets: Annotated[
        SecretsChoice,
        typer.Option(
            "--secrets",
            envvar="OFFSITE_SECRETS",
            help="How executors come by passwords of Kafka: encrypted by Spark, from the file of --kafka-config on each"
            " executor, or readable by others.",
        ),
    ] = SecretsChoice.DEFAULT

    def choice(self) -> SparkChoice:
        """Raises `BadOption`."""
        from offsite.spark.choice import SparkChoice, settings_of

        return SparkChoice(
            master=self.spark_master,
            conf=settings_of(self.spark_properties, (*_of_environment(), *(self.spark_conf or ()))),
            archive=self.spark_archive,
            secrets=self.secrets,
        )

    def arguments(self) -> list[str]:
        """The same as arguments of another command, but for `spark_conf`, which may hold Spark's own secret: any user
        of the machine reads a command line. See `environment`."""
        given = {
            "--spark-master": self.spark_master,
            "--spark-properties": self.spark_properties,
            "--spark-archive": self.spark_archive,
            "--secrets": self.secrets,
        }
        return [text for name, value in given.items() if value is not None for text in (name, str(value))]

    def environment(self) -> dict[str, str]:
        """The rest, as variables of the other command."""
        conf = [*_of_environment(), *(self.spark_conf or ())]
        return {CONF_VARIABLE: "\n".join(conf)} if conf else {}


def _of_environment() -> list[str]:
    return [line for line in os.environ.get(CONF_VARIABLE, "").splitlines() if line.strip()]
