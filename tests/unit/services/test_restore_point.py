from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.log.offset_vector import parse_before, parse_offsets
from offsite.model.errors import BadOption, NoSuchRestorePoint
from offsite.model.partition_selection import parse_partitions
from offsite.model.selection import parse_selection
from offsite.model.time import format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import Changes, Checkpoint, PartitionId
from offsite.repository.open_store import open_store
from offsite.repository.restore_record import RestoreRecord
from offsite.services.restore_point import find_point
from offsite.services.restore_request import RestoreRequest
from tests.backups import PARTITIONS, STEP, new_backup, run_once

RUNS = 3
ORDERS_1 = PARTITIONS[1]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """Three commits of 20 offsets in each partition of `orders` (two) and `users` (one)."""
    backup = new_backup(open_store(str(tmp_path)))
    for _ in range(RUNS):
        run_once(backup)
    return backup


def request(**fields: object) -> RestoreRequest:
    return RestoreRequest(selection=parse_selection(["*"]), **fields)  # type: ignore[arg-type]


def ends(backup: Backup, **fields: object) -> dict[str, int]:
    state = find_point(backup, request(**fields), None).state
    return {str(partition): position.end for partition, position in state.positions.items()}


def test_the_newest_commit_is_meant_unless_another_is_named(backup: Backup) -> None:
    committed_ms = backup.state_at(2).committed_at_ms
    assert find_point(backup, request(), None).state.seq == RUNS
    assert find_point(backup, request(commit=1), None).state.seq == 1
    by_time = find_point(backup, request(committed_at=str(committed_ms)), None).state
    assert by_time.seq == max(s.seq for s in backup.state().history if s.committed_at_ms <= committed_ms)
    with pytest.raises(NoSuchRestorePoint):
        find_point(backup, request(committed_at="2001-01-01"), None)


def test_a_time_of_records_is_read_against_the_store_s_clock(backup: Backup) -> None:
    found = find_point(backup, request(at="1h-ago"), None).until_ms
    assert found is not None
    assert 0 <= backup.store.now_ms() - 3_600_000 - found < 60_000
    assert find_point(backup, request(at=format_time(1_700_000_000_123)), None).until_ms == 1_700_000_000_123


def test_an_unfinished_restore_keeps_its_commit_and_its_time(backup: Backup) -> None:
    record = RestoreRecord(
        restore="r",
        commit=2,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="translate",
        created_at_ms=1,
        topics=(),
        created=(),
        until_ms=123,
    )
    point = find_point(backup, request(at="1h-ago"), record)
    assert (point.commit.seq, point.until_ms) == (2, 123)


def test_before_ends_one_partition_and_leaves_the_others(backup: Backup) -> None:
    before = parse_before(["topic=orders,partition=1,offset=25"])
    assert ends(backup, before=before) == {"orders/0": 60, "orders/1": 25, "users/0": 60}


Named = Callable[[], RestoreRequest]


@pytest.mark.parametrize(
    ("named", "error"),
    [
        (lambda: request(before=parse_before(["topic=orders,partition=1,offset=61"])), NoSuchRestorePoint),
        (lambda: request(before=parse_before(["topic=orders,partition=2,offset=0"])), BadOption),
        (lambda: request(before=parse_before(["topic=elsewhere,partition=0,offset=0"])), BadOption),
        (lambda: request(ends=parse_offsets("orders,0,10\norders,1,10")), BadOption),
        (lambda: request(ends=parse_offsets("orders,0,10\norders,1,10\nusers,0,61")), NoSuchRestorePoint),
        (lambda: request(partitions=parse_partitions(["orders:2"])), BadOption),
        (lambda: request(partitions=parse_partitions(["elsewhere:0"])), BadOption),
        (lambda: request(checkpoint=1), NoSuchRestorePoint),
        (lambda: request(at="yesterdayish"), BadOption),
    ],
    ids=range(9),
)
def test_what_the_backup_does_not_hold_is_refused(backup: Backup, named: Named, error: type[Exception]) -> None:
    with pytest.raises(error):
        find_point(backup, named(), None)


def test_a_cut_needs_an_end_only_for_what_is_restored(backup: Backup) -> None:
    cut = parse_offsets("orders,0,10\norders,1,5\nelsewhere,0,7")
    orders = RestoreRequest(selection=parse_selection(["orders"]), ends=cut)
    assert find_point(backup, orders, None).state.positions[ORDERS_1].end == 5
    only_first = RestoreRequest(
        selection=parse_selection(["orders"]),
        ends=parse_offsets("orders,0,10"),
        partitions=parse_partitions(["orders:0"]),
    )
    assert list(find_point(backup, only_first, None).state.segments) == [PARTITIONS[0], PARTITIONS[2]]


def test_a_checkpoint_is_its_commit_ended_where_it_was_taken(backup: Backup) -> None:
    vector: tuple[tuple[PartitionId, int], ...] = ((PARTITIONS[0], STEP + 3), (ORDERS_1, STEP))
    taken = Checkpoint(id=7, taken_at_ms=1, ends=vector)
    backup.commit(Changes(checkpoint=taken), base=backup.state(), writer="w")
    run_once(backup)
    assert ends(backup, checkpoint=7) == {"orders/0": 23, "orders/1": 20, "users/0": 0}
    assert find_point(backup, request(checkpoint=7), None).commit.seq == RUNS + 1
    with pytest.raises(NoSuchRestorePoint, match="checkpoints: 7"):
        find_point(backup, request(checkpoint=8), None)
