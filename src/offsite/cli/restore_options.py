"""The options that say what to restore: the same for `restore plan` and `restore run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from offsite.cli.damage import tell_damage
from offsite.cli.option_group import words_of
from offsite.cli.options import Bootstrap, KafkaConfigFile, OptionalBackup, OptionalRepo
from offsite.cli.wiring import open_repository
from offsite.model.choices import Isolation, Keyless, OffsetsMode, RetentionMode
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.repository.backup import Backup
    from offsite.services.restore_request import RestoreRequest


Topics = Annotated[list[str] | None, typer.Option("--topics", help="Topics to restore [default: all of the backup].")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Topics to leave out, same syntax.")]
Partitions = Annotated[
    list[str] | None, typer.Option("--partitions", help="orders:0,2-5: of that topic, only these partitions.")
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename", help="old=new, 'orders-*=restored-*' or 'regex:^(.+)-v1$=\\1': restore under other names."
    ),
]
Repartition = Annotated[
    list[str] | None,
    typer.Option(
        "--repartition", help="orders=12, or 12: restore into that many partitions, by key; order is kept for each key."
    ),
]
KeylessRecords = Annotated[
    Keyless,
    typer.Option(
        "--keyless", help="Records without a key in a topic that is repartitioned: in-turn loses their order."
    ),
]
Commit = Annotated[int | None, typer.Option("--commit", help="Restore point: a commit number [default: the newest].")]
CommittedAt = Annotated[
    str | None, typer.Option("--committed-at", help="Restore point: the newest commit at or before this time.")
]
Checkpoint = Annotated[int | None, typer.Option("--checkpoint", help="Restore point: a checkpoint number.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", help="Of the restore point, only records dated at or before this time: theirs, not the log's."
    ),
]
OffsetsFile = Annotated[
    Path | None,
    typer.Option("--offsets-file", help="Of the restore point, each partition up to its topic,partition,offset there."),
]
Before = Annotated[
    list[str] | None,
    typer.Option("--before", help="topic=…,partition=…,offset=…: of that partition, only what lies before."),
]
Incarnation = Annotated[
    list[str] | None,
    typer.Option(
        "--incarnation",
        help="orders=1, orders=oldest, or orders= and how its topic id begins: of a topic that was deleted and made "
        "anew, this one [default: the one of --at, else the newest].",
    ),
]
IsolationLevel = Annotated[
    Isolation, typer.Option("--isolation", help="Whether records of aborted transactions come back.")
]
Offsets = Annotated[
    OffsetsMode,
    typer.Option(
        "--offsets",
        help="preserve: every record at its old offset, transactions replayed. translate: gap-free from the target's "
        "end, with a stored map from old to new offsets. auto: preserve, topic by topic, where it can be done soon.",
    ),
]

Metadata = Annotated[
    str,
    typer.Option(
        "--metadata",
        help="What of the cluster's settings to set at the end: all, none, acls, quotas. Users are only named.",
    ),
]
Retention = Annotated[
    RetentionMode,
    typer.Option(
        "--retention",
        help="A retention that would delete restored records at once: hold = a created topic goes without it until you "
        "set it (the result says how), an existing one is refused; override = it is set, or put back, at the end.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="Consumer groups to put in place at the end: all, none, or patterns [default: none; see: offsite groups].",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """One field for each option, as typed."""

    repo: OptionalRepo = None
    backup: OptionalBackup = None
    topics: Topics = None
    exclude: Exclude = None
    partitions: Partitions = None
    rename: Rename = None
    repartition: Repartition = None
    keyless: KeylessRecords = Keyless.DEFAULT
    commit: Commit = None
    committed_at: CommittedAt = None
    checkpoint: Checkpoint = None
    at: At = None
    offsets_file: OffsetsFile = None
    before: Before = None
    incarnation: Incarnation = None
    isolation: IsolationLevel = Isolation.DEFAULT
    offsets: Offsets = OffsetsMode.DEFAULT
    metadata: Metadata = "none"
    retention: Retention = RetentionMode.DEFAULT
    groups: Groups = None
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


def named_backup(repo: str | None, backup: str | None, *, otherwise: str) -> Backup:
    """Raises `BadOption` when it is not named, `RepositoryNotFound`, `BackupNotFound`."""
    if repo is None or backup is None:
        raise BadOption("no backup is named", hint=f"name it with --repo and --backup{otherwise}")
    from offsite.services.heads import SeenHead

    repository = open_repository(repo)
    opened = repository.backup(backup)
    if gone := SeenHead(repository=repository, backup=backup).problem(opened, opened.sound_state()):
        tell_damage(gone)  # what is there can be restored all the same
    return opened


def restore_request(options: RestoreOptions) -> RestoreRequest:
    """Raises `BadOption` for what cannot be read or contradicts itself."""
    from offsite.services.restore_words import RestoreWords, parse_restore

    return parse_restore(cast("RestoreWords", words_of(options, RestoreWords)))
