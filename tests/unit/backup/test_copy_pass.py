"""A long run commits what it has, says that it is not complete, and what breaks it off takes no more than is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from offsite.backup import copy_pass
from offsite.backup.copy import BackupReceipt, bundle_copies
from offsite.backup.copy_pass import Committable, CommitThresholds, CopyPass, find_committable
from offsite.backup.copy_plan import TASK_BYTES_MAX, PartitionBounds, plan_copy
from offsite.backup.run import PassResult
from offsite.engine.runner import Done, Failed
from offsite.model.errors import KafkaUnreachable, SparkFailed, StoreUnreachable
from offsite.overview.status import read_status
from offsite.repository.state import BackupState
from offsite.restore.plan_report import report_plan
from tests.fake_cluster.site import Site
from tests.faulty_store import FaultyStore
from tests.inline_runner import InlineRunner
from tests.unit.restore.test_restore_plan import partition as of_partition
from tests.unit.restore.test_restore_plan import segment
from tests.virtual_time import VirtualClock

AT_ONCE = CommitThresholds(bytes=1, times_longer=0)


class BrokenOff(InlineRunner):
    """Interrupted, or failed as a whole, when so many tasks have ended."""

    def __init__(self, tasks: int, error: BaseException) -> None:
        self._tasks, self._error = tasks, error

    def run_each(self, tasks: Sequence[Any], *arguments: Any, **options: Any) -> None:
        super().run_each(tasks[: self._tasks], *arguments, **options)
        raise self._error


@pytest.fixture
def three(site: Site) -> Site:
    """Three partitions with a record each."""
    site.source.make_topic("orders", partitions=3)
    for partition in range(3):
        site.source.write("orders", [b"v"], partition=partition)
    return site


def run(
    site: Site, *topics: str, runner: Any = None, every: CommitThresholds | None = None, **options: Any
) -> PassResult:
    return site.carry_out(site.plan_backup(*topics), runner=runner, thresholds=every, **options)


def ends(site: Site, *, commit: int) -> list[int]:
    positions = site.backup.state_at(commit).positions
    return [positions[known].end for known in sorted(positions)]


def test_what_has_ended_is_committed_and_the_last_commit_completes_it(three: Site) -> None:
    three.source.commit_group("readers", "orders", [1, 1, 1])
    ended = run(three, "orders", every=AT_ONCE)
    assert ended.result is not None
    assert (ended.result.commits, ended.result.commit, ended.result.records, ended.result.segments) == (4, 4, 3, 3)
    assert [ends(three, commit=seq) for seq in (1, 2, 3, 4)] == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    states = [three.backup.state_at(seq) for seq in (1, 2, 3, 4)]
    assert [state.incomplete for state in states] == [True, True, True, False]
    assert [state.groups is None for state in states] == [True, True, True, False], "they may lie beyond what is held"


def test_a_short_run_makes_one_commit(three: Site) -> None:
    ended = run(three, "orders")
    assert ended.result is not None
    assert (ended.result.commits, ended.state.incomplete) == (1, False)


def test_time_is_a_reason_too(three: Site) -> None:
    ended = run(three, "orders", every=CommitThresholds(seconds=0, times_longer=0))
    assert ended.result is not None
    assert ended.result.commits == 4


def test_commits_for_which_much_is_searched_are_few(three: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, begun = VirtualClock(), list[float]()

    def search(*arguments: Any) -> Committable:
        clock.now_s += 1.0
        return find_committable(*arguments)

    monkeypatch.setattr(copy_pass, "find_committable", search)
    bounds = PartitionBounds(
        topic="t", topic_id="", partition=0, log_start=0, end=1000, size_bytes=1000 * TASK_BYTES_MAX
    )
    copy = plan_copy([bounds], {}, slots=1)

    def commit(_found: Committable, base: BackupState, _whole: Committable | None) -> BackupState:
        begun.append(clock.now_s)
        return base

    copying = CopyPass(
        copy=copy,
        bundles=bundle_copies(copy.tasks, slots=1, packed_from=1000),
        base=three.plan_backup("orders").base,
        commit=commit,
        thresholds=CommitThresholds(bytes=1),
        clock=clock,
    )
    for index, task in enumerate(copy.tasks):
        clock.now_s += 0.1
        written = segment(of_partition("t", 0), task.range.start, task.range.end)
        copying.take(index, Done(value=(Done(value=BackupReceipt(segments=(written,), holes=())),)))
    waits = [after - before - 1.0 for before, after in pairwise(begun)]
    assert len(copy.tasks) == 1000
    assert 15 <= len(begun) <= 20
    assert min(waits) >= 4.9


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SparkFailed("its JVM died", hint="")])
def test_a_run_that_is_broken_off_commits_what_it_has_and_the_next_one_the_rest(
    three: Site, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        run(three, "orders", runner=BrokenOff(2, error))
    assert (ends(three, commit=1), three.backup.state().incomplete) == ([1, 1, 0], True)
    result = three.back_up()
    assert (result.commit, result.records, three.backup.state().incomplete) == (2, 1, False)


def test_a_run_that_is_broken_off_with_nothing_in_hand_commits_nothing(three: Site) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(three, "orders", runner=BrokenOff(0, KeyboardInterrupt()))
    assert three.backup.state().seq == 0


def test_a_commit_that_failed_is_not_tried_again_by_the_same_run(three: Site) -> None:
    run(three, "orders")
    three.source.write("orders", [b"more"])
    commit_put = 1  # behind that of the segment
    store = FaultyStore(three.repository.store, fails_at=commit_put, error=lambda: StoreUnreachable("gone", hint=""))
    with pytest.raises(StoreUnreachable):
        run(replace(three, repository=replace(three.repository, store=store)), every=AT_ONCE)
    assert store.effects == commit_put + 1
    assert three.back_up().records == 1


def test_without_news_there_is_no_commit_when_only_news_count(three: Site) -> None:
    run(three, "orders", only_news=True)
    assert run(three, only_news=True).result is None
    assert three.backup.state().seq == 1
    three.source.make_topic("other")
    three.source.topics["orders"].configs["retention.ms"] = "1000"
    ended = run(three, only_news=True)
    assert ended.result is not None
    assert (ended.result.commit, ended.result.records) == (2, 0)


def test_that_a_pass_is_complete_is_news(three: Site) -> None:
    run(three, "orders")
    three.source.write("orders", [b"more"])
    with pytest.raises(KeyboardInterrupt):
        run(three, runner=BrokenOff(1, KeyboardInterrupt()))
    assert three.backup.state().incomplete
    ended = run(three, only_news=True)
    assert ended.result is not None
    assert (ended.result.records, ended.state.incomplete) == (0, False)
    assert run(three, only_news=True).result is None


def test_when_nothing_could_be_copied_the_error_is_raised(three: Site) -> None:
    class Failing(InlineRunner):
        def run_each(self, tasks: Sequence[Any], _: Any, on_outcome: Any, **__: Any) -> None:
            failed = Failed(error=KafkaUnreachable("no broker", hint=""), trace="")
            for index in range(len(tasks)):
                on_outcome(index, failed)

    with pytest.raises(KafkaUnreachable):
        run(three, "orders", runner=Failing())
    assert three.backup.state().seq == 0


def test_whoever_looks_at_a_commit_amid_a_run_is_told_so(three: Site) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(three, "orders", runner=BrokenOff(2, KeyboardInterrupt()))
    (status,) = read_status(three.repository).backups
    assert not status.safe
    assert any("the first pass is running" in problem for problem in status.problems)
    assert any("commit 1 was made during a run" in note for note in report_plan(three.plan_restore()).notes)
    three.back_up()
    assert read_status(three.repository).safe
    assert not any("made during a run" in note for note in report_plan(three.plan_restore()).notes)
