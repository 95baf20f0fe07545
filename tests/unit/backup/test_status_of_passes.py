"""The status while a long pass is under way: not safe before the first one has ended, and after that as the last
complete one was."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.backup.copy_pass import CommitThresholds
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.overview.status import BackupStatus, read_status
from offsite.repository import catalog
from offsite.repository.commit import CommitChanges, PassProgress
from offsite.repository.repository import Repository
from tests.backups import append_unchecked
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site
from tests.inline_runner import InlineRunner

HOUR_MS = 3_600_000


class Killed(InlineRunner):
    """Commits what two ranges brought, and dies with the driver."""

    def run_each(self, tasks: Any, *arguments: Any, **options: Any) -> Any:
        super().run_each(tasks[:2], *arguments, **options)
        raise KeyboardInterrupt


@pytest.fixture
def three(site: Site) -> Site:
    """Three partitions with a record each."""
    site.source.make_topic("orders", partitions=3)
    write(site)
    return site


def write(site: Site) -> None:
    for partition in range(3):
        site.source.write("orders", [b"v"], partition=partition)


def die_amid(site: Site, *topics: str) -> None:
    plan = site.plan_backup(*topics)
    with pytest.raises(KeyboardInterrupt):
        site.carry_out(plan, runner=Killed(), thresholds=CommitThresholds())


def status(site: Site, monkeypatch: pytest.MonkeyPatch, *, after_ms: int = 0) -> BackupStatus:
    now_ms = type(site.repository.store).now_ms
    with monkeypatch.context() as later:
        later.setattr(type(site.repository.store), "now_ms", lambda store: now_ms(store) + after_ms)
        (found,) = read_status(Repository.open(site.repository.store)).backups
    return found


def test_a_first_pass_is_not_safe_before_it_ends_and_says_how_far_it_is(
    three: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_amid(three, "orders")
    found = status(three, monkeypatch)
    assert (found.safe, found.completed_ms) == (False, 0)
    (problem,) = found.problems
    assert problem.startswith("the first pass is running (2 of 3 offsets copied): ")
    (late,) = status(three, monkeypatch, after_ms=HOUR_MS).problems
    assert late.startswith("the first pass has not ended (2 of 3 offsets copied), and nothing was committed")
    three.back_up()
    found = status(three, monkeypatch)
    assert (found.safe, found.notes, found.completed_ms) == (True, (), found.restorable_to_ms)


def test_a_later_pass_that_is_under_way_takes_nothing_from_the_one_before(
    three: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("orders")
    complete_ms = three.backup.state().committed_at_ms
    write(three)
    die_amid(three)
    found = status(three, monkeypatch)
    assert (found.safe, found.problems, found.completed_ms) == (True, (), complete_ms)
    assert found.restorable_to_ms == complete_ms < three.backup.state().committed_at_ms, "some may reach no further"
    assert found.notes[0].startswith("the newest pass has not ended (2 of 3 offsets copied); the last complete pass")


def test_passes_that_never_end_make_it_unsafe_however_fresh_their_commits_are(
    three: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("orders")
    state = three.backup.state()
    under_way = CommitChanges(incomplete=True, progress=PassProgress(copied=2, planned=3))
    append_unchecked(three.backup, state, under_way, committed_at_ms=state.committed_at_ms + 25 * HOUR_MS)
    found = status(three, monkeypatch, after_ms=25 * HOUR_MS)
    assert three.backup.state().committed_at_ms == state.committed_at_ms + 25 * HOUR_MS
    assert (found.restorable_to_ms, found.age_s >= 25 * 3600) == (state.committed_at_ms, True)
    assert list(found.problems) == [
        "no complete pass for 1 d 1 h: the newest pass has not ended (2 of 3 offsets copied)"
    ]


def test_what_a_complete_pass_left_behind_stays_told_while_the_next_one_is_under_way(
    three: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("orders")
    write(three)
    three.source.failing[Api.FETCH, TopicPartition(topic="orders", partition=2)] = DENIED
    assert len(three.back_up().failed) == 1
    write(three)
    die_amid(three)
    assert [each.partition_id.partition for each in three.backup.state().left_behind] == [2]
    assert not status(three, monkeypatch).safe


def test_a_catalog_remembers_how_far_a_pass_is_and_when_one_was_complete(
    three: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    three.back_up("orders")
    complete_ms = three.backup.state().committed_at_ms
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    for _ in range(2):
        write(three)
        die_amid(three)
    state = three.backup.state()
    assert state.loose_commits <= 1, "it came from a catalog"
    assert (state.incomplete, state.completed_at_ms) == (True, complete_ms)
    assert state.progress == PassProgress(copied=2, planned=4)
