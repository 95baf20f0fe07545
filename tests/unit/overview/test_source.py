"""A backup beside its living source: what is lost there is told on evidence only, with the restore that brings it
back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.broker_errors import LEADER_NOT_AVAILABLE
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.selection import TopicSelection
from offsite.overview import source_look
from offsite.overview.comparison import TopicComparison, TopicState
from offsite.overview.source_evidence import Sightings, SourceLook
from offsite.overview.source_judgement import ALARM_MS, compare_topics
from offsite.overview.source_look import look_at_source
from offsite.overview.source_watch import SourceWatch
from offsite.overview.status import read_status
from offsite.overview.verdict import source_alarm, verdict_of
from offsite.repository.descriptor import origin_options
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import get_outcome, put_outcome
from offsite.upkeep.verification.last_checks import remember_check
from offsite.upkeep.verification.run import verify_quick
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.partition_log import PartitionLog
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.virtual_time import VirtualClock

HOUR_MS = 3_600_000
HERE = TopicPartition(topic="orders", partition=0)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two topics, backed up once."""
    with open_site(tmp_path) as opened:
        opened.source.make_topic("orders", retention_ms=str(24 * HOUR_MS))
        opened.source.make_topic("users")
        opened.source.write("orders", [b"a", b"b", b"c"])
        opened.source.write("orders", [b"d", b"e"])
        opened.back_up("*")
        yield opened


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def admin_of(site: Site, clock: VirtualClock) -> ClusterAdmin:
    return ClusterAdmin(shared_router(site.source.config), clock=clock)


def look(site: Site, clock: VirtualClock, *, looked_ms: int | None = None) -> SourceLook:
    backup = site.backup
    at_ms = backup.store.now_ms() if looked_ms is None else looked_ms
    return look_at_source(admin_of(site, clock), backup, backup.readable_state(), looked_ms=at_ms)


def judged(site: Site, seen: SourceLook, sightings: Sightings | None = None) -> dict[str, TopicComparison]:
    state = site.backup.readable_state()
    after = (sightings or Sightings()).after(state, seen)
    return {topic.topic: topic for topic in compare_topics(state, seen, after)}


def test_what_is_backed_up_to_its_end_is_current_as_of_the_look(site: Site, clock: VirtualClock) -> None:
    seen = look(site, clock)
    orders = judged(site, seen)["orders"]
    assert (orders.state, orders.lag_records, orders.lag_s) == (TopicState.CURRENT, 0, 0.0)
    assert (orders.restorable_to_ms, orders.alarm, orders.restore) == (seen.looked_ms, False, {})


def test_what_is_not_copied_is_counted_with_the_time_until_the_source_deletes_it(
    site: Site, clock: VirtualClock
) -> None:
    site.source.write("orders", [b"f"])
    orders = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS))["orders"]
    assert (orders.state, orders.lag_records) == (TopicState.BEHIND, 1)
    assert orders.headroom_s == pytest.approx(23 * 3600, abs=1)
    later = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + 23 * HOUR_MS))["orders"]
    assert later.state is TopicState.AT_RISK


def test_what_is_behind_is_so_since_the_last_look_or_pass_that_had_all_of_it(site: Site, clock: VirtualClock) -> None:
    state, before = site.backup.readable_state(), look(site, clock)
    site.source.write("orders", [b"f"])
    after = replace(look(site, clock), looked_ms=before.looked_ms + 30_000)
    assert judged(site, after, Sightings().after(state, before))["orders"].lag_s == 30
    alone = judged(site, after)["orders"]
    assert alone.restorable_to_ms == state.completed_at_ms


def test_the_topics_that_are_deleted_soonest_are_asked_about_first(
    site: Site, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.source.topics["users"].configs["retention.ms"] = str(2 * HOUR_MS)
    site.source.write("users", [b"a"])
    site.back_up()
    for topic in ("orders", "users"):
        site.source.write(topic, [b"f"])
    monkeypatch.setattr(source_look, "ASKED_MAX", 1)
    compared = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS))
    assert (compared["users"].state, compared["orders"].headroom_s) == (TopicState.AT_RISK, None)


def test_a_deleted_topic_is_gone_between_the_last_look_that_saw_it_and_the_first_that_did_not(
    site: Site, clock: VirtualClock
) -> None:
    state, before = site.backup.readable_state(), look(site, clock)
    sightings = Sightings().after(state, before)
    del site.source.topics["orders"]
    after = look(site, clock)
    later = replace(after, looked_ms=after.looked_ms + 30_000)
    orders = judged(site, later, sightings.after(state, after))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.GONE, True)
    assert (orders.seen_ms, orders.found_ms) == (before.looked_ms, after.looked_ms)
    assert "between" in orders.detail
    assert orders.restorable_to_ms == before.looked_ms
    assert orders.restore == {"topics": "orders", "commit": "1", "groups": "all"}


