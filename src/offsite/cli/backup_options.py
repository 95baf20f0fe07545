"""The options that say what to back up: the same for `backup plan` and `backup run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Repo
from offsite.model.choices import CompressionChoice, MissingTopics

if TYPE_CHECKING:
    from offsite.services.backup import BackupRequest

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        help="Topics: names, globs, regex:PATTERN, comma-separated [default: those of the backup's first run].",
    ),
]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Topics to leave out, same syntax.")]
Internal = Annotated[bool, typer.Option("--internal", help="Let patterns match Kafka's internal topics too.")]


Missing = Annotated[
    MissingTopics, typer.Option("--missing-topics", help="What to do when a topic named in full does not exist.")
]
Compress = Annotated[
    CompressionChoice,
    typer.Option("--compression", help="How objects are stored; auto compresses what producers left uncompressed."),
]

Groups = Annotated[
    list[str] | None,
    typer.Option("--groups", help="Consumer groups whose offsets go along: all, none, or patterns [default: all]."),
]
GroupHistory = Annotated[
    bool,
    typer.Option(
        "--group-history",
        help="Back up the brokers' own log of groups too: their offsets are then known as of any time. Decided by the "
        "first run.",
    ),
]
SchemasTopic = Annotated[
    str | None,
    typer.Option(
        "--schemas-topic",
        help="The schema registry's topic, taken along where it exists; '' for none. Decided by the first run.",
        show_default="that of the backup's first run, _schemas in a new one",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """One field for each option, as typed."""

    repo: Repo
    backup: BackupName
    topics: Topics = None
    exclude: Exclude = None
    internal: Internal = False
    missing_topics: Missing = MissingTopics.DEFAULT
    schemas_topic: SchemasTopic = None
    groups: Groups = None
    group_history: GroupHistory = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


def backup_request(options: BackupOptions, compression: CompressionChoice) -> BackupRequest:
    """Raises `BadOption` for what cannot be read."""
    from offsite.services.backup_words import BackupWords, parse_backup

    words = {name: getattr(options, name) for name in BackupWords.__annotations__ if hasattr(options, name)}
    words |= {"compression": compression}
    return parse_backup(options.backup, cast("BackupWords", words))
