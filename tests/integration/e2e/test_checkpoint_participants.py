"""Checkpoints beyond one cluster, beside producers: a database with a position, and the backup of another broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.checkpoint.explain import explain_checkpoint
from offsite.checkpoint.other_backup import OtherBackup
from offsite.checkpoint.participants import CheckpointingParticipant, Participants
from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import CheckpointReport, Checkpoints
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.log.range import TopicPartition
from offsite.model.errors import ParticipantFailed
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.file_participant import FileParticipant
from tests.inline_runner import InlineRunner
from tests.integration.e2e.site import BACKUP, Site
from tests.integration.e2e.test_follow import producing
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_PARTICIPANTS_TEST"
SOME = [DemoMessage(key=b"%d" % n, value=b"v", timestamp_ms=BASE_MS + n) for n in range(100)]


@pytest.fixture
def topic(site: Site) -> str:
    """A topic of two partitions that is backed up."""
    topic = site.make_topic(partitions=2)
    site.produce(topic, SOME)
    site.back_up(topic)
    return topic


def ends(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    return dict(cluster.admin.end_offsets([TopicPartition(topic=topic, partition=number) for number in (0, 1)]))


def take(site: Site, checkpoint: int, *asked: CheckpointingParticipant) -> CheckpointReport:
    request_checkpoint(site.backup, checkpoint)
    server = CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.cluster,
        runner=site.spark,
        participants=Participants(asked, take_timeout_s=120.0, complete_timeout_s=120.0),
    )
    assert server.serve()
    return Checkpoints(site.backup).report(checkpoint)


def test_a_database_that_replays_stands_before_the_cut_and_one_that_does_not_contradicts_it(
    site: Site, topic: str, tmp_path: Path
) -> None:
    database = FileParticipant(folder=tmp_path, not_yet=1, reads=lambda: ends(site.cluster, topic))
    with producing(site.cluster.bootstrap, [topic]):
        report = take(site, 7, database)
        at_once = FileParticipant(folder=tmp_path, can_replay=False, reads=lambda: dict.fromkeys(first, 1))
        first = ends(site.cluster, topic)
        failed = take(site, 8, at_once)
    assert report.status == "completed"
    copied = {each.partition: each.end for each in report.details}
    (told,) = explain_checkpoint(site.backup, 7).participants
    assert {each.partition for each in told.positions} == {0, 1}
    assert sum(each.end for each in told.positions) >= len(SOME)
    behind = {each.partition: copied[each.partition] - each.end for each in told.positions}
    assert min(behind.values()) >= 0, behind
    assert (failed.status, "C5" in failed.failure_reason) == ("failed", True)
    exact = FileParticipant(folder=tmp_path, can_replay=False, reads=lambda: ends(site.cluster, topic))
    assert take(site, 9, exact).status == "completed", "nobody writes any more"


@pytest.fixture
def elsewhere(second_broker: SandboxInfo, tmp_path: Path) -> Iterator[OtherBackup]:
    """The backup of another cluster, whose checkpoints are taken by processes of their own."""
    cluster, repo = Cluster(second_broker.bootstrap), str(tmp_path / "elsewhere")
    other = Site(cluster, Repository.init(open_store(repo)), InlineRunner())
    topic = other.make_topic()
    other.produce(topic, SOME)
    other.back_up(topic)
    names = ["--repo", repo, "--backup", BACKUP, "--bootstrap", second_broker.bootstrap]

    def arguments(checkpoint: int) -> list[str]:
        return ["checkpoint", "take", *names, "--id", str(checkpoint), "--wait", "-o", "json"]

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(MARK, repo)
        yield OtherBackup("elsewhere", other.backup, arguments=arguments)
        wait_until(lambda: not list(processes_with(MARK, repo)), "every process to end")


def test_two_clusters_have_checkpoints_of_the_same_id_and_both_are_complete(
    site: Site, topic: str, elsewhere: OtherBackup, tmp_path: Path
) -> None:
    with producing(site.cluster.bootstrap, [topic]):
        report = take(site, 7, elsewhere)
    assert (report.status, elsewhere.status(7)) == ("completed", "completed")
    assert [each.name for each in report.participants] == ["elsewhere"]
    failing = FileParticipant(folder=tmp_path, fails="disk full")
    with pytest.raises(ParticipantFailed):
        take(site, 8, elsewhere, failing)
    assert Checkpoints(site.backup).report(8).status == "failed"
