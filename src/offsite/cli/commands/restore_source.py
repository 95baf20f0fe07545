"""The backup to restore, and its options: a stored backup, or for `offsite restore run` a temporary backup made of an
archive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.archive_options import SkipDamaged
from offsite.cli.options import (
    Bootstrap,
    KafkaConfigFile,
    OptionalBackup,
    OptionalRepo,
    RegistryConfigFile,
    WordChoice,
    checked_places,
)
from offsite.cli.output import EXIT_PARTIAL, emit_notice, note
from offsite.cli.wiring import open_repository
from offsite.model.errors import BadOption, Damaged, OffsiteError, RestoreTakenOver, UserError
from offsite.restore.options import RestoreWords, parse_restore

if TYPE_CHECKING:
    from offsite.archives.import_staging import Staging
    from offsite.engine.runner import Runner
    from offsite.repository.backup import Backup
    from offsite.restore.lease import RestoreLease
    from offsite.schemas.registry_client import RegistryAddress


TargetRegistry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The schema registry of the target, as https://host:8081. The plan says which schema ids of the backup "
        "mean something else there, and what --schema-ids does about it.",
    ),
]

ProofPage = Annotated[
    Path | None,
    typer.Option("--report", help="Also write the proof into this file, as one self-contained page (HTML)."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The data to restore, and the target cluster, as typed."""

    repo: OptionalRepo = None
    backup: OptionalBackup = None
    words: Annotated[RestoreWords, WordChoice(but=("write_limit",))] = field(default_factory=RestoreWords)
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    registry: TargetRegistry = None
    registry_config: RegistryConfigFile = None

    def target_registry(self) -> RegistryAddress | None:
        """The schema registry of the target, if it is named. Raises `BadOption`, `BadRegistry`."""
        if not self.registry and self.registry_config is None:
            return None
        from offsite.schemas.registry_settings import read_registry_if_named

        return read_registry_if_named(self.registry, self.registry_config)


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


Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        help="Restore this archive of another tool (a folder or a URL, with --format) instead of a backup. The archive "
        "is imported first, which needs about its size once more. The copy is deleted when the restore has ended.",
        callback=checked_places,
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format of --archive: avro, kafka-backup, osodevops, parquet, jsonl, trivadis."),
]
StagingPlace = Annotated[
    str | None,
    typer.Option(
        "--staging",
        help="Repository for the copy of --archive, created if missing; Spark workers must reach it.",
        show_default="a folder in the user's cache",
        callback=checked_places,
    ),
]
KeepStaging = Annotated[
    bool, typer.Option("--keep-staging", help="Keep the copy of --archive, with the map from old to new offsets.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRunOptions(RestoreOptions):
    words: RestoreWords = field(default_factory=RestoreWords)
    archive: Archive = None
    format: Format = None
    staging: StagingPlace = None
    keep_staging: KeepStaging = False
    skip_damaged: SkipDamaged = False
    report: ProofPage = None

    @property
    def keeps_backup(self) -> bool:
        """Whether the backup stays, with the records of the restore: in a given repository, the undo record of group
        changes stays."""
        return self.archive is None or self.keep_staging or bool(self.staging and self.words.get("groups"))


@contextmanager
def backup_to_restore(
    options: RestoreRunOptions, runner: Runner, *, cluster_id: Callable[[], str] = str, take_over: bool = False
) -> Iterator[Backup]:
    """A context with the backup to restore. The copy of an archive is removed at the end, unless the same command
    continues with the copy. `cluster_id`: of the target, called for archives only; `take_over`: also take a copy held
    by another process."""
    if options.archive is None:
        if options.format or options.staging or options.keep_staging or options.skip_damaged:
            raise BadOption("--format, --staging, --keep-staging and --skip-damaged work only with --archive")
        otherwise, records = ", or an archive with --archive and --format", options.words.get("records")
        yield named_backup(options.repo, options.backup, otherwise=otherwise, records=records)
        return
    if options.words.get("records") is not None:
        raise BadOption("--records works only with a backup; the copy of an --archive contains its records")
    if options.format is None or options.backup is not None:
        raise BadOption("--archive needs --format, and no --backup", hint="see: offsite restore run --help")
    purpose = _purpose(options, cluster_id)
    with _staged(options.archive, options.format, options, runner, purpose=purpose, take_over=take_over) as backup:
        yield backup


def _purpose(options: RestoreRunOptions, cluster_id: Callable[[], str]) -> str:
    """Return text that distinguishes the command from other restores of the same archive."""
    from offsite.restore.request import encode_request

    return json.dumps([encode_request(parse_restore(options.words)), options.skip_damaged, cluster_id()])


@contextmanager
def _staged(  # the archive, and all that says what becomes of it
    archive: str, format_name: str, options: RestoreRunOptions, runner: Runner, *, purpose: str, take_over: bool
) -> Iterator[Backup]:
    from offsite.archives.formats import ReadOptions
    from offsite.archives.import_run import ImportRequest, plan_import, run_import
    from offsite.archives.import_staging import open_staging
    from offsite.archives.inspection import open_source
    from offsite.cli.commands.import_ import render_import
    from offsite.cli.progress import progress

    source = open_source(format_name, archive, ReadOptions())
    staging = open_staging(options.staging, format_name=format_name, archive=source.place, purpose=purpose)
    request = ImportRequest(
        backup=staging.backup, format=format_name, place=source.place, skip_damaged=options.skip_damaged
    )
    with staging.hold(take_over=take_over) as lease:
        staging.keep(stays=options.keep_staging)
        try:
            plan = plan_import(staging.repository, source.reader, request)
            with progress(f"import {archive}", total_bytes=plan.estimated_bytes) as on_progress:
                result = run_import(
                    plan,
                    repository=staging.repository,
                    reader=source.reader,
                    runner=runner,
                    on_progress=lease.watch_progress(on_progress),
                )
            emit_notice(result, render=render_import)
            yield staging.repository.backup(staging.backup)
        except BaseException as error:
            end_copy(staging, lease, error)
            raise
        if options.keeps_backup:
            note(f"the copy of the archive is kept in {staging.place}, backup {staging.backup}")
        else:
            _remove(staging, lease)


def end_copy(staging: Staging, lease: RestoreLease, error: BaseException) -> None:
    """Decide about the copy after an incomplete or failed restore."""
    place = f"{staging.place}, backup {staging.backup}"
    if staging.is_wanted or staging.is_kept:
        note(f"the copy of the archive is kept in {place}: to continue, run the same command again")
    elif isinstance(error, typer.Exit) and error.exit_code == EXIT_PARTIAL:
        staging.keep(stays=True)
        note(f"the copy of the archive is kept in {place}, for the groups that were not set; delete it afterwards")
    elif isinstance(error, typer.Exit | UserError | Damaged):  # the same command would end so again
        _remove(staging, lease)
    else:
        note(
            f"the copy of the archive is kept in {place}: to continue, run the same command again; without a run the "
            "copy may be deleted after a day"
        )


def _remove(staging: Staging, lease: RestoreLease) -> None:
    try:
        changes = staging.remove(lease)
    except RestoreTakenOver:
        raise
    except (OffsiteError, OSError) as error:  # the restore has ended all the same
        note(f"the copy of the archive is still in {staging.place}: {error}")
        return
    note("the copy of the archive was removed, with the map of offsets; --keep-staging keeps them")
    if changes is None:
        return
    for change in changes.changes:
        note(f"to go back: offsite groups undo --repo {changes.place} --backup {changes.backup} --change {change}")
