"""offsite for Python programs: the uses behind the commands, with the same names for options. `Repo` is an opened
repository, `Backup` one of its backups. Spark for their jobs is the program's own, or is started for every job.

Importing the package is cheap; the working modules are imported on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from offsite.engine.settings import SparkChoice, settings_of
from offsite.model.options import SecretsChoice, SecretsText, parse_choice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from offsite.archives.export.run import ExportResult
    from offsite.archives.import_run import ImportResult
    from offsite.backup.options import BackupWords
    from offsite.backup.run import BackupResult
    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.runner import OnProgress
    from offsite.engine.spark_runner import SparkRunner
    from offsite.kafka.cluster import Cluster
    from offsite.overview.contents import BackupDetail, BackupSummary
    from offsite.overview.status import Status
    from offsite.repository import backup as stored
    from offsite.repository.commit_history import CommitSummary
    from offsite.repository.repository import Repository
    from offsite.restore.options import PointWords, RestoreWords
    from offsite.restore.plan import PlannedRestore
    from offsite.restore.plan_report import RestorePlanReport
    from offsite.restore.result import RestoreResult
    from offsite.schemas.registry_client import RegistryAddress
    from offsite.upkeep.verification.run import VerifyResult


class Backup:
    """One backup, made by `Repo.backup`. Holds no state: every call reads the present backup."""

    def __init__(self, backup: stored.Backup, repo_url: str, engine: Engine) -> None:
        self._backup = backup
        self._repo_url = repo_url
        self._engine = engine

    def __repr__(self) -> str:
        return f"offsite.open({self._repo_url!r}).backup({self.name!r})"

    @property
    def name(self) -> str:
        """The name, as in `--backup`."""
        return self._backup.descriptor.name

    def restore_points(self) -> tuple[CommitSummary, ...]:
        """Return all commits that can be restored, the oldest first. Raises `DamagedCommit`."""
        return tuple(self._backup.state().history)

    def detail(self, *, commit: int | None = None) -> BackupDetail:
        """Topics, partitions with their offsets, holes, as `offsite show` shows them. Raises `NoSuchRestorePoint`."""
        from offsite.overview.contents import show_backup

        return show_backup(self._backup, commit=commit)

    def verify(self, *, deep: bool = False, on_progress: OnProgress | None = None) -> VerifyResult:
        """Check that everything listed by the backup exists; `deep`: read and compare every byte. Damage is a result,
        not an error. The repository remembers the check, where writable."""
        from offsite.upkeep.verification.last_checks import remember_check
        from offsite.upkeep.verification.run import verify_deep, verify_quick

        if deep:
            with self._engine.runner() as runner:
                result = verify_deep(self._backup, runner, on_progress=on_progress)
        else:
            result = verify_quick(self._backup)
        remember_check(self._backup, result)
        return result

    def plan_restore(
        self,
        *,
        bootstrap: str | None = None,
        kafka_config: Path | None = None,
        registry: str | None = None,
        registry_config: Path | None = None,
        **words: Unpack[RestoreWords],
    ) -> RestorePlanReport:
        """Return the plan of `restore` with the same options. Changes nothing, starts no Spark."""
        from offsite.kafka.cluster import connect
        from offsite.restore.plan_report import report_plan

        there = _registry(registry, registry_config)
        return report_plan(_prepare(self._backup.read_only(), connect(bootstrap, kafka_config), words, there))

    def restore(  # noqa: PLR0913  # all by keyword, each with a default
        self,
        *,
        bootstrap: str | None = None,
        kafka_config: Path | None = None,
        registry: str | None = None,
        registry_config: Path | None = None,
        verify: bool = True,
        take_over: bool = False,
        on_progress: OnProgress | None = None,
        **words: Unpack[RestoreWords],
    ) -> RestoreResult:
        """Restore topics into empty or new topics, as `offsite restore run --yes` does: the same options,
        `rename=["a=b"]` for `--rename a=b`. After a crash the same call continues. `verify`: read everything back and
        compare; a difference is in the result. `take_over`: also while another process does the restore; the other
        process is shut out.

        Raises `RestoreRefused` before any change, `RestoreRunning`, `PartitionsFailed`, `NoSuchRestorePoint` …
        """
        from offsite.kafka.cluster import connect
        from offsite.restore.options import parse_restore_limits
        from offsite.restore.run import run_restore

        limits, cluster = parse_restore_limits(words), connect(bootstrap, kafka_config)
        prepared = _prepare(self._backup, cluster, words, _registry(registry, registry_config))
        with self._engine.runner(limits) as runner:
            runner.refuse_strangers()
            return run_restore(
                prepared,
                cluster=cluster,
                runner=runner,
                verify=verify,
                take_over=take_over,
                on_progress=on_progress,
            )

    def export(  # noqa: PLR0913  # all by keyword, each with a default
        self,
        place: str,
        *,
        format: str,  # noqa: A002  # the word of the command
        lossy: bool = False,
        plain: bool = False,
        segment_bytes: int | None = None,
        groups: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
        **words: Unpack[PointWords],
    ) -> ExportResult:
        """Write new records into an archive for further tools, as `offsite export` does.

        `format`: `avro`, `kafka-backup`, `osodevops`, `parquet`, `jsonl`. Raises `NotRepresentable` for a record that
        the format cannot hold, unless `lossy`; `NoSuchTopic`, `NoSuchRestorePoint` …
        """
        from offsite.archives.export.plan import ExportRequest
        from offsite.archives.export.run import export_of_backup, open_target
        from offsite.archives.formats import WriteOptions
        from offsite.model.selection import parse_groups
        from offsite.restore.options import parse_point

        cluster_id = self._backup.descriptor.cluster_id
        write = WriteOptions(lossy=lossy, plain=plain, segment_bytes=segment_bytes, cluster_id=cluster_id)
        request = ExportRequest(point=parse_point(words), groups=parse_groups(groups or ()))
        job = export_of_backup(self._backup.read_only(), open_target(format, place, write), request)
        with job.alone(), self._engine.runner() as runner:
            return job.run(job.plan(), runner, on_progress=on_progress)

    def to_df(
        self,
        spark: SparkSession,
        *,
        topics: Sequence[str] | None = None,
        commit: int | None = None,
        as_of: str | None = None,
        **options: object,
    ) -> DataFrame:
        """Return the records as a table, `spark.read.format("offsite")`: the columns of Spark's Kafka source, and
        `commit`.

        `topics`: names, globs, `regex:…` (all by default); as of a `commit`, or the newest commit at the time `as_of`.
        `options`: further options of the [table](../how-to/table.md), such as `startingOffset`, `since`, `at`, which
        save reading. Lazy. Raises `BadOption`, `NoSuchRestorePoint`, `NoSuchTopic`.
        """
        from offsite.model.selection import join_patterns
        from offsite.table.datasource import register

        register(spark)
        table_options = {
            "topics": join_patterns(topics) if topics else None,
            "commit": commit,
            "asOf": as_of,
            **options,
        }
        reader = spark.read.format("offsite").option("repo", self._repo_url).option("backup", self.name)
        for name, value in table_options.items():
            if value is not None:
                reader = reader.option(name, str(value))
        return reader.load()


def _prepare(
    backup: stored.Backup, cluster: Cluster, words: RestoreWords, registry: RegistryAddress | None = None
) -> PlannedRestore:
    from offsite.restore.options import parse_restore
    from offsite.restore.plan import prepare_restore

    return prepare_restore(backup, cluster.admin, parse_restore(words), registry=registry)


def _registry(url: str | None, config: Path | None) -> RegistryAddress | None:
    from offsite.schemas.registry_settings import read_registry_if_named

    return read_registry_if_named(url, config)


class SparkWords(TypedDict, total=False):
    """The Spark of jobs and its settings: as the options of the same names.

    `spark_master`: a master URL, or `submitted`. `spark_conf` wins over the file `spark_properties`. `spark_archive`:
    made by `offsite spark pack`. `secrets`: `encrypted`, `on-executors` or `in-clear`.
    """

    spark_master: str | None
    spark_conf: Mapping[str, str]
    spark_properties: Path | None
    spark_archive: str | None
    secrets: SecretsText


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A Spark for jobs. `session`: the program's own, left running; its workers must be able to import offsite. Without
    a session, jobs start the Spark of `choice` and end it."""

    session: SparkSession | None = None
    choice: SparkChoice = field(default_factory=SparkChoice)

    @classmethod
    def of(cls, session: SparkSession | None, words: SparkWords) -> Engine:
        """Make an engine from keywords. Raises `BadOption`."""
        conf = {**settings_of(words.get("spark_properties"), ()), **words.get("spark_conf", {})}
        choice = SparkChoice(
            master=words.get("spark_master"),
            conf=conf,
            archive=words.get("spark_archive"),
            secrets=parse_choice(SecretsChoice, words.get("secrets", SecretsChoice.DEFAULT)),
        )
        return cls(session=session, choice=choice)

    @contextmanager
    def runner(self, limits: RateLimits | None = None) -> Iterator[SparkRunner]:
        """A runner, ended with the block, with tasks that observe `limits`."""
        from offsite.engine.spark_runner import SparkRunner

        context = None if self.session is None else self.session.sparkContext
        runner = SparkRunner(self.choice, context=context, limits=limits)
        runner.begin()
        try:
            yield runner
        finally:
            runner.close()


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

    def back_up(  # noqa: PLR0913  # all by keyword, each with a default
        self,
        name: str,
        *,
        bootstrap: str | None = None,
        kafka_config: Path | None = None,
        registry: str | None = None,
        registry_config: Path | None = None,
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

        request = parse_backup(name, words, registry=registry, registry_config=registry_config)
        cluster = connect(bootstrap, kafka_config)
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
