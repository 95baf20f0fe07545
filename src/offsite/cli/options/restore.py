"""Options of a restore: the same for `restore plan` and `restore run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from offsite.cli.options.common import Bootstrap, KafkaConfigFile, OptionalBackup, OptionalRepo
from offsite.cli.options.option_group import WordChoice
from offsite.cli.output import note
from offsite.cli.wiring import open_repository
from offsite.model.errors import BadOption
from offsite.restore.options import RestoreWords

if TYPE_CHECKING:
    from offsite.repository.backup import Backup


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The data to restore, and the target cluster, as typed."""

    repo: OptionalRepo = None
    backup: OptionalBackup = None
    words: Annotated[RestoreWords, WordChoice(but=("write_limit",))] = field(default_factory=RestoreWords)
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


def named_backup(
    repo: str | None, backup: str | None, *, otherwise: str, looks: bool = False, records: str | None = None
) -> Backup:
    """Open the backup named by `--repo` and `--backup`; `looks` and `records` as in `open_repository`. Raises
    `BadOption` for a missing option, `RepositoryNotFound`, `BackupNotFound`."""
    if repo is None or backup is None:
        raise BadOption("no backup is named", hint=f"name it with --repo and --backup{otherwise}")
    from offsite.generations.status import backup_or_generation, restores_elsewhere

    repository = open_repository(repo, looks=looks, records=records)
    opened = backup_or_generation(repository, backup)
    if opened.descriptor.name != backup:
        note(f"note: {backup} has generations: this one is {opened.descriptor.name}")
        for other in restores_elsewhere(repository, backup, chosen=opened.descriptor.name):
            note(f"note: a restore from {other} has not ended; to continue it, give --backup {other}")
    return opened
