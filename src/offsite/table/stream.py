"""`spark.readStream.format("offsite")`: a backup as a stream of rows, commit by commit. The stream's offset is a commit
number.

A micro-batch holds rows visible to a consumer after its last commit and not visible before its first: the rows of the
segments added by the commits, and, read committed, rows of earlier segments whose transactions the commits ended. A
micro-batch is the same at every read, so a query that restarts from its checkpoint neither loses nor repeats rows. Rows
are read from the segments that hold them now, not from the segments listed by the commits: the latter may have been
rolled up, and collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from offsite.model.errors import BadOption, DamagedCommit
from offsite.repository.backup import Backup
from offsite.repository.commit_json import damaged_commit
from offsite.repository.commit_log import CommitLog
from offsite.repository.fold import fold
from offsite.repository.state import BackupState
from offsite.table.ended_scan import scan_ended
from offsite.table.on_worker import WithoutSecrets
from offsite.table.options import BATCH_OPTIONS, LATEST, TableOptions
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import with_commits
from offsite.table.stream_plan import EndedTask, StreamSelection, StreamTask, plan_micro_batch

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_COMMIT = "commit"

StreamOffset = dict[str, int]
"""`{"commit": N}`: everything made visible by commits up to N has been read."""


class StreamPartition(InputPartition):
    """One task of a micro-batch with the log, as sent to a worker."""

    def __init__(self, task: StreamTask, log: CommitLog, *, with_commit: bool) -> None:
        super().__init__(task)
        self.task, self.log, self.with_commit = task, WithoutSecrets(log), with_commit


class TableStream(DataSourceStreamReader):
    """A stream that follows one backup. Spark keeps the offset; the object's own memory only saves repeated reads of
    commits."""

    def __init__(self, options: TableOptions, backup: Backup) -> None:
        if unusable := sorted(options.option_names & set(BATCH_OPTIONS)):
            raise BadOption(f"option {unusable[0]} is not for streams", hint="set the start with startingCommit")
        self._options, self._here = options, WithoutSecrets(backup)
        self._newest: int | None = None
        self._head: BackupState | None = None
        self._state = BackupState(backup=backup.descriptor.name)

    @property
    def _backup(self) -> Backup:
        return self._here.value

    def initialOffset(self) -> StreamOffset:  # noqa: N802  # Spark's name
        match self._options.starting_commit:
            case int(number):
                return {_COMMIT: number - 1}
            case str(word) if word == LATEST:
                return {_COMMIT: self._newest_commit()}
            case _:
                return {_COMMIT: 0}

    def latestOffset(self) -> StreamOffset:  # type: ignore[override]  # noqa: N802  # without limits, as in Spark 4.0
        return {_COMMIT: max(self._newest_commit(), self.initialOffset()[_COMMIT])}

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        if self._state.seq != start[_COMMIT]:
            self._state = self._backup.catalog.state(upto=start[_COMMIT])
        commits = list(self._backup.log.read(after=start[_COMMIT], upto=end[_COMMIT]))
        if len(commits) != end[_COMMIT] - start[_COMMIT]:  # fewer commits would lose rows for good
            missing = start[_COMMIT] + len(commits) + 1
            raise damaged_commit(f"{self._backup.layout.commit_key(missing)} was seen before and is missing now")
        selection = self._selection(is_first=start[_COMMIT] == 0)
        tasks = plan_micro_batch(self._state, commits, selection, head=self._newest_state())
        self._state = fold(self._state, commits)
        return [StreamPartition(task, self._backup.log, with_commit=self._options.with_commit) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            return iter(())
        if isinstance(partition.task, EndedTask):
            return scan_ended(partition.task, partition.log.value, with_commit=partition.with_commit)
        tasks = (partition.task,) if partition.with_commit else with_commits([partition.task], {})
        return scan_arrow(tasks[0], partition.log.value.store)

    def _selection(self, *, is_first: bool) -> StreamSelection:
        """Return the selection. `is_first`: the micro-batch begins with the earliest commit, and so loses nothing that
        the stream ever had."""
        options = self._options
        return StreamSelection(
            topics=options.selection,
            partitions=options.partitions,
            read_committed=options.read_committed,
            skips_lost=is_first or not options.fail_on_data_loss,
        )

    def _newest_state(self) -> BackupState:
        """Return the newest state, which names the segments that hold the data of all commits now. Opened once; later
        calls read only new commits. Damage in a commit behind the wanted commits is reported when the stream reaches
        the commit."""
        try:
            head = self._head or self._backup.sound_state()
            self._head = fold(head, self._backup.log.read(after=head.seq))
        except DamagedCommit:
            self._head = self._backup.sound_state()
        return self._head

    def _newest_commit(self) -> int:
        """Return the number of the newest commit. Called repeatedly: every call reads only new commits."""
        if self._newest is None:
            self._newest = self._backup.state().seq
        for stored in self._backup.log.read(after=self._newest):
            self._newest = stored.commit.seq
        return self._newest
