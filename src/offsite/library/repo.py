"""An opened repository: `offsite.open` and the operations on a repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from offsite.library.backup import Backup, Engine, SparkWords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsite.archives.import_run import ImportResult
    from offsite.backup.options import BackupWords
    from offsite.backup.run import BackupResult
    from offsite.engine.runner import OnProgress
    from offsite.overview.contents import BackupSummary
    from offsite.overview.status import Status
    from offsite.repository.repository import Repository


def open(  # noqa: A001  # offsite.open reads as it should
    url: str, *, spark: SparkSession | None = None, **words: Unpack[SparkWords]
) -> Repo:
    """Open the repository in the folder or at the URL (`s3://`, `gs://`, `az://`).

    Jobs run on `spark`, which is left running, or on a Spark of their own (on this machine, unless `words` name
    another). Raises `RepositoryNotFound`, `BadRepositoryUrl`, `FormatTooNew`, `BadOption`.
    """
    from offsite.repository.repository import Repository
    from offsite.stores.open_store import open_store

    return Repo(Repository.open(open_store(url)), Engine.of(spark, words))


def init(url: str, *, spark: SparkSession | None = None, **words: Unpack[SparkWords]) -> Repo:
    """Make a new repository in an empty folder or prefix, and open the repository.

    Raises `RepositoryExists`, `BadRepositoryUrl`, `BadOption`.
    """
    from offsite.repository.repository import Repository
    from offsite.stores.open_store import open_store

    return Repo(Repository.init(open_store(url)), Engine.of(spark, words))


class Repo:
    """A repository, made by `offsite.open` or `offsite.init`. Holds no state: every call reads the present
    repository."""

    def __init__(self, repository: Repository, engine: Engine) -> None:
        self._repository = repository
        self._engine = engine

    def __repr__(self) -> str:
        return f"offsite.open({self.url!r})"

    @property
    def url(self) -> str:
        """The place of the repository, without any secret."""
        return self._repository.store.url

    def backups(self) -> tuple[BackupSummary, ...]:
        """Return one summary per backup, as `offsite list` shows them. Raises `DamagedCommit`."""
        from offsite.overview.contents import list_backups

        return list_backups(self._repository).backups

    def backup(self, name: str) -> Backup:
        """The backup of this name. Raises `BackupNotFound`."""
        return Backup(self._repository.backup(name), self._repository.store.url, self._engine)

    def status(self, *, records: str | None = None) -> Status:
        """Am I safe? An unreadable backup is a problem in the answer, not an error. `records`: the place of restore
        records, for a repository without write access."""
        from offsite.overview.status import read_status
        from offsite.stores.open_store import open_store

        return read_status(replace(self._repository, records_at=None if records is None else open_store(records)))

    def back_up(
        self,
        name: str,
        *,
        bootstrap: str | None = None,
        kafka_config: Path | None = None,
        on_progress: OnProgress | None = None,
        **words: Unpack[BackupWords],
    ) -> BackupResult:
        """Copy everything new since the last run and commit it, as `offsite backup run` does: the same options,
        `topics` for `--topics`. The first run makes the backup.

        Raises the errors of `offsite.backup`: `NoSuchTopic`, `OtherCluster`, `CommitLost`, `KafkaUnreachable` …
        """
        from offsite.backup.options import parse_backup, parse_limits
        from offsite.backup.plan import make_replan, plan_backup
        from offsite.backup.run import run_backup
        from offsite.kafka.cluster import connect

        request, cluster = parse_backup(name, words), connect(bootstrap, kafka_config)
        with self._engine.runner(parse_limits(words)) as runner:
            plan = plan_backup(self._repository, cluster.admin, request, slots=runner.slots)
            return run_backup(
                plan,
                repository=self._repository,
                kafka=cluster.config,
                runner=runner,
                on_progress=on_progress,
                replan=make_replan(self._repository, cluster.admin, request, slots=runner.slots),
            )

    def import_archive(  # noqa: PLR0913  # all by keyword
        self,
        place: str,
        *,
        format: str,  # noqa: A002  # the word of the command
        backup: str,
        topics: Sequence[str] | None = None,
        skip_damaged: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ImportResult:
        """Make a backup out of an archive of another tool, or add new records of the archive, as `offsite import` does.

        `format`: `avro`, `kafka-backup`, `osodevops`, `parquet`, `jsonl`, `trivadis`. The result's `fidelity` tells
        properties of the source that the archive does not hold. Raises `ArchiveNotFound`, `DamagedArchive` (nothing is
        imported then), `BackupExists` for a backup of another source.
        """
        from offsite.archives.formats import ReadOptions
        from offsite.archives.import_run import ImportRequest, plan_import, run_import
        from offsite.archives.inspection import open_source
        from offsite.model.selection import parse_selection

        source = open_source(format, place, ReadOptions())
        request = ImportRequest(
            backup=backup,
            format=format,
            place=source.place,
            selection=parse_selection(topics) if topics else None,
            skip_damaged=skip_damaged,
        )
        with self._engine.runner() as runner:
            plan = plan_import(self._repository, source.reader, request)
            return run_import(
                plan, repository=self._repository, reader=source.reader, runner=runner, on_progress=on_progress
            )
