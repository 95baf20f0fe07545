"""`spark.read.format("offsite")`: Spark's view of a backup as a table. The shell around `scan_plan` and `scan`.

Spark finds an installed offsite itself, through the module `pyspark_offsite`; `register` does it by hand. Filters of a
query become bounds: any filter that only narrows the rows is usable, since Spark checks every row again. A filter of
another kind, or on another column, narrows nothing. The module imports pyspark, and must stay out of the imports of
commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption
from offsite.model.units import parse_time
from offsite.points.point_in_time import select_chains
from offsite.points.restore_point import FixedPoint, find_point, fix_point
from offsite.repository.backup import Backup
from offsite.repository.commit import damaged_commit
from offsite.repository.coverage import find_origins
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from offsite.stores.wrapped_store import ClockFallbackStore
from offsite.table.latest import by_partition, latest_arrow
from offsite.table.options import STREAM_OPTIONS, TableOptions, WithoutSecrets, read_options
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import RowFilter, ScanTask, plan_scan, with_commits

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, commit BIGINT"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS = 1000


def register(spark: SparkSession) -> None:
    """Register the format where `spark` does not find it: when this process has offsite on a path of its own."""
    spark.dataSource.register(OffsiteDataSource)


class OffsiteDataSource(DataSource):
    """One table: the topics named by the options, as of one restore point. The point is fixed when the table is loaded,
    so that a DataFrame shows the same rows at each use. A stream has no such point. Options: see `TableOptions`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = read_options(options)
        backup = _open_backup(self._options)
        head = backup.sound_state()
        # Without a commit no point can be fixed yet: a stream may wait for the first commit.
        self._loaded = _load(self._options, backup, head) if head.seq else None

    @classmethod
    def name(cls) -> str:
        return "offsite"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark gives it by name
        if unusable := sorted(self._options.option_names & set(STREAM_OPTIONS)):
            raise BadOption(f"option {unusable[0]} is for streams", hint="choose what to read with commit or asOf")
        backup = _open_backup(self._options)
        loaded = self._loaded or _load(self._options, backup, backup.sound_state())
        return (PushdownReader if self._options.pushdown else TableReader)(self._options, backup, *loaded)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  # Spark's names
        from offsite.table.stream import TableStream

        return TableStream(self._options, _open_backup(self._options))


def _open_backup(options: TableOptions) -> Backup:
    """Open the backup. Raises `RepositoryNotFound`, `BackupNotFound`, `BadRepositoryUrl`, and the store's errors."""
    return (
        Repository.open(ClockFallbackStore(open_store(options.repo)))
        .backup(options.backup)
        .for_reading(is_named=options.is_named)
    )


def _load(options: TableOptions, backup: Backup, head: BackupState) -> tuple[FixedPoint, RowFilter]:
    """Fix the point and the rows meant by the options now: the newest commit, or a time like `2h-ago`, is another one a
    moment later.

    Nobody sees a warning in a query: damage behind the point is ignored only where a commit is named. Raises
    `DamagedCommit` otherwise, `NoSuchRestorePoint`, and `BadOption` for an unreadable time.
    """
    if head.unreadable and options.commit is None:
        raise damaged_commit(f"{head.unreadable}; option commit reads up to {head.seq}")
    fixed = fix_point(backup, options, head)
    backup.state_at(fixed.commit, head=head)  # report damage now, not in the middle of a query
    return fixed, RowFilter(
        start=options.starting_offset or 0,
        end=MAX_OFFSET if options.ending_offset is None else options.ending_offset,
        since_ms=None if options.since is None else parse_time(options.since, now_ms=backup.store.now_ms()),
    )


class ScanPartition(InputPartition):
    """One task of a scan with the store, as sent to a worker."""

    def __init__(self, task: ScanTask, store: Store) -> None:
        super().__init__(task)
        self.task, self.store = task, WithoutSecrets(store)


class LatestPartition(InputPartition):
    """All tasks of one Kafka partition. The rows are the latest record of every key, where the record is one of
    `rows`."""

    def __init__(self, tasks: tuple[ScanTask, ...], rows: RowFilter, store: Store) -> None:
        super().__init__(tasks)
        self.tasks, self.rows, self.store = tasks, rows, WithoutSecrets(store)


