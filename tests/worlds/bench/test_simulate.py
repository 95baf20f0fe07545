from __future__ import annotations

from dataclasses import replace

import pytest

from bench.at_scale import simulate as module
from bench.at_scale.costs import SEGMENT_BYTES, TASK_BYTES, CopyCosts, DriverCosts, UnitCosts, read_costs
from bench.at_scale.following import simulate_day
from bench.at_scale.simulate import (
    BROKERS,
    LAUNCHES,
    LOOK_UP_MS,
    LOOK_UPS_TOGETHER,
    PUTS,
    Simulated,
    simulate,
    simulate_far_backup,
    simulated_check,
)
from bench.at_scale.stage import CHAIN, CORES
from bench.at_scale.worlds import FOLLOWING, GB, PB, TB, Prices, World
from offsite.backup.copy_pass import CommitThresholds
from offsite.backup.copy_plan import TASKS_MAX
from offsite.repository import backup
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES

WORLD = World(name="w", log_bytes=2 * TB, partitions=400, largest_bytes=150 * GB, executors=4, brokers=100, prefixes=10)


@pytest.fixture(scope="module")
def costs() -> UnitCosts:
    """Those that were kept."""
    return read_costs()


@pytest.mark.parametrize("brokers", [12, 10_000])
def test_more_executors_never_make_a_backup_longer(costs: UnitCosts, brokers: int) -> None:
    found = [simulate(replace(WORLD, brokers=brokers, executors=number), costs) for number in (1, 4, 16)]

    times = [each.backup.seconds for each in found]
    assert times[0] > times[1] >= 0.99 * times[2]


def test_more_executors_make_a_restore_shorter_while_there_is_enough_of_all_else(costs: UnitCosts) -> None:
    """Where brokers are short, a large chain may even end later among more others: all get alike."""
    world = replace(WORLD, largest_bytes=10 * GB, sigma=0.1, brokers=10_000, prefixes=1_000, executor_gbit_s=1_000)
    found = [simulate(replace(world, executors=number), costs) for number in (1, 4, 16)]

    for of in (_restore_s, _proof_s):
        times = [of(each) for each in found]
        assert times == sorted(times, reverse=True)
        assert times[0] > 3 * times[1]


