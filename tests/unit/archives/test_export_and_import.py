"""Out into an archive and back, from a backup and straight from a cluster that is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

import pytest

from offsite.archives.export.plan import ExportPlan, ExportRequest
from offsite.archives.export.run import (
    ExportJob,
    ExportResult,
    Postponed,
    export_of_backup,
    export_of_cluster,
    open_target,
    report_export,
)
from offsite.archives.formats import ReadOptions, WriteOptions
from offsite.archives.import_run import ImportRequest, ImportResult, plan_import, run_import
from offsite.archives.inspection import inspect, open_source
from offsite.backup.outages import Outage, Outages
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, KafkaNotAuthorized, KafkaUnreachable, SourceTruncated, TopicReplaced
from offsite.reports.point_report import HoleReport
from offsite.restore.options import RestoreWords, parse_restore
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site

FORMAT = "kafka-backup"


def request(**words: Any) -> ExportRequest:
    return ExportRequest(point=parse_restore(RestoreWords(**words)))


def of_backup(site: Site, place: Path, *, kind: str = FORMAT, **words: Any) -> ExportJob:
    return export_of_backup(site.backup, open_target(kind, str(place), WriteOptions()), request(**words))


def of_cluster(site: Site, place: Path, *, kind: str = FORMAT, **words: Any) -> ExportJob:
    target = open_target(kind, str(place), WriteOptions())
    return export_of_cluster(site.source.connected, target, request(**words), slots=2)


def run(job: ExportJob, site: Site) -> ExportResult:
    with job.alone():
        return job.run(job.plan(), site.runner)


def write_all(site: Site, topic: str, *batches: list[bytes]) -> None:
    for batch in batches:
        site.source.write(topic, batch)


def bring_in(site: Site, place: Path, backup: str) -> ImportResult:
    source = open_source(FORMAT, str(place), ReadOptions())
    wanted = ImportRequest(backup=backup, format=FORMAT, place=source.place)
    plan = plan_import(site.repository, source.reader, wanted)
    return run_import(plan, repository=site.repository, reader=source.reader, runner=site.runner)


def written(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a", b"b"])
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.source.write_in_transaction("orders", [b"committed"], committed=True, partition=1)
    site.source.commit_group("readers", "orders", [1, 0])


@pytest.fixture(params=[of_backup, of_cluster])
def export(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_records_and_groups_come_back_as_a_backup(site: Site, tmp_path: Path, export: Any) -> None:
    written(site)
    site.back_up("orders")
    result = run(export(site, tmp_path / "archive"), site)
    assert (result.topics, result.records, result.groups, result.group_offsets) == (1, 3, 1, 2)
    assert (result.complete, result.losses, result.postponed) == (True, (), ())
    back = bring_in(site, tmp_path / "archive", "imported")
    assert (back.commit, back.topics, back.partitions, back.records, back.complete) == (1, 1, 2, 3, True)
    assert back.groups is not None
    assert back.groups.offsets == 2
    restored = site.repository.backup("imported")
    assert sorted(end.end for end in restored.state().positions.values()) == [1, 2]


def test_what_the_archive_holds_is_not_written_again(site: Site, tmp_path: Path, export: Any) -> None:
    written(site)
    site.back_up("orders")
    run(export(site, tmp_path / "archive"), site)
    assert run(export(site, tmp_path / "archive"), site).records == 0
    site.source.write("orders", [b"later"])
    site.back_up()
    assert run(export(site, tmp_path / "archive"), site).records == 1
    assert bring_in(site, tmp_path / "archive", "imported").records == 4
    assert bring_in(site, tmp_path / "archive", "imported").records == 0


def test_a_plan_tells_what_would_be_written(site: Site, tmp_path: Path, export: Any) -> None:
    written(site)
    site.back_up("orders")
    job = export(site, tmp_path / "archive")
    report = report_export(job.plan(), job.target)
    assert (report.format, report.groups, report.holes) == (FORMAT, 1, ())
    spans = [(each.partition, each.start) for each in report.partitions]
    assert spans == [(0, 0), (1, 0)]
    assert not (tmp_path / "archive").exists()


def test_a_topic_made_anew_does_not_continue_the_old_one(site: Site, tmp_path: Path, export: Any) -> None:
    written(site)
    site.back_up("orders")
    run(export(site, tmp_path / "archive", kind="jsonl"), site)
    site.source.remake_topic("orders")
    site.source.write("orders", [b"new"])
    site.back_up()
    with pytest.raises(TopicReplaced, match="topic orders was deleted and created again after its export"):
        export(site, tmp_path / "archive", kind="jsonl").plan()


def test_a_log_that_ends_before_the_archive_does_is_refused(site: Site, tmp_path: Path) -> None:
    written(site)
    run(of_cluster(site, tmp_path / "archive", partitions=["orders:0"]), site)
    site.source.topics["orders"].partitions[0].elect(cut_to=0)
    with pytest.raises(SourceTruncated, match="orders/0 ends at 0"):
        of_cluster(site, tmp_path / "archive", partitions=["orders:0"]).plan()


def test_a_transaction_without_outcome_is_postponed(site: Site, tmp_path: Path) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.source.write_in_transaction("orders", [b"undecided"], committed=None)
    site.back_up("orders")
    result = run(of_backup(site, tmp_path / "archive"), site)
    assert (result.records, result.postponed) == (1, (Postponed(topic="orders", partition=0, offset=1),))
    direct = run(of_cluster(site, tmp_path / "direct"), site)
    assert (direct.records, direct.postponed) == (1, ())
    everything = run(of_cluster(site, tmp_path / "all", isolation="read_uncommitted"), site)
    assert everything.records == 2


def test_what_the_source_lost_since_the_last_export_is_a_hole(site: Site, tmp_path: Path, export: Any) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("orders")
    run(export(site, tmp_path / "archive"), site)
    site.source.write("orders", [b"b"])
    site.source.write("orders", [b"c"])
    site.source.topics["orders"].partitions[0].delete_before(2)
    site.back_up()
    result = run(export(site, tmp_path / "archive"), site)
    assert result.holes == (HoleReport(topic="orders", partition=0, start=1, end=2, reason="retention"),)
    assert (result.records, result.complete) == (1, False)


def test_a_partition_of_the_cluster_that_cannot_be_read_is_listed(site: Site, tmp_path: Path) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a"])
    site.source.write("orders", [b"b"], partition=1)
    site.source.topics["orders"].partitions[1].damage(0)
    result = run(of_cluster(site, tmp_path / "archive"), site)
    assert (result.records, result.complete) == (1, False)
    (sick,) = result.sick
    assert sick.startswith("orders/1: ")
    site.source.failing[Api.FETCH, TopicPartition(topic="orders", partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        run(of_cluster(site, tmp_path / "other"), site)


def test_a_cluster_has_no_restore_points(site: Site, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="a cluster has no restore points"):
        of_cluster(site, tmp_path / "archive", commit=1)


def test_an_earlier_commit_and_single_partitions_can_be_exported(site: Site, tmp_path: Path) -> None:
    written(site)
    site.back_up("orders")
    site.source.write("orders", [b"later"])
    site.back_up()
    assert run(of_backup(site, tmp_path / "first", commit=1), site).records == 3
    assert run(of_backup(site, tmp_path / "one", partitions=["orders:1"]), site).records == 1
    assert run(of_cluster(site, tmp_path / "two", partitions=["orders:1"]), site).records == 1


def test_an_export_can_follow_its_source(site: Site, tmp_path: Path) -> None:
    written(site)
    stop, told = Event(), list[int]()

    def on_result(result: ExportResult) -> None:
        told.append(result.records)
        if len(told) == 1:
            site.source.write("orders", [b"later"])
        else:
            stop.set()

    outages = Outages(give_up_after_s=1, clock=SystemClock(), on_outage=lambda _: None)
    job = of_cluster(site, tmp_path / "archive")
    job.follow(site.runner, interval_s=0.01, stop=stop, on_result=on_result, outages=outages)
    assert told == [3, 1]


def test_an_export_that_follows_waits_out_an_outage(site: Site, tmp_path: Path) -> None:
    written(site)
    stop, told = Event(), list[Outage | None]()
    job = of_cluster(site, tmp_path / "archive")
    failures = iter([KafkaUnreachable("gone", hint=""), KafkaUnreachable("gone", hint="")])

    def plan() -> ExportPlan:
        for failure in failures:
            raise failure
        return job.plan()

    clock = mock.Mock(wraps=SystemClock(), sleep=lambda _: None)
    outages = Outages(give_up_after_s=60, clock=clock, on_outage=told.append)
    replace(job, plan=plan).follow(
        site.runner, interval_s=0, stop=stop, on_result=lambda _: stop.set(), outages=outages
    )
    assert [each.attempts if each else None for each in told] == [1, 2, None]


def test_an_archive_can_be_looked_into(site: Site, tmp_path: Path) -> None:
    written(site)
    run(of_cluster(site, tmp_path / "archive"), site)
    found = inspect(open_source(FORMAT, str(tmp_path / "archive"), ReadOptions()))
    assert (found.cluster_id, found.groups, found.group_offsets, found.damaged) == ("", 1, 2, ())
    assert [(each.topic, each.partition) for each in found.partitions] == [("orders", 0), ("orders", 1)]
    assert sum(segment.records for segment in found.segments) == 3


@pytest.mark.parametrize("kind", ["kafka-backup", "jsonl", "avro"])
@pytest.mark.parametrize("more", [0, 1, 3])
def test_an_archive_with_records_of_before_a_cut_is_not_gone_on_with(
    site: Site, tmp_path: Path, more: int, kind: str
) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        write_all(site, topic, [b"a", b"b"], [b"c"])
    site.back_up("*")
    run(of_backup(site, tmp_path / "archive", kind=kind), site)
    site.source.topics["orders"].partitions[0].elect(cut_to=2)
    write_all(site, "orders", *[[b"x"]] * (1 + more))
    write_all(site, "users", [b"d"])
    site.back_up()
    result = run(of_backup(site, tmp_path / "archive", kind=kind), site)
    assert (result.records, result.complete) == (1, False)  # users goes on
    (left_out,) = result.sick
    assert "orders/0" in left_out
    assert "cut back to offset 2 (found by commit 2)" in left_out
    anew = run(of_backup(site, tmp_path / "anew", kind=kind), site)
    assert (anew.records, anew.sick) == (3 + more + 4, ())


def test_an_archive_that_ends_before_a_cut_or_behind_the_old_history_goes_on(site: Site, tmp_path: Path) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b"])
    site.back_up("*")
    run(of_backup(site, tmp_path / "before"), site)
    site.source.write("orders", [b"c"])
    site.back_up()
    site.source.topics["orders"].partitions[0].elect(cut_to=2)
    write_all(site, "orders", [b"x"], [b"y"])
    site.back_up()
    result = run(of_backup(site, tmp_path / "before"), site)
    assert (result.records, result.complete) == (2, True)
    site.source.write("orders", [b"z"])
    site.back_up()
    result = run(of_backup(site, tmp_path / "before"), site)
    assert (result.records, result.complete) == (1, True)


@pytest.mark.parametrize("kind", ["kafka-backup", "osodevops"])
def test_an_archive_without_topic_ids_that_holds_the_topic_of_before_is_not_gone_on_with(
    site: Site, tmp_path: Path, kind: str
) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        write_all(site, topic, [b"a", b"b"], [b"c"])
    site.back_up("*")
    run(of_backup(site, tmp_path / "archive", kind=kind), site)
    del site.source.topics["orders"]
    site.source.make_topic("orders")
    write_all(site, "orders", [b"x"], [b"y"])
    write_all(site, "users", [b"d"])
    site.back_up()
    result = run(of_backup(site, tmp_path / "archive", kind=kind), site)
    assert (result.records, result.complete) == (1, False)  # users goes on
    (left_out,) = result.sick
    assert (
        "orders/0: topic orders was deleted and created again, and ends at offset 2; the archive ends at offset 3"
        in left_out
    )
    anew = run(of_backup(site, tmp_path / "anew", kind=kind), site)
    assert (anew.records, anew.sick) == (6, ())
    assert run(of_backup(site, tmp_path / "anew", kind=kind), site).complete


@pytest.mark.parametrize("kind", ["kafka-backup", "osodevops"])
@pytest.mark.parametrize("anew_backup", [False, True])
def test_a_topic_made_anew_that_has_outgrown_an_archive_without_topic_ids_is_not_mixed_into_it(
    site: Site, tmp_path: Path, kind: str, anew_backup: bool
) -> None:
    """Also where the backup never saw the old topic: the records say it."""
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        write_all(site, topic, [b"a", b"b"], [b"c"])
    if anew_backup:
        run(of_cluster(site, tmp_path / "archive", kind=kind), site)
    else:
        site.back_up("*")
        run(of_backup(site, tmp_path / "archive", kind=kind), site)
    del site.source.topics["orders"]
    site.source.make_topic("orders")
    write_all(site, "orders", *[[b"x"]] * 5)
    write_all(site, "users", [b"d"])
    site.back_up("*")
    job = of_backup(site, tmp_path / "archive", kind=kind)
    for records in (1, 0):  # users goes on; what was refused stays so
        result = run(job, site)
        assert (result.records, result.complete) == (records, False)
        (left_out,) = result.sick
        assert "orders/0: the archive's last record, at offset 2, belongs to another topic of the same name" in left_out
    write_all(site, "users", [b"e"])
    site.back_up()
    assert run(job, site).records == 1
    anew = of_backup(site, tmp_path / "anew", kind=kind)
    assert run(anew, site).sick == ()
    write_all(site, "orders", [b"y"])
    site.back_up()
    assert (run(anew, site).records, run(anew, site).sick) == (1, ())
    assert run(of_backup(site, tmp_path / "anew", kind=kind), site).sick == ()


@pytest.mark.parametrize("kind", ["kafka-backup", "osodevops"])
def test_where_nothing_can_be_compared_a_topic_that_was_made_anew_is_refused_and_another_goes_on(
    site: Site, tmp_path: Path, kind: str
) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        write_all(site, topic, [b"a"], [b"b"])
    site.back_up("*")
    run(of_backup(site, tmp_path / "archive", kind=kind), site)
    del site.source.topics["orders"]
    site.source.make_topic("orders")
    write_all(site, "orders", *[[b"x"]] * 5)
    site.source.topics["orders"].partitions[0].delete_before(3)
    write_all(site, "users", [b"c"], [b"d"])
    site.back_up()
    result = run(of_backup(site, tmp_path / "archive", kind=kind), site)
    assert result.records == 2
    (left_out,) = result.sick
    assert "the backup has no record at offset 1 to compare with the archive's last one" in left_out


def test_an_archive_whose_end_is_damaged_is_not_gone_on_with(site: Site, tmp_path: Path) -> None:
    site.source.make_topic("orders", partitions=2)
    for partition in (0, 1):
        site.source.write("orders", [b"a"], partition=partition)
    site.back_up("*")
    run(of_backup(site, tmp_path / "archive", kind="osodevops"), site)
    (segment,) = (tmp_path / "archive").rglob("partition=1/segment-*")
    segment.write_bytes(segment.read_bytes()[:-3])
    for partition in (0, 1):
        site.source.write("orders", [b"b"], partition=partition)
    site.back_up()
    result = run(of_backup(site, tmp_path / "archive", kind="osodevops"), site)
    (left_out,) = result.sick
    assert result.records == 1
    assert "orders/1: the archive's last record cannot be read" in left_out


@pytest.mark.parametrize("kind", ["kafka-backup", "osodevops"])
def test_straight_from_a_cluster_two_topics_of_a_name_are_told_apart_as_well(
    site: Site, tmp_path: Path, kind: str
) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        write_all(site, topic, [b"a"], [b"b"])
    place, job = tmp_path / "archive", of_cluster(site, tmp_path / "archive", kind=kind)
    run(job, site)
    del site.source.topics["orders"]
    site.source.make_topic("orders")
    write_all(site, "orders", *[[b"x"]] * 5)
    site.source.write_in_transaction("users", [b"c"], committed=False)
    write_all(site, "users", [b"d"])
    result = run(of_cluster(site, place, kind=kind), site)
    assert (result.records, result.complete) == (1, False)
    (left_out,) = result.sick
    assert "orders/0: the archive's last record, at offset 1, belongs to another topic of the same name" in left_out
    site.source.topics["users"].partitions[0].delete_before(5)
    write_all(site, "users", [b"e"])
    assert run(of_cluster(site, place, kind=kind), site).records == 1, "nothing says that it is another topic"
