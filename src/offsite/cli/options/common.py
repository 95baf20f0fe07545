"""Options shared by several commands, written once: same name, same environment variable, same help."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from offsite.cli.output import OutputFormat
from offsite.model.untrusted.place import parse_place

PlaceT = TypeVar("PlaceT", str, list[str], None)


def checked_places(value: PlaceT) -> PlaceT:
    """Callback of every option for a folder or a URL: refuse an invalid place before any work."""
    texts: Iterable[str] = [value] if isinstance(value, str) else value or ()
    for text in texts:
        parse_place(text)
    return value


Repo = Annotated[
    str,
    typer.Option(
        "--repo",
        envvar="OFFSITE_REPO",
        help="Repository: a folder or a URL (s3://, gs://, az://).",
        show_envvar=True,
        callback=checked_places,
    ),
]
OptionalRepo = Annotated[
    str | None,
    typer.Option(
        "--repo",
        envvar="OFFSITE_REPO",
        help="Repository: a folder or a URL (s3://, gs://, az://).",
        show_envvar=True,
        callback=checked_places,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", envvar="OFFSITE_BOOTSTRAP", help="Kafka brokers, as host:port[,host:port]."),
]
KafkaConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config", envvar="OFFSITE_KAFKA_CONFIG", help="A client.properties file, Java or librdkafka names."
    ),
]
BackupName = Annotated[str, typer.Option("--backup", help="Name of the backup.")]
OptionalBackup = Annotated[str | None, typer.Option("--backup", help="Name of the backup.")]
Records = Annotated[
    str | None,
    typer.Option(
        "--records",
        help="Place of the records of restores, for a read-only repository: the folder or URL that was given to "
        "restore run.",
        show_default="with the backup",
        callback=checked_places,
    ),
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print the result.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
COLLECT_AFTER = "24h"
GIVE_UP_AFTER = "24h"
GiveUpAfter = Annotated[
    str,
    typer.Option("--give-up-after", help="With --follow: how long to wait during an outage before the command fails."),
]
