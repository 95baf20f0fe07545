"""A drill restores, proves, takes away what it made, and reports, against a cluster that is none."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.plain import plain
from offsite.model.selection import parse_selection
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.lease import ProcessIdentity
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import put_record
from offsite.repository.snapshots.check_records import decode_drill_record, put_drill_report
from offsite.restore.drill import PREFIX, Drill, DrillRequest
from offsite.restore.drill_report import DrillReport, drill_page
from offsite.upkeep.verification.last_checks import CheckMemory, read_last_checks
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site


def drill(site: Site, reports: list[DrillReport], *, in_sandbox: bool = False) -> Drill:
    return Drill(
        site.backup,
        DrillRequest(selection=parse_selection(["*"]), commit=None, in_sandbox=in_sandbox, by="nobody"),
        cluster=site.target.connected,
        runner=site.runner,
        clock=SystemClock(),
        on_report=reports.append,
    )


def backed_up(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a", b"b"])
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.back_up("orders")


def test_everything_is_proven_and_taken_away_again(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("theirs")
    reports: list[DrillReport] = []
    report = drill(site, reports).run()
    assert reports == [report]
    assert (report.proven, report.problem, report.records, report.commit) == (True, "", 2, 1)
    (topic,) = report.topics
    assert topic.source == "orders"
    assert topic.target.startswith(PREFIX)
    assert topic.invisible_records == 1
    assert [each.partition(":")[0] for each in topic.digests] == ["0"]
    assert report.removed == (topic.target,)
    assert site.target.topics.keys() == {"theirs"}


def test_the_repository_remembers_when_a_drill_proved_it(site: Site) -> None:
    backed_up(site)
    store, layout = site.backup.store, site.backup.layout
    report = drill(site, []).run()
    document = cast("dict[str, JsonValue]", plain(report))
    kept = put_drill_report(store, layout, report.drill, document, drill_page(report))
    CheckMemory(backup=site.backup).note_drill(
        decode_drill_record(kept["json"], layout.drill_key(report.drill, "json"))
    )
    found = read_last_checks(site.backup, now_ms=store.now_ms())
    assert found.drill is not None
    assert (found.drill.drill, found.drill.proven, found.problems) == (report.drill, True, ())
    assert format_time(found.proven_ms) == report.ended


def test_in_a_cluster_of_its_own_topics_keep_their_names(site: Site) -> None:
    backed_up(site)
    report = drill(site, [], in_sandbox=True).run()
    assert (report.proven, [each.target for each in report.topics], report.removed) == (True, ["orders"], ())


def test_a_drill_that_fails_is_reported_and_taken_away_by_itself(site: Site) -> None:
    backed_up(site)
    reports: list[DrillReport] = []
    failing = drill(site, reports)
    name = f"{PREFIX}{failing._attempt}-orders"
    site.target.failing[Api.PRODUCE, TopicPartition(topic=name, partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        failing.run()
    (report,) = reports
    assert report.proven is None, "it could not run: that says nothing of the backup"
    assert "TOPIC_AUTHORIZATION_FAILED" in report.problem
    assert report.removed == (name,)
    assert site.target.topics == {}


def test_what_a_killed_drill_left_is_taken_away_by_the_next(site: Site) -> None:
    backed_up(site)
    killed = drill(site, [])
    name = f"{PREFIX}{killed._attempt}-orders"
    site.target.failing[Api.PRODUCE, TopicPartition(topic=name, partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        site.restore(rename=[f"orders={name}"])
    assert name in site.target.topics
    report = drill(site, []).run()
    assert (report.leftovers, report.proven) == ((name,), True)
    assert site.target.topics == {}


def test_a_made_up_record_does_not_take_away_the_topics_of_a_drill_under_way(site: Site) -> None:
    backed_up(site)
    name = f"{PREFIX}{drill(site, [])._attempt}-orders"
    begun = site.plan_restore(rename=[f"orders={name}"])
    store, layout = site.backup.store, begun.layout
    put_record(store, layout, begun.record)
    other = replace(ProcessIdentity.current(), host="elsewhere")
    layout.lease(store).claim(other, "word", take_over=False)
    site.target.make_topic(name)
    forged = replace(begun.record, restore="20991231-000000-0123abcd")
    put_record(store, RestoreLayout(backup=site.backup.layout, restore=forged.restore), forged)
    report = drill(site, []).run()
    assert (report.leftovers, report.proven, set(site.target.topics)) == ((), True, {name})


def test_an_empty_backup_proves_nothing(site: Site) -> None:
    site.source.make_topic("orders")
    site.back_up("orders")
    report = drill(site, []).run()
    assert report.proven is None
    assert "has no records of orders" in report.problem


def test_a_drill_in_the_cluster_of_the_backup_does_not_grow_the_backup(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b"])
    site.back_up("*")
    for _ in range(2):
        made = Drill(
            site.backup,
            DrillRequest(selection=parse_selection(["*"]), commit=None, in_sandbox=False, by="nobody"),
            cluster=site.source.connected,
            runner=site.runner,
            clock=SystemClock(),
            on_report=lambda _: None,
        )
        report = made.run()
        assert report.proven
        assert [each.source for each in report.topics] == ["orders"]
        assert report.warnings
        site.source.make_topic(f"{PREFIX}{made._attempt}-orders")  # as if the drill were just under way
        site.back_up()
        del site.source.topics[f"{PREFIX}{made._attempt}-orders"]
    assert {each.topic for each in site.backup.state().topics} == {"orders"}


def test_a_drill_elsewhere_warns_of_nothing(site: Site) -> None:
    backed_up(site)
    assert drill(site, []).run().warnings == ()