class TableReader(DataSourceReader):
    """A reader of one restore point. Lives on the driver for the plan, and in a worker for every read of a
    partition."""

    def __init__(self, options: TableOptions, backup: Backup, fixed: FixedPoint, rows: RowFilter) -> None:
        self._options, self._here, self._fixed, self._rows = options, WithoutSecrets(backup), fixed, rows

    @property
    def _backup(self) -> Backup:
        return self._here.value

    def partitions(self) -> list[InputPartition]:  # Spark insists on a list
        point = find_point(self._backup, self._options, self._fixed, partitions_exist=False)
        selected = select_chains(point, self._options.selection)
        latest = self._options.latest
        read = (
            replace(RowFilter(), topics=self._rows.topics, partitions=self._rows.partitions) if latest else self._rows
        )
        tasks = plan_scan(selected, read, read_committed=self._options.read_committed)
        if self._options.with_commit:
            keys = [scan.segment.key for task in tasks for scan in task.segments]
            commits = self._backup.log.read_down(upto=self._backup.sound_state().seq)  # since then perhaps rolled up
            tasks = with_commits(tasks, find_origins(commits, keys))
        if latest:
            return [
                LatestPartition(partition_tasks, self._rows, self._backup.store)
                for partition_tasks in by_partition(tasks)
            ]
        return [ScanPartition(task, self._backup.store) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition)


class PushdownReader(TableReader):
    """A reader that takes the filters of a query too. Spark refuses the reader while Spark's setting for pushdown is
    off. See `TableOptions`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Narrow the rows by `filters`, and return all filters: fewer rows save reading, and Spark still checks every
        row."""
        self._rows = narrow(self._rows, filters)
        return filters


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Return the rows of one partition. Without anything to read, Spark still asks for one partition, made by Spark
    itself."""
    if isinstance(partition, LatestPartition):
        return latest_arrow(partition.tasks, partition.rows, partition.store.value)
    return scan_arrow(partition.task, partition.store.value) if isinstance(partition, ScanPartition) else iter(())


def narrow(rows: RowFilter, filters: Iterable[Filter]) -> RowFilter:
    """Return `rows`, narrowed by all filters."""
    for condition in filters:
        rows = _narrow_by(rows, condition)
    return rows


def _narrow_by(rows: RowFilter, condition: Filter) -> RowFilter:  # noqa: PLR0911  # one for each kind of filter
    from pyspark.sql import datasource as spark

    match condition:
        case spark.EqualTo(attribute=(column,), value=value) | spark.EqualNullSafe(attribute=(column,), value=value):
            return _among(rows, column, [value])
        case spark.In(attribute=(column,), value=values):
            return _among(rows, column, list(values))
        case spark.GreaterThan(attribute=(column,), value=value):
            return _at_least(rows, column, value, strict=True)
        case spark.GreaterThanOrEqual(attribute=(column,), value=value):
            return _at_least(rows, column, value, strict=False)
        case spark.LessThan(attribute=(column,), value=value):
            return _at_most(rows, column, value, strict=True)
        case spark.LessThanOrEqual(attribute=(column,), value=value):
            return _at_most(rows, column, value, strict=False)
    return rows


def _among(rows: RowFilter, column: str, values: list[object]) -> RowFilter:
    match column:
        case "topic":
            return rows.of_topics(frozenset(value for value in values if isinstance(value, str)))
        case "partition":
            return rows.of_partitions(frozenset(value for value in values if isinstance(value, int)))
        case "offset" | "timestamp":
            numbers = [number for number in map(_bound, values) if number is not None]
            if not numbers or len(numbers) < len(values):
                return rows
            return _at_most(_at_least(rows, column, min(numbers), strict=False), column, max(numbers), strict=False)
    return rows


def _at_least(rows: RowFilter, column: str, value: object, *, strict: bool) -> RowFilter:
    number = _bound(value)
    if number is None:
        return rows
    if column == "offset":
        return rows.from_offset(number + 1 if strict else number)
    if column == "timestamp":
        return rows.since(number // _US_PER_MS + 1 if strict else -(-number // _US_PER_MS))
    return rows


def _at_most(rows: RowFilter, column: str, value: object, *, strict: bool) -> RowFilter:
    number = _bound(value)
    if number is None:
        return rows
    if column == "offset":
        return rows.below_offset(number if strict else number + 1)
    if column == "timestamp":
        return rows.until(-(-number // _US_PER_MS) - 1 if strict else number // _US_PER_MS)
    return rows


def _bound(value: object) -> int | None:
    """Return an offset, or a time in microseconds. None for a time without a zone, which Spark does not compare with
    the column."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1) if value.tzinfo else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
