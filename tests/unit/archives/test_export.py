"""One partition of a cluster that cannot be read keeps no other from being exported, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.archives.archive import ArchiveTopic
from offsite.archives.export.plan import ExportPlan
from offsite.archives.export.run import ExportResult, ExportTarget, open_target, run_export
from offsite.archives.export.task import ExportTask
from offsite.archives.formats import WriteOptions
from offsite.log.range import Hole, LogRange, TopicPartition
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import DamagedBatch, NoEvidence, OffsiteError
from tests.archive_records import plain_records
from tests.inline_runner import InlineRunner


@dataclass(frozen=True)
class Source:
    """Ten records a range, but for those that fail."""

    failing: dict[tuple[int, int], OffsiteError]

    def stable_range(self, task: ExportTask) -> LogRange:
        return task.range

    def records(self, _task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns | Hole]:
        yield RecordColumns.of(plain_records(log_range.start, log_range.start + 5))
        if error := self.failing.get((log_range.partition, log_range.start)):
            raise error
        yield RecordColumns.of(plain_records(log_range.start + 5, log_range.end))


@pytest.fixture
def target(tmp_path: Path) -> ExportTarget:
    return open_target("avro", str(tmp_path / "archive"), WriteOptions())


def run(target: ExportTarget, *starts: tuple[int, int], failing: dict[tuple[int, int], OffsiteError]) -> ExportResult:
    ranges = [LogRange(topic="orders", partition=number, start=start, end=start + 10) for number, start in starts]
    plan = ExportPlan(
        source="cluster c",
        topics=(ArchiveTopic(topic="orders", partitions=2),),
        tasks=tuple(ExportTask(range=each, estimated_bytes=1) for each in ranges),
        holes=(),
        groups={},
        ends=target.writer.ends(),
        notes=(),
    )
    return run_export(plan, target=target, source=Source(failing), runner=InlineRunner())


def test_a_partition_that_cannot_be_read_on_is_written_up_to_there_and_named(target: ExportTarget) -> None:
    lost = NoEvidence("its leader is silent")
    result = run(target, (0, 0), (1, 0), (0, 10), (1, 10), (0, 20), failing={(0, 10): lost})
    assert (result.records, result.sick, result.complete) == (30, ("orders/0: its leader is silent",), False)
    ends = {TopicPartition(topic="orders", partition=number): end for number, end in [(0, 10), (1, 20)]}
    assert target.writer.ends() == ends
    again = run(target, (0, 10), (0, 20), failing={})
    assert (again.records, again.sick) == (20, ())


def test_where_nothing_could_be_read_the_error_itself_is_raised(target: ExportTarget) -> None:
    with pytest.raises(DamagedBatch):
        run(target, (0, 0), (0, 10), failing={(0, 0): DamagedBatch("torn")})


def test_a_failure_of_the_whole_cluster_is_raised_at_once(target: ExportTarget) -> None:
    with pytest.raises(OffsiteError, match="everything"):
        run(target, (0, 0), (1, 0), failing={(1, 0): OffsiteError("everything is wrong")})
