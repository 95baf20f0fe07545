"""Options of `offsite backup`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from offsite.backup.options import BackupRequest, BackupWords, parse_backup
from offsite.checkpoint.options import ParticipantWords, ZeebeWords
from offsite.cli.options import (
    BackupName,
    Bootstrap,
    KafkaConfigFile,
    RegistryConfigFile,
    RegistryUrl,
    Repo,
    WordChoice,
)
from offsite.follow.options import FollowWords


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """Options of `backup plan`, as typed. A plan stores nothing, so storage options are missing."""

    repo: Repo
    backup: BackupName
    words: Annotated[
        BackupWords,
        WordChoice(
            but=(
                "compression",
                "expect_deletes",
                "read_limit",
                "write_limit",
                "executor_read_limit",
                "executor_write_limit",
            )
        ),
    ] = field(default_factory=BackupWords)
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    registry: RegistryUrl = None
    registry_config: RegistryConfigFile = None

    def request(self) -> BackupRequest:
        """Build the request of the run. Raises `BadOption`, `BadRegistry`."""
        return parse_backup(self.backup, self.words, registry=self.registry, registry_config=self.registry_config)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRunOptions(BackupOptions):
    words: BackupWords = field(default_factory=BackupWords)
    applications: ParticipantWords = field(default_factory=ParticipantWords)
    clusters: ZeebeWords = field(default_factory=ZeebeWords)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Options of `backup follow` beside those of a run."""

    words: FollowWords = field(default_factory=FollowWords)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalFollowOptions:
    """The same options, of a run that follows only where it is asked to."""

    follow: Annotated[
        bool,
        typer.Option("--follow", help="Keep running: copy new records round after round, until SIGINT or SIGTERM."),
    ] = False
    words: Annotated[
        FollowWords,
        WordChoice(
            prefix="With --follow: ",
            help={"retain_every": "With --follow and --retain: how often to apply the rules."},
        ),
    ] = field(default_factory=FollowWords)
