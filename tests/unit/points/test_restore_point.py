from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.offset_vector import parse_before, parse_offsets
from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, IncarnationUnclear, NoSuchRestorePoint, StoreDenied
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_partitions
from offsite.model.units import format_time
from offsite.points.restore_point import FixedPoint, PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, CommitChanges, Position, TopicShape
from offsite.repository.restores.record import RestoreRecord
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from offsite.stores.wrapped_store import TimedStore
from tests.backups import PARTITIONS, SHAPES, STEP, new_backup, run_once, write_segment
from tests.batches import FIRST_TIME_MS
from tests.denied_store import DeniedStore

RUNS = 3
ORDERS_1 = PARTITIONS[1]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """Three commits of 20 offsets in each partition of `orders` (two) and `users` (one)."""
    backup = new_backup(open_store(str(tmp_path)))
    for _ in range(RUNS):
        run_once(backup)
    return backup


def request(**fields: object) -> PointRequest:
    return PointRequest(selection=parse_selection(["*"]), **fields)  # type: ignore[arg-type]


def ends(backup: Backup, **fields: object) -> dict[str, int]:
    state = find_point(backup, request(**fields)).state
    return {str(partition): position.end for partition, position in state.positions.items()}


class _At(TimedStore):
    """A store whose clock stands."""

    def __init__(self, inner: Store, now_ms: int) -> None:
        super().__init__(inner, lambda *_: None)
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def test_times_count_from_the_clock_of_the_backup_wherever_records_lie(backup: Backup, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    place = _At(open_store(str(tmp_path / "records")), 9_000_000_000_000)
    slow = replace(backup, store=_At(backup.store, 8_000_000_000_000), records_at=place)
    assert find_point(slow, request(at="1h-ago")).until_ms == 8_000_000_000_000 - 3_600_000
    denied = replace(backup, store=DeniedStore(backup.store), records_at=place)
    until_ms = find_point(denied, request(at="1h-ago")).until_ms
    assert until_ms is not None
    assert 0 <= SystemClock().now_ms() - 3_600_000 - until_ms < 60_000
    with pytest.raises(StoreDenied):
        find_point(replace(denied, records_at=None), request(at="1h-ago"))
    assert find_point(denied, request(committed_at="0s-ago")).state.seq == RUNS


def test_the_newest_commit_is_meant_unless_another_is_named(backup: Backup) -> None:
    committed_ms = backup.state_at(2).committed_at_ms
    assert find_point(backup, request()).state.seq == RUNS
    assert find_point(backup, request(commit=1)).state.seq == 1
    by_time = find_point(backup, request(committed_at=str(committed_ms))).state
    assert by_time.seq == max(s.seq for s in backup.state().history if s.committed_at_ms <= committed_ms)
    with pytest.raises(NoSuchRestorePoint):
        find_point(backup, request(committed_at="2001-01-01"))


def test_a_time_of_records_is_read_against_the_store_s_clock(backup: Backup) -> None:
    found = find_point(backup, request(at="1h-ago")).until_ms
    assert found is not None
    assert 0 <= backup.store.now_ms() - 3_600_000 - found < 60_000
    assert find_point(backup, request(at=format_time(1_700_000_000_123))).until_ms == 1_700_000_000_123


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
    point = find_point(backup, request(at="1h-ago"), FixedPoint.of_restore(record))
    assert (point.commit.seq, point.until_ms) == (2, 123)


def test_before_ends_one_partition_and_leaves_the_others(backup: Backup) -> None:
    before = parse_before(["topic=orders,partition=1,offset=25"])
    assert ends(backup, before=before) == {"orders/0": 60, "orders/1": 25, "users/0": 60}


Named = Callable[[], PointRequest]


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
        (lambda: request(at="yesterdayish", commit=99), NoSuchRestorePoint),
    ],
    ids=range(10),
)
def test_what_the_backup_does_not_hold_is_refused(backup: Backup, named: Named, error: type[Exception]) -> None:
    with pytest.raises(error):
        find_point(backup, named())


