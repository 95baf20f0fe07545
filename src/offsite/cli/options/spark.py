"""Options of all commands that run jobs: which Spark runs them, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from offsite.model.choices import SecretsChoice

if TYPE_CHECKING:
    from offsite.spark.choice import SparkChoice


class _Lines(click.ParamType[str]):
    """One setting a line, where they come from the environment: values hold blanks."""

    name = "KEY=VALUE"
    envvar_list_splitter = "\n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401, ARG002
        return str(value)


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
            envvar="OFFSITE_SPARK_CONF",
            metavar="KEY=VALUE",
            click_type=_Lines(),
            help="A Spark setting, such as spark.executor.memory=2g; may be repeated.",
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
            conf=settings_of(self.spark_properties, self.spark_conf or ()),
            archive=self.spark_archive,
            secrets=self.secrets,
        )

    def arguments(self) -> list[str]:
        """The same as arguments of another command."""
        given = {
            "--spark-master": self.spark_master,
            "--spark-properties": self.spark_properties,
            "--spark-archive": self.spark_archive,
            "--secrets": self.secrets,
        }
        named = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        return [*named, *(text for pair in self.spark_conf or () for text in ("--spark-conf", pair))]