def test_a_topic_that_may_not_be_described_is_never_called_gone(site: Site, clock: VirtualClock) -> None:
    site.source.hidden.add("orders")
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm, orders.restore) == (TopicState.HIDDEN, False, {})


def test_a_topic_without_an_answer_of_its_leader_is_called_unread(site: Site, clock: VirtualClock) -> None:
    site.source.failing[Api.LIST_OFFSETS, HERE] = LEADER_NOT_AVAILABLE
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.lag_records, orders.lag_s) == (TopicState.UNREAD, -1, None)
    assert orders.detail.startswith("OFF-")


def test_a_deletion_that_a_run_found_has_its_restore_point_before_that_run(site: Site, clock: VirtualClock) -> None:
    del site.source.topics["orders"]
    site.back_up()
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.GONE, True)
    assert orders.restore["commit"] == "1"
    assert orders.found_ms == site.backup.readable_state().latest_shapes()["orders"].deleted_ms


def test_a_deletion_stops_to_be_an_alarm_after_a_week(site: Site, clock: VirtualClock) -> None:
    del site.source.topics["orders"]
    site.back_up()
    seen = look(site, clock)
    orders = judged(site, replace(seen, looked_ms=seen.looked_ms + ALARM_MS))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.GONE, False)
    assert orders.restore


def test_a_new_partition_without_an_answer_is_not_passed_over(site: Site, clock: VirtualClock) -> None:
    site.source.topics["orders"].partitions += [PartitionLog(), PartitionLog()]
    site.source.write("orders", [b"f"], partition=2)
    site.source.failing[Api.LIST_OFFSETS, TopicPartition(topic="orders", partition=1)] = LEADER_NOT_AVAILABLE
    seen = look(site, clock)
    orders = judged(site, seen)["orders"]
    assert (orders.state, orders.lag_records) == (TopicState.UNREAD, -1)
    assert orders.detail.startswith("OFF-")
    assert orders.restorable_to_ms < seen.looked_ms


def test_a_deleted_topic_that_is_listed_with_its_own_id_was_not_created_anew(site: Site, clock: VirtualClock) -> None:
    deleted = site.source.topics.pop("orders")
    site.back_up()
    site.source.topics["orders"] = deleted  # by a broker that lags
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm, orders.restore) == (TopicState.UNCLEAR, False, {})


@pytest.mark.parametrize("is_backed_up_since", [False, True])
def test_a_topic_that_was_created_anew_is_not_the_same(
    site: Site, clock: VirtualClock, is_backed_up_since: bool
) -> None:
    site.source.remake_topic("orders")
    if is_backed_up_since:
        site.back_up()
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.RECREATED, True)
    assert orders.restore == {"topics": "orders", "commit": "1", "rename": "orders=orders-restored"}


def test_clocks_that_differ_lead_no_restore_to_the_topic_that_was_created_anew(site: Site, clock: VirtualClock) -> None:
    site.source.remake_topic("orders")
    site.back_up()  # commit 2 has the new topic
    seen, state = look(site, clock), site.backup.readable_state()
    ahead = {
        incarnation: replace(shape, deleted_ms=shape.deleted_ms + 5_000) if shape.is_deleted else shape
        for incarnation, shape in state.topics.items()
    }
    state = replace(state, topics=ahead)
    compared = compare_topics(state, seen, Sightings().after(state, seen))
    (orders,) = [topic for topic in compared if topic.topic == "orders"]
    assert (orders.state, orders.restore["commit"]) == (TopicState.RECREATED, "1")


def test_a_topic_that_a_restore_brought_back_is_no_loss(site: Site, clock: VirtualClock) -> None:
    del site.source.topics["orders"]
    site.restore(into=site.source, topics=["orders"])
    assert judged(site, look(site, clock))["orders"].state is TopicState.RESTORED
    site.back_up()
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.CURRENT, False)


@pytest.mark.parametrize("is_unlike", [False, True])
def test_a_restore_that_has_not_ended_well_brought_nothing_back(
    site: Site, clock: VirtualClock, is_unlike: bool
) -> None:
    del site.source.topics["orders"]
    result = site.restore(into=site.source, topics=["orders"])
    store, layout = site.repository.store, RestoreLayout(backup=site.backup.layout, restore=result.restore)
    outcome = get_outcome(store, layout)
    assert outcome is not None
    Path(store.url, layout.report_key).unlink()  # as of a restore that was killed
    if is_unlike:
        put_outcome(store, layout, replace(outcome, verified=False))
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm, orders.restore) == (TopicState.RECREATED, True, {})
    assert result.restore in orders.detail
    assert ("differs from the backup" if is_unlike else "has not ended") in orders.detail


