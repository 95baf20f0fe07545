"""Late reads where a clock went back, where somebody else wrote the repository, and where versions take turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, LateRead, TopicShape
from offsite.repository.state import BackupState
from offsite.upkeep.verification.history import check_history
from tests.batches import make_batch
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site
from tests.unit.backup.conftest import put

HOUR_MS = 3_600_000
LATE = LateRead(since_ms=1, until_ms=2, partitions=1)


def shape_of(backup: Backup) -> TopicShape:
    (shape,) = backup.state().topics.values()
    return shape


def commit_shape(backup: Backup, shape: TopicShape, **changes: object) -> BackupState:
    """Commit `shape`, as another writer of the repository."""
    return backup.commit(
        CommitChanges(topics=(shape,), accounted=True, **changes),  # type: ignore[arg-type]
        base=backup.state(),
        writer=str(backup.state().seq),
    )


def test_a_clock_that_went_back_tells_no_time(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(100 * HOUR_MS)
    users.back_up()
    pass_ms(-75 * HOUR_MS)  # at least 25 hours have passed since the first run, and nobody knows how many since this
    put(users, 30)
    (late,) = users.back_up().late
    assert late.since_ms <= late.until_ms


def test_a_clock_that_was_set_back_by_a_minute_is_no_doubt(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(-60_000)
    put(users, 30)
    assert users.back_up().late == ()


def test_a_reading_that_somebody_else_dated_in_the_future_hides_nothing(
    users: Site, pass_ms: Callable[[int], None]
) -> None:
    commit_shape(users.backup, replace(shape_of(users.backup), read_ms=200_000_000_000_000))
    pass_ms(25 * HOUR_MS)
    put(users, 30)
    (late,) = users.back_up().late
    assert late.since_ms <= late.until_ms


def test_a_reading_longer_ago_than_its_commit_is_known_to_be_old(users: Site) -> None:
    commit_shape(users.backup, shape_of(users.backup), read_ago_ms=MAX_OFFSET)
    assert 0 < users.backup.state().read_ms < HOUR_MS
    put(users, 30)
    assert len(users.back_up().late) == 1


def test_a_count_of_late_reads_at_its_end_stops_no_run(users: Site, pass_ms: Callable[[int], None]) -> None:
    commit_shape(users.backup, replace(shape_of(users.backup), late=replace(LATE, times=MAX_OFFSET)))
    pass_ms(25 * HOUR_MS)
    put(users, 30)
    (late,) = users.back_up().late
    assert late.times == MAX_OFFSET


def test_a_topic_that_becomes_compacted_while_it_is_left_behind_was_not_read(
    site: Site, pass_ms: Callable[[int], None]
) -> None:
    site.source.make_topic("users")
    site.source.make_topic("more")
    put(site, 0)
    site.source.topics["more"].partitions[0].put(make_batch(0))
    site.back_up("users", "more")
    site.source.failing[Api.FETCH, TopicPartition(topic="users", partition=0)] = DENIED
    site.source.topics["users"].configs["cleanup.policy"] = "compact"
    put(site, 30)
    pass_ms(15 * HOUR_MS)
    assert len(site.back_up().failed) == 1
    site.source.failing.clear()
    pass_ms(15 * HOUR_MS)
    put(site, 60)
    assert [late.topic for late in site.back_up().late] == ["users"]


def test_an_earlier_version_that_writes_the_topic_again_leaves_it_late(users: Site) -> None:
    shape = shape_of(users.backup)
    commit_shape(users.backup, replace(shape, late=LATE))
    commit_shape(users.backup, replace(shape, configs=(("cleanup.policy", "compact"), ("retention.ms", "1"))))
    assert shape_of(users.backup).late == LATE
    assert dict(shape_of(users.backup).configs)["retention.ms"] == "1"


def test_a_catalog_of_an_earlier_version_is_no_damage(users: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shape_of(users.backup)
    commit_shape(users.backup, replace(shape, late=LATE, read_ms=7), read_ago_ms=1)
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    state = users.backup.state()
    assert state.read_ms
    read_by_it = replace(
        state, topics={shape.incarnation: shape}, read_ms=0
    )  # what that version reads of the same commits
    users.backup.commit(CommitChanges(), base=read_by_it, writer="earlier")
    assert check_history(users.backup).catalogs == ()