def test_a_cut_needs_an_end_only_for_what_is_restored(backup: Backup) -> None:
    cut = parse_offsets("orders,0,10\norders,1,5\nelsewhere,0,7")
    orders = PointRequest(selection=parse_selection(["orders"]), ends=cut)
    assert find_point(backup, orders).state.positions[ORDERS_1].end == 5
    only_first = PointRequest(
        selection=parse_selection(["orders"]),
        ends=parse_offsets("orders,0,10"),
        partitions=parse_partitions(["orders:0"]),
    )
    assert list(find_point(backup, only_first).state.segments) == [PARTITIONS[0], PARTITIONS[2]]


def test_a_checkpoint_is_its_commit_ended_where_it_was_taken(backup: Backup) -> None:
    vector: tuple[tuple[PartitionId, int], ...] = ((PARTITIONS[0], STEP + 3), (ORDERS_1, STEP))
    taken = Checkpoint(id=7, taken_at_ms=1, ends=vector)
    backup.commit(CommitChanges(checkpoint=taken), base=backup.state(), writer="w")
    run_once(backup)
    assert ends(backup, checkpoint=7) == {"orders/0": 23, "orders/1": 20, "users/0": 0}
    assert find_point(backup, request(checkpoint=7)).commit.seq == RUNS + 1
    with pytest.raises(NoSuchRestorePoint, match="checkpoints: 7"):
        find_point(backup, request(checkpoint=8))
    backup.commit(CommitChanges(forgotten=((RUNS + 1, RUNS + 2),)), base=backup.state(), writer="w")
    with pytest.raises(NoSuchRestorePoint, match="retention deleted it"):
        find_point(backup, request(checkpoint=7))


ANEW = PartitionId(topic="orders", topic_id="id-anew", partition=0)
OTHER_DAY_MS = 86_400_000


@pytest.fixture
def made_anew(backup: Backup) -> Backup:
    """`orders` was deleted and made anew, with one partition: two more commits, of records of the day after."""
    for start in (0, STEP):
        segment = write_segment(backup.store, backup, ANEW, start, start + STEP)
        dated = replace(
            segment,
            base_timestamp_min_ms=segment.base_timestamp_min_ms + OTHER_DAY_MS,
            timestamp_max_ms=segment.timestamp_max_ms + OTHER_DAY_MS,
        )
        changes = CommitChanges(
            segments=(dated,),
            positions=(Position(partition_id=ANEW, log_start=0, end=start + STEP),),
            topics=(TopicShape(topic="orders", topic_id="id-anew", partitions=1, replication_factor=1), SHAPES[1]),
        )
        backup.commit(changes, base=backup.state(), writer=f"anew-{start}")
    return backup


def taken_id(backup: Backup, unfinished: RestoreRecord | None = None, **fields: object) -> str | None:
    fixed = None if unfinished is None else FixedPoint.of_restore(unfinished)
    found = find_point(backup, request(**fields), fixed).state.incarnation("orders")
    return None if found is None else found.topic_id


def at(time_ms: int) -> str:
    return format_time(time_ms)


