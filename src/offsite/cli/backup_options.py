"""Options of `offsite backup`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from offsite.backup.options import BackupWords
from offsite.checkpoint.options import ParticipantWords, ZeebeWords
from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Repo, WordChoice


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRunOptions(BackupOptions):
    words: BackupWords = field(default_factory=BackupWords)
    applications: ParticipantWords = field(default_factory=ParticipantWords)
    clusters: ZeebeWords = field(default_factory=ZeebeWords)
