"""The stream without Spark: its micro-batches together are what a consumer could see, each row once."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, DamagedCommit, NoSuchRestorePoint
from offsite.points.point_in_time import chains_of, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, CompactedRange, CutBack, ExpiredRange, Position, RecordedHole
from offsite.stores.open_store import open_store
from offsite.table.options import read_options
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import RowFilter, plan_scan
from offsite.table.stream import TableStream
from tests.batches import make_control_batch
from tests.roll_ups import roll_up
from tests.tables import ORDERS, ORDERS_1, USERS, batch_of, commit_batches, new_table, transactional

Row = tuple[str, int, int, int | None]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_table(open_store(str(tmp_path / "repository")))


def stream(backup: Backup, **options: str) -> TableStream:
    return TableStream(read_options({"repo": backup.store.url, "backup": "b", **options}), backup)


def micro_batch(following: TableStream, start: int, end: int) -> list[Row]:
    partitions = following.partitions({"commit": start}, {"commit": end})
    rows = [row for each in partitions for batch in following.read(each) for row in batch.to_pylist()]
    return [(row["topic"], row["partition"], row["offset"], row["commit"]) for row in rows]


def offsets(rows: list[Row]) -> list[int]:
    return [offset for _, _, offset, _ in rows]


def test_a_micro_batch_holds_what_its_commits_added(backup: Backup) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)], USERS: [batch_of(base, 10)]})
    following = stream(backup)
    assert micro_batch(following, 0, 1) == [(p.topic, 0, n, 1) for p in (ORDERS, USERS) for n in range(10)]
    two = micro_batch(following, 1, 3)
    assert two == [(p.topic, 0, n, 2 + (n >= 20)) for p in (ORDERS, USERS) for n in range(10, 30)]
    assert micro_batch(stream(backup), 1, 3) == two  # as after a restart


def test_it_begins_where_it_is_told_to(backup: Backup) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    assert stream(backup).initialOffset() == {"commit": 0}
    assert stream(backup, startingCommit="latest").initialOffset() == {"commit": 3}
    assert stream(backup, startingCommit="2").initialOffset() == {"commit": 1}


def test_it_follows_new_commits(backup: Backup) -> None:
    following = stream(backup)
    assert following.latestOffset() == {"commit": 0}
    for number in (1, 2):
        commit_batches(backup, {ORDERS: [batch_of(10 * number, 10)]})
        assert following.latestOffset() == {"commit": number}


def test_a_start_that_is_not_there_yet_is_waited_for(backup: Backup) -> None:
    following = stream(backup, startingCommit="3")
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    assert following.latestOffset() == following.initialOffset() == {"commit": 2}


def test_a_commit_that_was_seen_and_is_gone_is_no_smaller_batch(backup: Backup) -> None:
    for base in (0, 10):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    following = stream(backup)
    end = following.latestOffset()
    backup.store.delete(backup.layout.commit_key(2))
    with pytest.raises(DamagedCommit, match="was seen before and is missing"):
        following.partitions({"commit": 0}, end)


def test_only_chosen_topics_and_partitions_are_followed(backup: Backup) -> None:
    commit_batches(backup, {p: [batch_of(0, 2)] for p in (ORDERS, ORDERS_1, USERS)})
    assert {row[0] for row in micro_batch(stream(backup, topics="us*"), 0, 1)} == {"users"}
    assert {row[:2] for row in micro_batch(stream(backup, partitions="orders:1"), 0, 1)} == {
        ("orders", 1),
        ("users", 0),
    }


def test_the_commit_is_null_when_nobody_wants_it(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 2)]})
    assert micro_batch(stream(backup, withCommit="false"), 0, 1) == [("orders", 0, 0, None), ("orders", 0, 1, None)]


def test_a_segment_written_anew_brings_no_rows_again(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    state = commit_batches(backup, {ORDERS: [batch_of(10, 10)]})
    first, *_ = state.all_segments()
    backup.commit(CommitChanges(removed=(first.key,)), base=state, writer="w")
    state = backup.state()
    backup.commit(CommitChanges(segments=(first,)), base=state, writer="w2")
    assert offsets(micro_batch(stream(backup), 2, 4)) == []


def test_records_of_a_transaction_come_when_it_has_ended(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0), batch_of(2, 1)]})
    commit_batches(backup, {ORDERS: [transactional(3, 1, producer_id=1, sequence=2), batch_of(4, 1)]})
    commit_batches(backup, {ORDERS: [make_control_batch(5, producer_id=1, committed=True), batch_of(6, 1)]})
    following = stream(backup)
    assert offsets(micro_batch(following, 0, 1)) == [2]
    assert offsets(micro_batch(following, 1, 2)) == [4]
    assert micro_batch(following, 2, 3) == [("orders", 0, n, c) for n, c in [(0, 1), (1, 1), (3, 2), (6, 3)]]
    assert offsets(micro_batch(stream(backup, isolation="read_uncommitted"), 1, 3)) == [3, 4, 6]


def test_an_ended_transaction_brings_nothing_of_the_one_before(backup: Backup) -> None:
    commit_batches(
        backup,
        {
            ORDERS: [
                transactional(0, 2, producer_id=1, sequence=0),
                make_control_batch(2, producer_id=1, committed=False),
                transactional(3, 2, producer_id=1, sequence=2),
                transactional(5, 1, producer_id=9, sequence=0),
            ]
        },
    )
    commit_batches(backup, {ORDERS: [make_control_batch(6, producer_id=1, committed=True)]})
    commit_batches(backup, {ORDERS: [make_control_batch(7, producer_id=9, committed=False)]})
    following = stream(backup)
    assert offsets(micro_batch(following, 0, 1)) == []
    assert offsets(micro_batch(following, 1, 2)) == [3, 4]
    assert offsets(micro_batch(following, 2, 3)) == []


@pytest.mark.parametrize("marker", [False, True], ids=["marker-in-hole", "marker-before-it"])
def test_what_is_open_where_offsets_are_missing_never_comes(backup: Backup, marker: bool) -> None:
    """Also where the same commit brings its own marker before the hole: that one counts."""
    commit_batches(backup, {ORDERS: [transactional(0, 2, producer_id=1, sequence=0)]})
    end = make_control_batch(2, producer_id=1, committed=True) if marker else batch_of(2, 1)
    state = commit_batches(backup, {ORDERS: [end]})
    hole = RecordedHole(partition_id=ORDERS, start=3, end=6, reason="retention")
    at_6 = Position(partition_id=ORDERS, log_start=0, end=6)
    backup.commit(CommitChanges(holes=(hole,), positions=(at_6,)), base=state, writer="w")
    commit_batches(backup, {ORDERS: [transactional(6, 1, producer_id=1, sequence=5)]})
    commit_batches(backup, {ORDERS: [make_control_batch(7, producer_id=1, committed=True)]})
    for borders in ([0, 5], [0, 1, 5], [0, 1, 2, 3, 4, 5]):
        seen = [n for start, stop in pairwise(borders) for n in offsets(micro_batch(stream(backup), start, stop))]
        assert sorted(seen) == ([0, 1, 6] if marker else [2, 6]), borders


def test_a_batch_in_which_the_log_starts_behind_missing_offsets_comes_with_its_marker(backup: Backup) -> None:
    state = commit_batches(backup, {ORDERS: [batch_of(0, 2)]})
    hole = RecordedHole(partition_id=ORDERS, start=2, end=6, reason="retention")
    at_6 = Position(partition_id=ORDERS, log_start=0, end=6)
    backup.commit(CommitChanges(holes=(hole,), positions=(at_6,)), base=state, writer="w")
    commit_batches(backup, {ORDERS: [transactional(1, 7, producer_id=1, sequence=5)]})
    commit_batches(backup, {ORDERS: [make_control_batch(8, producer_id=1, committed=True)]})
    for borders in ([0, 4], [0, 2, 3, 4]):
        seen = [n for start, stop in pairwise(borders) for n in offsets(micro_batch(stream(backup), start, stop))]
        assert sorted(seen) == [0, 1, 6, 7], borders


@pytest.mark.parametrize("seed", range(12))
def test_however_transactions_and_commits_lie_all_micro_batches_are_the_table(backup: Backup, seed: int) -> None:
    """Random logs of three producers, cut into random commits and micro-batches: no row is lost, none comes twice."""
    chance = random.Random(seed)
    commits = commit_random(backup, chance)
    borders = sorted({0, commits, *(chance.randint(0, commits) for _ in range(3))})
    seen = [n for start, end in pairwise(borders) for n in offsets(micro_batch(stream(backup), start, end))]
    assert sorted(seen) == table(backup)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_micro_batch_stays_the_same_when_its_segments_are_rolled_up_and_gone(
    backup: Backup, seed: int, isolation: str
) -> None:
    chance = random.Random(seed)
    commits = commit_random(backup, chance)
    spans = [(start, end) for start in range(commits) for end in range(start + 1, commits + 1)]
    before = {span: micro_batch(stream(backup, isolation=isolation), *span) for span in spans}
    following = stream(backup, isolation=isolation)
    assert micro_batch(following, 0, 1) == before[0, 1]  # one that has opened the backup already
    for _ in range(chance.randint(1, 3)):
        roll_up_some(backup, chance)
    assert {span: micro_batch(stream(backup, isolation=isolation), *span) for span in spans} == before
    assert micro_batch(following, 1, commits) == before[1, commits]


def test_what_was_removed_and_not_replaced_is_still_read_where_it_was(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    state = commit_batches(backup, {ORDERS: [batch_of(10, 10)]})
    first, *_ = state.all_segments()
    backup.commit(CommitChanges(removed=(first.key,)), base=state, writer="w")
    assert micro_batch(stream(backup), 0, 2) == [("orders", 0, n, 1 + n // 10) for n in range(20)]


def test_a_micro_batch_of_before_a_cut_is_of_the_old_history(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10)]})
    state = commit_batches(backup, {ORDERS: [batch_of(10, 10)]})
    cut = CutBack(partition_id=ORDERS, at=10, end=20, epoch=0, leader_epoch=1)
    backup.commit(CommitChanges(cut_back=(cut,)), base=state, writer="w")
    commit_batches(backup, {ORDERS: [batch_of(10, 4)]})
    roll_up_some(backup, random.Random(0))
    assert micro_batch(stream(backup), 0, 2) == [("orders", 0, n, 1 + n // 10) for n in range(20)]
    assert micro_batch(stream(backup), 2, 5) == [("orders", 0, n, 4) for n in range(10, 14)]


def commit_random(backup: Backup, chance: random.Random) -> int:
    """Random commits of a log that three producers write; how many."""
    offset, sequences, is_open = 0, {1: 0, 2: 0, 3: 0}, {1: False, 2: False, 3: False}
    commits = chance.randint(3, 8)
    for _ in range(commits):
        batches = []
        for _ in range(chance.randint(1, 6)):
            producer = chance.randint(1, 3)
            if is_open[producer] and chance.random() < 0.5:
                batches.append(make_control_batch(offset, producer_id=producer, committed=chance.random() < 0.7))
                is_open[producer], count = False, 1
            else:
                count = chance.randint(1, 3)
                batches.append(transactional(offset, count, producer_id=producer, sequence=sequences[producer]))
                sequences[producer] += count
                is_open[producer] = True
            offset += count
        commit_batches(backup, {ORDERS: batches})
    return commits


def roll_up_some(backup: Backup, chance: random.Random) -> None:
    """Make one segment of some neighbours, and delete what it replaced."""
    state = backup.state()
    live = state.segments[ORDERS]
    first, last = sorted(chance.sample(range(len(live) + 1), 2))
    chosen = tuple(live[first:last])
    roll_up(backup, [chosen], alone=chance.random() < 0.5)
    for each in chosen:
        backup.store.delete(each.object_key)


def table(backup: Backup) -> list[int]:
    selected = chains_of(point_in_time(backup.state()), ["orders"])
    tasks = plan_scan(selected, RowFilter(), read_committed=True)
    return [row["offset"] for task in tasks for batch in scan_arrow(task, backup.store) for row in batch.to_pylist()]


def test_what_makes_no_sense_for_a_stream_is_refused(backup: Backup) -> None:
    with pytest.raises(BadOption, match="commit is not for streams"):
        stream(backup, commit="3")


def let_go(backup: Backup, start: int, end: int) -> None:
    gone = ExpiredRange(partition_id=ORDERS, start=start, end=end)
    backup.commit(CommitChanges(expired=(gone,)), base=backup.state(), writer="retention")


def test_the_earliest_is_what_is_left(backup: Backup) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    let_go(backup, 0, 20)
    assert offsets(micro_batch(stream(backup), 0, 4)) == list(range(20, 30))


def test_rows_that_were_let_go_before_they_were_read_end_the_stream_unless_it_may_go_on(backup: Backup) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    let_go(backup, 0, 20)
    with pytest.raises(NoSuchRestorePoint, match=r"orders/0 \[10, 20\), and retention has deleted this range"):
        micro_batch(stream(backup), 1, 4)
    assert offsets(micro_batch(stream(backup, failOnDataLoss="false"), 1, 4)) == list(range(20, 30))
    assert offsets(micro_batch(stream(backup), 2, 4)) == list(range(20, 30))


def test_rows_that_a_compaction_found_superseded_are_no_loss(backup: Backup) -> None:
    for base in (0, 10):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    state = backup.state()
    first, _ = state.segments[ORDERS]
    done = CompactedRange(partition_id=ORDERS, start=0, end=10)
    backup.commit(CommitChanges(removed=(first.key,), compacted=(done,)), base=state, writer="compaction")
    assert offsets(micro_batch(stream(backup), 0, 3)) == list(range(10, 20))