def test_a_log_that_was_cut_back_has_shrunk_before_and_after_a_run_found_it(site: Site, clock: VirtualClock) -> None:
    site.source.topics["orders"].partitions[0].elect(cut_to=3)
    site.source.write("orders", [b"x", b"y", b"z"])  # longer than it was
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.SHRUNK, True)
    assert "ends at offset 3 now, and the backup holds it up to offset 5" in orders.detail
    assert orders.restore == {"topics": "orders", "commit": "1", "rename": "orders=orders-restored"}
    site.back_up()
    closed = judged(site, look(site, clock))["orders"]
    assert (closed.state, closed.alarm, closed.restore["commit"]) == (TopicState.SHRUNK, True, "1")
    assert "was cut back from offset 5 to 3" in closed.detail


def test_records_that_were_deleted_before_their_time_are_a_loss_and_expired_ones_are_none(
    site: Site, clock: VirtualClock
) -> None:
    site.source.admin.delete_records({HERE: 5})
    young = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS))["orders"]
    assert (young.state, young.alarm) == (TopicState.SHRUNK, True)
    assert "begins at offset 5 now" in young.detail
    expired = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + 25 * HOUR_MS))["orders"]
    assert (expired.state, expired.alarm) == (TopicState.CURRENT, False)


@pytest.mark.parametrize(
    ("configs", "detail"),
    [({"retention.ms": "-1"}, "a request deleted what was before"), ({"retention.bytes": "1000000"}, "")],
)
def test_a_deletion_that_may_be_meant_is_no_loss(
    site: Site, clock: VirtualClock, configs: dict[str, str], detail: str
) -> None:
    site.source.topics["orders"].configs |= configs
    site.source.admin.delete_records({HERE: 5})
    orders = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.CURRENT, False)
    assert detail in orders.detail
    assert bool(detail) is bool(orders.detail)


@pytest.mark.parametrize("is_backed_up_since", [False, True])
def test_what_a_shorter_retention_deleted_before_it_was_made_longer_is_no_loss(
    site: Site, clock: VirtualClock, is_backed_up_since: bool
) -> None:
    site.source.admin.delete_records({HERE: 5})  # as brokers do after a day
    site.source.topics["orders"].configs["retention.ms"] = str(7 * 24 * HOUR_MS)
    if is_backed_up_since:
        site.back_up()
    orders = judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + 25 * HOUR_MS))["orders"]
    assert (orders.state, orders.alarm) == (TopicState.CURRENT, False)


def test_what_brokers_deleted_by_a_default_of_theirs_before_a_topic_got_its_own_is_no_loss(
    site: Site, clock: VirtualClock
) -> None:
    site.source.write("users", [b"a"])
    site.back_up()
    site.source.admin.delete_records({TopicPartition(topic="users", partition=0): 1})
    site.source.topics["users"].configs["retention.ms"] = str(30 * 24 * HOUR_MS)
    assert judged(site, look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS))["users"].state is TopicState.CURRENT


def test_a_loss_that_one_look_could_not_judge_keeps_its_interval(site: Site, clock: VirtualClock) -> None:
    state, before = site.backup.readable_state(), look(site, clock, looked_ms=FIRST_TIME_MS + HOUR_MS)
    site.source.admin.delete_records({HERE: 5})
    first = replace(look(site, clock, looked_ms=before.looked_ms), looked_ms=before.looked_ms + 30_000)
    unread = replace(first, looked_ms=before.looked_ms + 60_000, retention={})
    later = replace(first, looked_ms=before.looked_ms + 90_000)
    sightings = Sightings().after(state, before).after(state, first).after(state, unread)
    orders = judged(site, later, sightings)["orders"]
    assert (orders.state, orders.seen_ms, orders.found_ms) == (TopicState.SHRUNK, before.looked_ms, first.looked_ms)


def test_a_log_whose_leader_does_not_tell_its_epochs_is_unread(site: Site, clock: VirtualClock) -> None:
    site.source.topics["orders"].partitions[0].elect(cut_to=3)
    site.source.write("orders", [b"x", b"y", b"z"])
    site.source.failing[Api.OFFSET_FOR_LEADER_EPOCH, HERE] = LEADER_NOT_AVAILABLE
    orders = judged(site, look(site, clock))["orders"]
    assert (orders.state, orders.lag_records) == (TopicState.UNREAD, -1)