def test_all_bytes_are_moved_each_time(costs: UnitCosts) -> None:
    found = simulate(WORLD, costs)

    assert {each.ran.size_bytes // GB for each in (found.backup, found.restore, found.proof)} <= {1_999, 2_000}


def test_no_executors_make_a_restore_faster_than_its_largest_partition(costs: UnitCosts) -> None:
    skewed = replace(WORLD, log_bytes=10 * TB, largest_bytes=5 * TB, executors=200, brokers=10_000, prefixes=1_000)
    found = simulate(skewed, costs)

    chain_s = 5 * TB / 2**20 * costs.restore.mib_ms / 1000
    assert chain_s <= found.restore.ran.seconds <= 1.1 * chain_s
    assert found.restore.ran.bound_by == CHAIN
    assert found.backup.ran.copied_s < chain_s / 10, "a backup cuts it"


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({"broker_share": 0.0001}, BROKERS),
        ({"brokers": 10_000, "executor_gbit_s": 1_000, "prefixes": 1_000}, CORES),
        ({"executors": 4_000, "brokers": 100_000, "prefixes": 100_000, "executor_gbit_s": 1_000}, LAUNCHES),
    ],
)
def test_what_there_is_least_of_bounds_the_copy(
    costs: UnitCosts, change: dict[str, float], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = simulate(replace(WORLD, **change), costs)  # type: ignore[arg-type]

    assert found.backup.ran.bound_by == bound


def test_puts_bound_where_the_store_takes_few(costs: UnitCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "S3_PUTS_S", 0.1)

    assert simulate(WORLD, costs).backup.ran.bound_by == PUTS


def test_commits_that_go_over_all_segments_take_little_of_a_long_pass(costs: UnitCosts) -> None:
    """Each but the last waits for several times what the search before took, which went over less; the last one goes
    over all, once."""
    each_ms = 0.8
    slow = replace(costs, driver=replace(costs.driver, commit_ended_task_ms=each_ms))
    usual, found = simulate(WORLD, costs).backup, simulate(WORLD, slow).backup
    last_s = found.segments * each_ms / 1000
    tail_s = found.ran.seconds - found.ran.copied_s

    assert found.ran.copied_s == usual.ran.copied_s
    assert 5 <= found.ran.commits < usual.ran.commits / 2
    assert found.ran.search_s - 2 * last_s <= found.ran.copied_s / CommitThresholds().times_longer
    written_s = (found.ran.commits * 2 + found.segments * costs.driver.commit_segment_ms) / 1000
    assert found.ran.search_s < found.ran.commit_s <= found.ran.search_s + written_s
    assert last_s <= tail_s <= 2 * last_s


def test_commits_that_wait_for_the_store_are_hardly_fewer_while_the_driver_keeps_up(costs: UnitCosts) -> None:
    """What a commit waits for is the search, which the store does not slow down."""
    near, far = simulate(WORLD, costs).backup, simulate_far_backup(WORLD, costs)

    assert LOOK_UPS_TOGETHER == backup._CHECKERS  # the product's own
    looked_s = near.segments * LOOK_UP_MS / LOOK_UPS_TOGETHER / 1000
    assert far.ran.commit_s - far.ran.search_s == pytest.approx(
        near.ran.commit_s - near.ran.search_s + looked_s, rel=0.01
    )
    assert 0.9 * near.ran.commits <= far.ran.commits <= near.ran.commits
    assert near.ran.unsaved_s <= far.ran.unsaved_s <= 1.2 * near.ran.unsaved_s


def test_beyond_what_tasks_of_ordinary_size_hold_they_are_larger_and_have_more_segments(costs: UnitCosts) -> None:
    some, many = (
        simulate(replace(WORLD, log_bytes=size, largest_bytes=size // 4), costs) for size in (4 * TB, 40 * TB)
    )

    assert some.backup.segments == pytest.approx(some.backup.tasks, rel=0.01)
    assert many.backup.tasks == pytest.approx(TASKS_MAX, rel=0.02)
    assert many.backup.segments >= 40 * TB / TARGET_SEGMENT_BYTES
    held = 2 * many.backup.ran.most_new * 1_300 + many.backup.tasks * (costs.driver.task_heap_bytes + 315)
    assert many.driver_bytes == held


def test_what_is_reckoned_for_a_task_with_its_segment_is_no_less_than_what_was_measured(costs: UnitCosts) -> None:
    assert costs.driver.task_python_bytes <= SEGMENT_BYTES + TASK_BYTES


def test_trains_change_times_by_less_than_a_hundredth(costs: UnitCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(WORLD, log_bytes=4 * TB, largest_bytes=300 * GB, executors=1)
    in_trains = simulate(small, costs)
    monkeypatch.setattr(module, "_TRAINS", 10**9)
    one_by_one = simulate(small, costs)

    assert in_trains.backup.tasks == one_by_one.backup.tasks > 40 * small.slots
    for of in (_backup_s, _restore_s, _proof_s):
        assert of(in_trains) == pytest.approx(of(one_by_one), rel=0.01)


def test_requests_are_those_that_one_counts_by_hand() -> None:
    """Two partitions of 192 MiB in two tasks each, one commit at the end."""
    copy = CopyCosts(
        mib_ms=1, broker_mib_ms=0, small_ms=0, broker_small_ms=0, plan_ms=500, segment_puts=2, segment_gets=1
    )
    back = replace(copy, segment_puts=0, mib_gets=0.25, partition_puts=3, partition_gets=4)
    driver = DriverCosts(
        task_ms=4,
        driver_task_ms=1,
        commit_ms=1_000,
        commit_segment_ms=500,
        commit_ended_task_ms=0,
        task_python_bytes=3,
        task_heap_bytes=2,
        commit_puts=2,
        commit_gets=5,
        run_puts=10,
        run_gets=7,
    )
    check = read_costs().check_backup
    made = UnitCosts(
        taken_on="",
        machine={},
        load_average=0,
        backup=copy,
        restore=back,
        proof=back,
        driver=driver,
        check_backup=check,
        check_restore=check,
    )
    size = 192 * 2**20
    world = replace(WORLD, log_bytes=2 * size, partitions=2, largest_bytes=size, executors=1, executor_cores=1)
    found = simulate(world, made)

    assert (found.backup.tasks, found.backup.puts, found.backup.gets) == (4, 4 * 2 + 2 + 10, 4 * 1 + 5 + 7)
    assert found.backup.seconds == pytest.approx(2 * 0.5 + 4 * (0.004 + 0.096) + 1 + 4 * 0.5)
    assert (found.restore.puts, found.restore.gets) == (2 * 3 + 10, 2 * 192 / 4 + 3 * 1 + 2 * 4 + 7)
    assert found.driver_bytes == 4 * (2 + 315) + 2 * found.backup.ran.most_new * 1_300


def test_storage_is_paid_by_steps() -> None:
    prices = Prices()

    assert prices.storage_month(TB) == pytest.approx(23)
    assert prices.storage_month(PB) == pytest.approx(50_000 * 0.023 + 450_000 * 0.022 + 500_000 * 0.021)
    assert prices.requests(1_000_000, 10_000_000) == pytest.approx(5 + 4)


def test_the_simulation_is_near_runs_that_were_measured(costs: UnitCosts) -> None:
    """Of CPU, which other work on the machine changes little: within a half. Of the clock it says no more than that a
    run cannot be faster."""
    for check, copy in ((costs.check_backup, costs.backup), (costs.check_restore, costs.restore)):
        simulated_s = simulated_check(check, copy, costs.driver)
        assert 0.5 <= simulated_s / (check.cpu_s / check.cores) <= 2
        assert simulated_s <= 1.2 * check.wall_s


def test_roll_ups_write_each_byte_again_a_few_times(costs: UnitCosts) -> None:
    day = simulate_day(FOLLOWING, costs)

    assert 1 <= day.written_again_bytes / FOLLOWING.day_bytes <= 4
    assert day.puts >= FOLLOWING.rounds * (day.round.tasks + costs.driver.commit_puts)


def _backup_s(found: Simulated) -> float:
    return found.backup.seconds


def _restore_s(found: Simulated) -> float:
    return found.restore.seconds


def _proof_s(found: Simulated) -> float:
    return found.proof.seconds
