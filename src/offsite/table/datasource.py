"""`spark.read.format("offsite")`: Spark's view of a backup as a table. The shell around `scan_plan` and `scan`.

An installed offsite is found by Spark itself, through the module `pyspark_offsite`; `register` does it by hand. Filters
of a query become bounds: whatever only narrows the rows may be used, since Spark looks at every row again; a filter of
another kind, or on another column, narrows nothing. Imports pyspark; must stay out of what commands import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from offsite.copy.chain import select_chains
from offsite.copy.restore_point import FixedPoint, find_point, fix_point
from offsite.model.errors import BadOption
from offsite.model.time import parse_time
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.repository.backup import Backup
from offsite.repository.commit_json import damaged_commit
from offsite.repository.repository import Repository
from offsite.repository.segment_origins import find_origins
from offsite.repository.state import BackupState
from offsite.stores.looking_store import LookingStore
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from offsite.table.latest import by_partition, latest_arrow
from offsite.table.on_worker import OnWorker
from offsite.table.options import STREAM_OPTIONS, TableOptions, read_options
from offsite.table.row_filter import RowFilter
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import ScanTask, plan_scan, with_commits

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, commit BIGINT"
)


def register(spark: SparkSession) -> None:
    """Let `spark` know the format where it does not find it: when this process has offsite on a path of its own."""
    spark.dataSource.register(OffsiteDataSource)


class OffsiteDataSource(DataSource):
    """One table: what the options name, as of one restore point. That is fixed when the table is loaded, so that a
    DataFrame shows the same rows at each use. A stream has no such point. Options: see `TableOptions`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = read_options(options)
        backup = _open_backup(self._options)
        head = backup.sound_state()
        # Without a commit nothing can be fixed yet: a stream may wait for the first one.
        self._loaded = _load(self._options, backup, head) if head.seq else None

    @classmethod
    def name(cls) -> str:
        return "offsite"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark gives it by name
        if unusable := sorted(self._options.given & set(STREAM_OPTIONS)):
            raise BadOption(f"option {unusable[0]} is for streams", hint="name what to read with commit or asOf")
        backup = _open_backup(self._options)
        loaded = self._loaded or _load(self._options, backup, backup.sound_state())
        return (PushdownReader if self._options.pushdown else TableReader)(self._options, backup, *loaded)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  # Spark's names
        from offsite.table.stream import TableStream

        return TableStream(self._options, _open_backup(self._options))


def _open_backup(options: TableOptions) -> Backup:
    """Raises `RepositoryNotFound`, `BackupNotFound`, `BadRepositoryUrl`, and what the store raises."""
    return (
        Repository.open(LookingStore(open_store(options.repo)))
        .backup(options.backup)
        .reading(is_named=options.is_named)
    )


def _load(options: TableOptions, backup: Backup, head: BackupState) -> tuple[FixedPoint, RowFilter]:
    """The point and the rows that the options mean now: the newest commit, or a time like `2h-ago`, is another one a
    moment later.

    Nobody sees a warning in a query: damage behind what is read is passed over only where a commit is named. Raises
    `DamagedCommit` elsewhere, `NoSuchRestorePoint`, `BadOption` for a time that is none.
    """
    if head.unreadable and options.commit is None:
        raise damaged_commit(f"{head.unreadable}; option commit reads up to {head.seq}")
    fixed = fix_point(backup, options, head)
    backup.state_at(fixed.commit, head=head)  # what cannot be read is told now, not in the middle of a query
    return fixed, RowFilter(
        start=options.starting_offset or 0,
        end=MAX_OFFSET if options.ending_offset is None else options.ending_offset,
        since_ms=None if options.since is None else parse_time(options.since, now_ms=backup.store.now_ms()),
    )


class ScanPartition(InputPartition):
    """One task of a scan with the store to read from, as it travels to a worker."""

    def __init__(self, task: ScanTask, store: Store) -> None:
        super().__init__(task)
        self.task, self.store = task, OnWorker(store)


class LatestPartition(InputPartition):
    """All tasks of one Kafka partition, of which the latest record of each key is wanted where it is one of `rows`."""

    def __init__(self, tasks: tuple[ScanTask, ...], rows: RowFilter, store: Store) -> None:
        super().__init__(tasks)
        self.tasks, self.rows, self.store = tasks, rows, OnWorker(store)


class TableReader(DataSourceReader):
    """A reader of one restore point. Lives on the driver to plan, and in each worker to read one partition."""

    def __init__(self, options: TableOptions, backup: Backup, fixed: FixedPoint, rows: RowFilter) -> None:
        self._options, self._here, self._fixed, self._rows = options, OnWorker(backup), fixed, rows

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
            commits = self._backup.log.read_down(upto=self._backup.sound_state().seq)  # one since may have rolled up
            tasks = with_commits(tasks, find_origins(commits, keys))
        if latest:
            return [LatestPartition(each, self._rows, self._backup.store) for each in by_partition(tasks)]
        return [ScanPartition(task, self._backup.store) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition)


class PushdownReader(TableReader):
    """A reader that takes the filters of a query as well; Spark refuses it while its setting for that is off. See
    `TableOptions`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Narrow the rows by `filters`, and return all of them: leaving rows out saves reading, and Spark still looks
        at each row that comes."""
        self._rows = narrowed(self._rows, filters)
        return filters


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one partition. Where there is nothing to read, Spark still asks for one partition, which is not
    ours."""
    if isinstance(partition, LatestPartition):
        return latest_arrow(partition.tasks, partition.rows, partition.store.value)
    return scan_arrow(partition.task, partition.store.value) if isinstance(partition, ScanPartition) else iter(())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS = 1000


def narrowed(rows: RowFilter, filters: Iterable[Filter]) -> RowFilter:
    """The bounds `rows`, narrowed to what all of the filters allow."""
    for each in filters:
        rows = _narrowed_by(rows, each)
    return rows


def _narrowed_by(rows: RowFilter, each: Filter) -> RowFilter:  # noqa: PLR0911  # one for each kind of filter
    from pyspark.sql import datasource as spark

    match each:
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
    """An offset, or a time in microseconds. A time without a zone is not one that Spark compares with this column."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1) if value.tzinfo else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
