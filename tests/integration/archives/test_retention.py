"""Retention of archives in real places: beside an export that follows, of archives of other tools, by the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from typer.testing import CliRunner

from offsite.archives.export.run import ExportResult
from offsite.archives.formats import ReadOptions
from offsite.archives.retention import RetentionLimits
from offsite.archives.retention_audit import read_audit_reports
from offsite.archives.retention_run import LEAST_COLLECT_AFTER_MS, carry_out, open_archive, plan_retention
from offsite.backup.outages import Outage, Outages
from offsite.cli.app import app
from offsite.model.clock import SystemClock
from offsite.model.errors import ArchiveBusy
from tests.batches import make_log
from tests.integration.archives.exchange import Exchange, NewSegment
from tests.integration.archives.test_commands import PEERS, TOPIC
from tests.integration.kafka.cluster import wait_until

ROUNDS = 4
PER_ROUND = 20


@contextmanager
def following(exchange: Exchange) -> Iterator[list[ExportResult]]:
    """An export of the backup into the Avro archive `a` that follows, in a thread; it must end without an error."""
    told: list[ExportResult] = []
    waited: list[Outage | None] = []
    failed: list[BaseException] = []
    stop = Event()
    job = exchange.job("avro", "a")

    def follow() -> None:
        outages = Outages(give_up_after_s=60, clock=SystemClock(), on_outage=waited.append)
        try:
            job.follow(exchange.runner, interval_s=0.01, stop=stop, on_result=told.append, outages=outages)
        except BaseException as error:
            failed.append(error)
            raise

    thread = Thread(target=follow)
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join()
    assert failed == []


def let_go(exchange: Exchange, collect_after_ms: int) -> int:
    """All but the newest file of each partition; how many went, none where the export was first."""
    target = open_archive("avro", exchange.place("a"), options=ReadOptions(), collect_after_ms=collect_after_ms)
    plan = plan_retention(target, RetentionLimits(keep_age_ms=0), clock=SystemClock())
    try:
        carry_out(target, plan, clock=SystemClock())
    except ArchiveBusy:
        return 0
    return len(plan.going)


@pytest.mark.parametrize("place", ["exchange", "bucket"])
def test_beside_an_export_that_follows_nothing_is_lost_or_doubled(place: str, request: pytest.FixtureRequest) -> None:
    exchange: Exchange = request.getfixturevalue(place)
    collect_after_ms = 0 if place == "exchange" else LEAST_COLLECT_AFTER_MS
    exchange.commit(_round(0))
    went = 0
    with following(exchange) as rounds:
        wait_until(lambda: sum(each.records for each in rounds) == PER_ROUND)
        for number in range(1, ROUNDS):
            exchange.commit(_round(number))
            while sum(each.records for each in rounds) < (number + 1) * PER_ROUND:
                went += let_go(exchange, collect_after_ms)
            went += let_go(exchange, collect_after_ms)
    assert sum(each.records for each in rounds) == ROUNDS * PER_ROUND
    assert went >= ROUNDS - 1
    went += let_go(exchange, collect_after_ms)
    exchange.bring_in("avro", "a", "back")
    (kept,) = exchange.content("back").values()
    (everything,) = exchange.content("original").values()
    assert 0 < len(kept) <= PER_ROUND
    assert list(kept) == list(everything)[-len(kept) :]
    told = list(read_audit_reports(exchange.place("a")))
    files = [each for each in told if each.kind == "file"]
    assert len(files) >= went, "an attempt that an export was in front of wrote its lines too"
    assert len({each.what for each in files}) == went
    assert all(each.rule and each.who and each.at_ms and not each.problem for each in told)
    assert {each.state for each in files} == {"done" if place == "exchange" else "to be done"}


def _round(number: int) -> NewSegment:
    start, end = number * PER_ROUND, (number + 1) * PER_ROUND
    return NewSegment(partition=0, start=start, end=end, batches=[make_log(start, end)])


def command(word: str, place: Path, format_name: str, *more: str) -> list[str]:
    return ["archive", "retention", word, str(place), "--format", format_name, "--collect-after", "0s", *more]


@pytest.mark.parametrize(
    ("format_name", "original"),
    [
        ("kafka-backup", PEERS / "kafka-backup"),
        ("osodevops", PEERS / "osodevops" / "mixed-default"),
        ("osodevops", PEERS / "osodevops" / "mixed-none-nohdr"),
    ],
)
def test_archives_of_the_tools_themselves_keep_what_is_young(
    tmp_path: Path, exchange: Exchange, format_name: str, original: Path
) -> None:
    place = tmp_path / "archives" / "a"
    shutil.copytree(original, place)
    exchange.bring_in(format_name, "a", "whole")
    whole = exchange.content("whole")
    done = CliRunner().invoke(app, command("apply", place, format_name, "--keep-age", "0s", "--yes", "-o", "json"))
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert [each["files"] for each in report["kept"]] == [1] * len(whole)
    for each in report["removed_files"]:
        times_ms = {record.offset: record.timestamp_ms for record in whole[TOPIC, each["partition"]]}
        inside = [time_ms for offset, time_ms in times_ms.items() if each["start"] <= offset < each["end"]]
        assert each["last_message_ms"] == max(inside)
    exchange.bring_in(format_name, "a", "back")
    back = exchange.content("back")
    for each in report["kept"]:
        left = back[TOPIC, each["partition"]]
        assert left == [record for record in whole[TOPIC, each["partition"]] if record.offset >= each["start"]]


def test_the_command_shows_asks_and_tells(exchange: Exchange) -> None:
    for number in range(3):
        exchange.commit(_round(number))
        exchange.export("avro", "a")
    place = Path(exchange.place("a"))
    run = CliRunner().invoke
    planned = run(app, command("plan", place, "avro", "--keep-age", "0s", "-o", "json"))
    assert planned.exit_code == 0, planned.output
    report = json.loads(planned.stdout)
    assert [each["start"] for each in report["removed_files"]] == [0, 20]
    assert report["removed_bytes"] == sum(each["bytes"] for each in report["removed_files"]) > 0
    shown = run(app, command("plan", place, "avro", "--keep-age", "0s")).stdout
    assert "2 files (" in shown
    assert "the newest file of a partition is kept" in shown
    refused = run(app, command("apply", place, "avro", "--keep-age", "0s"))
    assert refused.exit_code != 0
    assert (place / report["removed_files"][0]["name"]).exists()
    done = run(app, command("apply", place, "avro", "--keep-age", "0s", "--yes"))
    assert done.exit_code == 0, done.output
    assert "deleted: 2 objects" in done.stdout
    assert not (place / report["removed_files"][0]["name"]).exists()
    assert "nothing to delete" in run(app, command("apply", place, "avro", "--max-bytes", "1TiB", "--yes")).stdout


def test_objects_of_a_store_stay_for_ten_minutes_at_least(bucket: Exchange) -> None:
    words = ["archive", "retention", "plan", bucket.place("a"), "--format", "avro", "--keep-age", "0s"]
    done = CliRunner().invoke(app, [*words, "--collect-after", "9m"])
    assert "at least 10 minutes" in str(done.exception)