def test_a_selected_topic_that_no_commit_has_is_named(site: Site, clock: VirtualClock) -> None:
    site.source.make_topic("invoices")
    site.source.write("invoices", [b"a", b"b"])
    invoices = judged(site, look(site, clock))["invoices"]
    assert (invoices.state, invoices.lag_records) == (TopicState.NEW, 2)


def watch_of(site: Site, clock: VirtualClock) -> SourceWatch:
    return SourceWatch(
        open_cluster=lambda: admin_of(site, clock),
        list_backups=site.repository.backups,
        open_backup=site.repository.backup,
        clock=clock,
        interval_s=30,
    )


def test_a_cluster_that_does_not_answer_leaves_the_last_answer_with_its_age(site: Site, clock: VirtualClock) -> None:
    watch = watch_of(site, clock)
    assert "has not ended" in watch.comparison(BACKUP).problem
    watch.look()
    before = watch.comparison(BACKUP)
    assert (before.problem, before.counts) == ("", {"current": 2})
    site.source.knows_brokers = False
    clock.sleep(30)
    watch.look()
    after = watch.comparison(BACKUP)
    assert after.problem.startswith("OFF-15")
    assert (after.topics, after.alarms, after.looked_ms) == (before.topics, 0, before.looked_ms)
    assert after.age_s >= 30
    site.source.knows_brokers = True
    watch.look()
    assert watch.comparison(BACKUP).problem == ""


def test_a_backup_that_cannot_be_read_hides_no_other(site: Site, clock: VirtualClock) -> None:
    (Path(site.repository.store.url) / "backups" / "damaged").mkdir()
    (Path(site.repository.store.url) / "backups" / "damaged" / "backup.json").write_text("{")
    watch = watch_of(site, clock)
    watch.look()
    assert watch.comparison(BACKUP).problem == ""
    assert watch.comparison("damaged").problem.startswith("OFF-13")
    assert watch.comparison("removed").problem == "the newest look found no such backup in the repository"


def test_a_backup_of_an_archive_has_no_source_and_needs_no_attention(site: Site, clock: VirtualClock) -> None:
    site.repository.create_backup(
        "imported",
        cluster_id="archive",
        selection=TopicSelection(include=("*",)),
        options=origin_options("jsonl", "/archive"),
    )
    watch = watch_of(site, clock)
    watch.look()
    imported = watch.comparison("imported")
    assert (imported.problem, imported.looked_ms, imported.alarms) == ("", -1, 0)
    assert "holds an archive" in imported.absent


def test_another_cluster_is_not_compared(site: Site, clock: VirtualClock) -> None:
    site.source.cluster_id = "another"
    watch = watch_of(site, clock)
    watch.look()
    assert watch.comparison(BACKUP).problem.startswith("OFF-1401")
    assert watch.comparison(BACKUP).topics == ()


def test_another_cluster_that_takes_the_address_during_a_look_has_deleted_nothing(
    site: Site, clock: VirtualClock
) -> None:
    watch, admin = watch_of(site, clock), admin_of(site, clock)
    watch.look()
    listed = ClusterAdmin.topics

    def other(self: ClusterAdmin, names: Collection[str] | None = None) -> Mapping[str, TopicMetadata]:
        site.source.cluster_id = "another"
        site.source.topics.clear()
        return listed(admin, names)

    with patch.object(ClusterAdmin, "topics", other):
        watch.look()
    comparison = watch.comparison(BACKUP)
    assert comparison.problem.startswith("OFF-1401")
    assert (comparison.counts, comparison.alarms) == ({"current": 2}, 0)


def test_safe_is_good_only_once_this_machine_has_proven_it(site: Site) -> None:
    unproven = verdict_of(read_status(site.repository))
    assert (unproven.word, unproven.style) == ("SAFE, never proven", "warn")
    remember_check(site.backup, verify_quick(site.backup))
    proven = verdict_of(read_status(site.repository))
    assert (proven.word, proven.style) == ("SAFE", "good")


def test_the_command_tells_what_the_page_tells(site: Site, clock: VirtualClock, tmp_path: Path) -> None:
    watch = watch_of(site, clock)
    del site.source.topics["orders"]
    watch.look()
    status = read_status(site.repository).beside(watch.comparison)
    assert source_alarm(status).startswith("Lost at the source: orders (gone).")
    html = tmp_path / "status.html"
    words = ["status", "--repo", site.repository.store.url, "--against", str(site.source.address), "--html", str(html)]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 3
    assert printed.stdout.startswith("ATTENTION")
    assert "Lost at the source: orders (gone)." in printed.stdout
    assert f"offsite restore plan --backup={BACKUP} --topics=orders --commit=1 --groups=all" in printed.stdout
    assert "Lost at the source: orders (gone)." in html.read_text()
    assert "orders: deleted at the source" in html.read_text()
