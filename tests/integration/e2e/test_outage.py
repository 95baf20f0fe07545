"""Brokers that go down, logs that come back shorter: work goes on where nothing was lost, and stops where it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from offsite.cli.output import EXIT_PARTIAL
from offsite.demo.data import BASE_MS, DemoMessage, compare_readings
from offsite.engine.runner import Runner
from offsite.log.range import TopicPartition
from offsite.model.errors import SourceTruncated
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.compare.run import CompareRequest, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import Sandbox
from offsite.stores.open_store import open_store
from tests.conftest import StartSandbox
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import offsite
from tests.integration.e2e.site import BACKUP, Site, new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_outage import killed_and_started_again
from tests.passing_runner import PassingRunner


class Outages(PassingRunner):
    """A runner whose tasks begin when the broker was just killed; it is started again while they wait."""

    def __init__(self, inner: Runner, sandbox: Sandbox) -> None:
        super().__init__(inner)
        self._sandbox = sandbox

    def run_each(self, *arguments: Any, **options: Any) -> None:
        starting = killed_and_started_again(self._sandbox)
        try:
            super().run_each(*arguments, **options)
        finally:
            starting.join()


def numbered(start: int, end: int, *, partition: int = 0) -> list[DemoMessage]:
    return [
        DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n, partition=partition)
        for n in range(start, end)
    ]


def own_site(bootstrap: str, folder: Path, runner: Runner) -> Site:
    return Site(Cluster(bootstrap), Repository.init(open_store(str(folder / "repository"))), runner)


def test_a_backup_and_a_restore_go_on_over_a_broker_that_dies(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    sandbox, info = start_sandbox()
    site = own_site(info.bootstrap, tmp_path, Outages(spark, sandbox))
    topic = site.make_topic(partitions=2)
    for partition in range(2):
        site.produce(topic, numbered(0, 2000, partition=partition))
    for commit in (True, False):
        with_transaction(site, topic, numbered(2000, 2100), commit=commit)
    assert site.back_up(topic).complete
    target = new_name(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]), offsets="preserve"
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
    assert (result.records, result.verified) == (4100, True)
    comparison = compare_readings(topic, site.read(topic), site.read(target), offsets=True)
    assert comparison.identical, comparison.difference[:1000]


def test_a_run_that_found_records_gone_says_so_by_its_exit_code(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 50))
    site.back_up(topic)
    site.produce(topic, numbered(50, 100))
    site.delete_before(topic, 70)
    where = ("--repo", site.repository.store.url, "--bootstrap", site.cluster.bootstrap)
    done = offsite("backup", "run", *where, "--backup", BACKUP)
    assert done.exit_code == EXIT_PARTIAL
    assert [(hole["start"], hole["end"]) for hole in done.result["holes"]] == [(50, 70)]


def test_a_log_that_was_cut_back_and_written_anew_is_never_mixed_with_what_it_was(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    """As after an unclean leader election: the log is longer than at the last run, and is another one from some offset
    on. Both histories are kept, and the other topic is backed up all the same."""
    sandbox, info = start_sandbox()
    site = own_site(info.bootstrap, tmp_path, spark)
    topic, other = site.make_topic(), site.make_topic()
    for first in range(0, 500, 100):
        site.produce(topic, numbered(first, first + 100), linger_ms=200)
    site.produce(other, numbered(0, 100))
    site.back_up(topic, other)
    before = site.read(topic)
    sandbox.kill()
    log = info.dir / "data" / f"{topic}-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)
    sandbox.start(owned=True)
    site.produce(other, numbered(100, 200))
    at = site.cluster.end(topic)
    assert 0 < at < 500
    site.produce(topic, numbered(9000, 9900))
    result = site.back_up()
    assert (result.records, result.failed, result.complete) == (100 + 900, (), False)
    (cut,) = result.cut_back
    assert (cut.topic, cut.at, cut.end, cut.last_commit) == (topic, at, 500, 1)
    site.assert_comes_back(other)
    site.assert_comes_back(topic)
    assert site.back_up().complete, "it goes on"
    target = new_name(topic)
    assert site.restore(topic, target, commit=1).records == 500
    site.assert_same(before, site.read(target))


def test_a_log_that_starts_earlier_again_after_a_crash_is_gone_on_with_and_is_the_same(
    start_sandbox: StartSandbox, tmp_path: Path
) -> None:
    """A broker writes down once a minute where its logs start: a crash takes back what DeleteRecords did since."""
    sandbox, info = start_sandbox()
    site = own_site(info.bootstrap, tmp_path, InlineRunner())
    topic = site.make_topic()
    for first in range(0, 200, 10):
        site.produce(topic, numbered(first, first + 10), linger_ms=200)
    site.delete_before(topic, 105)
    site.back_up(topic)
    sandbox.kill()
    (info.dir / "data" / "log-start-offset-checkpoint").unlink()  # not yet written when the broker crashed
    sandbox.start(owned=True)
    partition = TopicPartition(topic=topic, partition=0)
    assert site.cluster.admin.start_offsets([partition]) == {partition: 0}
    planned = plan_comparison(site.backup, site.cluster.admin, CompareRequest(selection=parse_selection([topic])))
    found = run_comparison(planned, cluster=site.cluster, runner=site.spark)
    assert (found.verified, found.records, found.findings) == (True, 95, ())
    site.produce(topic, numbered(200, 210))
    assert (site.back_up().records, site.restore(topic, new_name(topic)).records) == (10, 105)


@pytest.mark.soak
def test_a_disk_that_was_put_back_to_an_older_state_is_never_continued(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    """A snapshot of the broker's storage: it leads in the epoch of before, and its log is soon as long as it was."""
    sandbox, info = start_sandbox()
    site = own_site(info.bootstrap, tmp_path, spark)
    topic = site.make_topic()
    site.produce(topic, numbered(0, 600))
    data, snapshot = info.dir / "data", tmp_path / "snapshot"
    sandbox.stop()
    shutil.copytree(data, snapshot)
    sandbox.start(owned=True)
    site.produce(topic, numbered(600, 1000))
    assert site.back_up(topic).records == 1000
    sandbox.stop()
    shutil.rmtree(data)
    snapshot.rename(data)
    sandbox.start(owned=True)
    site.produce(topic, numbered(7000, 7400))
    site.produce(topic, numbered(9000, 9500))
    assert site.cluster.end(topic) == 1500
    with pytest.raises(SourceTruncated, match="set back to an older state"):
        site.back_up()
    target = new_name(topic)
    assert site.restore(topic, target).records == 1000


@pytest.mark.soak
def test_a_leader_that_only_changed_lets_the_backup_go_on(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    sandbox, info = start_sandbox()
    site = own_site(info.bootstrap, tmp_path, spark)
    topic, emptied = site.make_topic(), site.make_topic()
    for each in (topic, emptied):
        site.produce(each, numbered(0, 100))
    site.back_up(topic, emptied)
    sandbox.kill()
    sandbox.start(owned=True)
    for each in (topic, emptied):
        site.produce(each, numbered(100, 200))
    site.delete_before(emptied, 150)
    assert [(hole.topic, hole.end) for hole in site.back_up().holes] == [(emptied, 150)]
    site.assert_comes_back(topic)