def test_a_time_takes_the_topic_of_that_name_that_lived_then(made_anew: Backup) -> None:
    point = find_point(made_anew, request(at=at(FIRST_TIME_MS + OTHER_DAY_MS // 2)))
    assert point.state.incarnation("orders") == TopicIncarnation(topic="orders", topic_id="id-orders")
    assert {each.topic_id for each in point.state.segments} == {"id-orders", "id-users"}
    assert {each.topic_id for each in point.commit.positions} == {"id-orders", "id-users"}
    assert taken_id(made_anew, at=at(FIRST_TIME_MS + 2 * OTHER_DAY_MS)) == "id-anew"
    assert taken_id(made_anew, at="0s-ago") == "id-anew"


def test_without_a_time_the_newest_is_taken_and_the_older_one_is_named(made_anew: Backup) -> None:
    older, newest = find_point(made_anew, request()).incarnations
    assert (older.topic_id, older.taken, older.records, older.last_commit) == ("id-orders", False, 120, RUNS)
    assert [(each.partition, each.start, each.end) for each in older.ranges] == [(0, 0, 60), (1, 0, 60)]
    assert (newest.topic_id, newest.taken, newest.first_commit, newest.last_commit) == ("id-anew", True, 4, 5)
    assert find_point(made_anew, request(commit=RUNS)).incarnations == ()


def test_the_older_one_is_taken_when_it_is_named(made_anew: Backup) -> None:
    assert taken_id(made_anew, incarnations={"orders": "oldest"}) == "id-orders"
    assert taken_id(made_anew, incarnations={"orders": "id-o"}) == "id-orders"
    assert taken_id(made_anew, incarnations={"orders": "2"}, at=at(FIRST_TIME_MS)) == "id-anew"
    assert taken_id(made_anew, commit=4, incarnations={"orders": "1"}) == "id-orders"
    with pytest.raises(BadOption, match="not selected"):
        find_point(made_anew, request(incarnations={"elsewhere": "1"}))
    with pytest.raises(BadOption, match="matches 0 of 1"):
        find_point(made_anew, request(incarnations={"users": "2"}))
    assert find_point(made_anew, request(incarnations={"users": "1"}, commit=1)).incarnations == ()


def test_offsets_count_in_the_incarnation_that_is_taken(made_anew: Backup) -> None:
    before = parse_before(["topic=orders,partition=0,offset=45"])
    named = request(before=before, incarnations={"orders": "1"})
    assert find_point(made_anew, named).state.positions[PARTITIONS[0]].end == 45
    with pytest.raises(NoSuchRestorePoint, match="has orders/0 up to offset 40") as refusal:
        find_point(made_anew, request(before=before))
    assert "--incarnation orders=1" in refusal.value.hint
    of_second = parse_before(["topic=orders,partition=1,offset=5"])
    with pytest.raises(BadOption, match="the topic has 1"):
        find_point(made_anew, request(before=of_second))


def test_an_unfinished_restore_goes_on_with_the_topic_it_began_with(made_anew: Backup) -> None:
    begun = RestoreRecord(
        restore="r",
        commit=5,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="translate",
        created_at_ms=1,
        topics=(("orders", "orders"),),
        created=(),
        until_ms=FIRST_TIME_MS,
        incarnations=(("orders", "id-orders"),),
    )
    assert taken_id(made_anew, begun) == "id-orders"
    assert taken_id(made_anew, replace(begun, incarnations=())) == "id-anew"  # an older version took the newest


def test_a_checkpoint_is_of_the_topic_that_it_cut(made_anew: Backup) -> None:
    taken = Checkpoint(id=7, taken_at_ms=1, ends=((PARTITIONS[0], 30), (PARTITIONS[1], 30)))
    made_anew.commit(CommitChanges(checkpoint=taken), base=made_anew.state(), writer="w")
    point = find_point(made_anew, request(checkpoint=7))
    assert point.state.positions[PARTITIONS[0]].end == 30
    assert ANEW not in point.state.positions


def test_records_of_the_same_times_do_not_tell_which_topic_lived(backup: Backup) -> None:
    run_time_ms = backup.store.now_ms() + 1
    shape = TopicShape(topic="orders", topic_id="id-replayed", partitions=1, replication_factor=1)
    replayed = PartitionId(topic="orders", topic_id="id-replayed", partition=0)
    changes = CommitChanges(
        segments=(write_segment(backup.store, backup, replayed, 0, STEP),),
        positions=(Position(partition_id=replayed, log_start=0, end=STEP),),
        topics=(shape,),
    )
    while backup.store.now_ms() <= run_time_ms:
        pass  # until the store's clock has moved on
    backup.commit(changes, base=backup.state(), writer="w")
    with pytest.raises(IncarnationUnclear):
        find_point(backup, request(at=at(run_time_ms)))
    assert taken_id(backup, at=at(FIRST_TIME_MS)) == "id-orders"
    only_users = PointRequest(selection=parse_selection(["users"]), at=at(run_time_ms))
    assert find_point(backup, only_users).incarnations == ()
