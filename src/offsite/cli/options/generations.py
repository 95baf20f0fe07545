"""Options of `offsite generations`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from offsite.backup.options import BackupWords
from offsite.cli.options.common import Bootstrap, KafkaConfigFile, Repo, checked_places
from offsite.cli.options.option_group import WordChoice
from offsite.repository.generation_sets.entry import Instance

Name = Annotated[str | None, typer.Option("--name", help="Name of the set: generation 3 is backup NAME.gen-3.")]
InstanceName = Annotated[
    Instance | None, typer.Option("--instance", help="Name of this instance, one of two: run both, each once.")
]
Length = Annotated[
    str | None,
    typer.Option("--length", help="How long a generation stays active [default: 7d]: 7d, 12h."),
]
First = Annotated[
    bool | None,
    typer.Option(
        "--first/--second",
        help="Whether this instance begins as the active one if no generation exists [default: instance a].",
    ),
]
Properties = Annotated[
    Path | None,
    typer.Option(
        "--properties", help="A connector's properties: name, topics, compacted.log.backup.length.days and the like."
    ),
]
Archive = Annotated[
    str,
    typer.Option(
        "--archive", help="Write Avro archives below this folder or URL, instead of backups.", callback=checked_places
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """Options of both instances of a set, with the choice of the instance, as typed."""

    repo: Repo
    name: Name = None
    instance: InstanceName = None
    length: Length = None
    first: First = None
    archive: Archive = ""
    properties: Properties = None
    words: Annotated[BackupWords, WordChoice(but=("missing_topics", "group_history"))] = field(
        default_factory=BackupWords
    )
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
