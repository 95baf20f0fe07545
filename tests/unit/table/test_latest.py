"""The compacted view of a topic: of each key the latest record as of a point, whatever the log looks like."""

from __future__ import annotations

import random

import pytest

from offsite.log.records.record import Record
from offsite.model.errors import DamagedObject
from offsite.model.selection import TopicSelection
from offsite.points.point_in_time import chains_of, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position
from offsite.restore.request import RestoreRequest
from offsite.table import latest
from offsite.table.latest import by_partition, latest_arrow, latest_offsets
from offsite.table.scan_plan import RowFilter, plan_scan
from offsite.table.search import RecordsRequest, cat_records, plan_records, raw_values
from offsite.upkeep.compaction import latest as gathering
from tests.backups import new_backup
from tests.compacted_logs import TOPIC, CompactedLog, commit_log, compacted_shape, segments_of
from tests.memory_store import MemoryStore


@pytest.fixture
def backup() -> Backup:
    return new_backup(MemoryStore())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _many_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PARCEL_KEYS", 4)
    monkeypatch.setattr(latest, "BUCKET_RECORDS", 10)
    monkeypatch.setattr(latest, "_MEMORY_BYTES", 100)


def written(backup: Backup, seed: int) -> tuple[CompactedLog, dict[int, int]]:
    log = CompactedLog(random.Random(seed))
    ends = {}
    for _ in range(4):
        state = commit_log(backup, log.grow(20), log.end, compacted_shape("delete"), pieces=2)
        ends[state.seq] = log.end
    return log, ends


def expected(log: CompactedLog, end: int) -> list[Record]:
    state, keyless = log.state_at(end)
    keyless = [record for record in keyless if record.value is not None or record.key is None]
    return sorted((*state.values(), *keyless), key=lambda record: record.offset)


def tasks_of(backup: Backup, seq: int, task_bytes: int) -> list[object]:
    selected = chains_of(point_in_time(backup.state_at(seq)), [TOPIC.topic])
    return list(plan_scan(selected, RowFilter(), read_committed=True, task_bytes=task_bytes))


@pytest.mark.parametrize("seed", range(8))
def test_each_key_shows_its_latest_record_as_of_the_point(backup: Backup, seed: int) -> None:
    log, ends = written(backup, seed)
    for seq, end in ends.items():
        (tasks,) = by_partition(tasks_of(backup, seq, 1 + 2000 * (seed % 2)))  # type: ignore[arg-type]
        assert list(latest_offsets(tasks, backup.store)) == [record.offset for record in expected(log, end)]
        rows = [row for batch in latest_arrow(tasks, RowFilter(), backup.store) for row in batch.to_pylist()]
        assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
            (record.offset, record.key, record.value) for record in expected(log, end)
        ]


def test_bounds_say_which_of_the_latest_are_shown(backup: Backup) -> None:
    log, ends = written(backup, 1)
    (tasks,) = by_partition(tasks_of(backup, max(ends), 1 << 30))  # type: ignore[arg-type]
    middle = log.end // 2
    rows = [row for b in latest_arrow(tasks, RowFilter(end=middle), backup.store) for row in b.to_pylist()]
    assert [row["offset"] for row in rows] == [r.offset for r in expected(log, log.end) if r.offset < middle]


def plan(backup: Backup, **request: object) -> object:
    point = RestoreRequest(selection=TopicSelection(include=(TOPIC.topic,)))
    return plan_records(backup, RecordsRequest(point=point, latest=True, **request))  # type: ignore[arg-type]


def test_cat_shows_the_latest_records_in_order(backup: Backup) -> None:
    log, _ = written(backup, 2)
    found = expected(log, log.end)
    assert [each.offset for each in cat_records(plan(backup))] == [record.offset for record in found]  # type: ignore[arg-type]
    start = found[len(found) // 2].offset
    shown = cat_records(plan(backup, start=str(start), limit=2))  # type: ignore[arg-type]
    assert [each.offset for each in shown] == [record.offset for record in found if record.offset >= start][:2]
    assert list(raw_values(plan(backup))) == [r.value for r in found if r.value is not None]  # type: ignore[arg-type]


def test_offsets_that_no_broker_reaches_are_refused(backup: Backup) -> None:
    """Offsets travel doubled: a segment of a stranger must not end in a traceback."""
    start = (1 << 62) + 5
    log = CompactedLog(random.Random(1), end=start)
    data = log.grow(5)
    position = Position(partition_id=TOPIC, log_start=start, end=log.end, leader_epoch=3)
    segments = tuple(segments_of(backup, data, start, log.end, 1))
    changes = CommitChanges(segments=segments, positions=(position,), topics=(compacted_shape(),))
    backup.commit(changes, base=backup.state(), writer="w")
    with pytest.raises(DamagedObject, match="reaches offset"):
        list(cat_records(plan(backup)))  # type: ignore[arg-type]
