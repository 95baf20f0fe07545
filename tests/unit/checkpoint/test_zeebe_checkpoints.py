"""One checkpoint over Kafka and Zeebe: both or neither, with the true reason, and exporting goes on in any case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.checkpoint import serve
from offsite.checkpoint.participants import Participants
from offsite.checkpoint.request import delete_checkpoint, request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import CheckpointReport, Checkpoints
from offsite.checkpoint.zeebe.address import ZeebeCluster, parse_address
from offsite.checkpoint.zeebe.client import ZeebeClient
from offsite.checkpoint.zeebe.management import Management
from offsite.checkpoint.zeebe.participant import ZeebeParticipant
from offsite.follow import follower
from offsite.model.errors import CheckpointIdUsed, KafkaUnreachable, ParticipantFailed
from tests.fake_cluster.site import Site
from tests.fake_zeebe.cluster import Exporter, FakeZeebe
from tests.fake_zeebe.server import ZeebeServer, serving
from tests.unit.checkpoint.test_following import follow
from tests.unit.checkpoint.zeebe.conftest import QUICK
from tests.virtual_time import Script


@pytest.fixture
def zeebe() -> Iterator[ZeebeServer]:
    with serving(FakeZeebe()) as server:
        yield server


def together(zeebe: ZeebeServer) -> Participants:
    client = ZeebeClient(ZeebeCluster(address=parse_address(zeebe.url)), timeout_s=2.0)
    one = ZeebeParticipant("zeebe", Management(client), times=QUICK)
    return Participants([one], take_timeout_s=20, complete_timeout_s=20, poll_s=0.02)


def take(site: Site, zeebe: ZeebeServer, checkpoint: int = 7) -> CheckpointReport:
    request_checkpoint(site.backup, checkpoint, participants=("zeebe",))
    server = CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
        participants=together(zeebe),
    )
    assert server.serve()
    return Checkpoints(site.backup).report(checkpoint)


def test_it_is_complete_when_both_are(site: Site, zeebe: ZeebeServer) -> None:
    report = take(site, zeebe)
    assert (report.status, [each.name for each in report.participants]) == ("completed", ["zeebe"])
    assert report.participants[0].positions == (), "Zeebe's state says nothing about offsets"
    assert zeebe.zeebe.history[:4] == ["EXPORTING", "SOFT_PAUSED", "take 7", "complete 7"]
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_zeebe_has_begun_before_anything_of_kafka_is_read(
    site: Site, zeebe: ZeebeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_backup, seen = serve.plan_backup, list[bool]()

    def planned(*given: object, **named: object) -> object:
        seen.append("take 7" in zeebe.zeebe.history)
        return plan_backup(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(serve, "plan_backup", planned)
    assert (take(site, zeebe).status, seen) == ("completed", [True])


def test_it_fails_with_zeebes_reason_and_exporting_goes_on(site: Site, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.fails[1] = "no snapshot"
    report = take(site, zeebe)
    assert (report.status, "partition 1 failed due to no snapshot" in report.failure_reason) == ("failed", True)
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_an_id_that_zeebe_cannot_take_any_more_fails_it_before_kafka_is_read(site: Site, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.take(100)
    with pytest.raises(ParticipantFailed, match="higher id"):
        take(site, zeebe)
    report = Checkpoints(site.backup).report(7)
    assert (report.status, "higher id" in report.failure_reason) == ("failed", True)
    assert "--id 101" in report.failure_reason
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_exporting_goes_on_when_our_own_part_breaks(
    site: Site, zeebe: ZeebeServer, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    zeebe.zeebe.copying = -1

    def breaks(*_: object, **__: object) -> object:
        assert zeebe.zeebe.exporters == {Exporter.SOFT_PAUSED}
        raise error

    monkeypatch.setattr(serve, "carry_out", breaks)
    with pytest.raises(error):
        take(site, zeebe)
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_who_takes_the_next_one_resumes_what_a_killed_process_left(site: Site, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.export(Exporter.SOFT_PAUSED)
    CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
        participants=together(zeebe),
    ).serve()
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}, "also where no checkpoint is asked for"


def test_a_run_that_follows_resumes_it_before_its_first_round_and_takes_what_is_due(
    site: Site, zeebe: ZeebeServer
) -> None:
    zeebe.zeebe.export(Exporter.SOFT_PAUSED)
    seen: list[set[Exporter]] = []
    follow(site, Script(lambda: seen.append(zeebe.zeebe.exporters)), every_s=3600, participants=together(zeebe))
    assert seen == [{Exporter.EXPORTING}]
    (report,) = Checkpoints(site.backup).list().checkpoints
    assert (report.status, zeebe.zeebe.ids) == ("completed", [report.id])
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_a_run_that_follows_goes_on_when_zeebe_fails(site: Site, zeebe: ZeebeServer) -> None:
    zeebe.zeebe.has_store = False
    rounds = follow(site, Script(*[lambda: None] * 3), every_s=3600, participants=together(zeebe))
    assert len(rounds) == 4
    (report,) = Checkpoints(site.backup).list().checkpoints
    assert (report.status, "enabled" in report.failure_reason) == ("failed", True)
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_a_round_whose_checkpoint_failed_is_carried_out_while_exporting_goes_on(
    site: Site, zeebe: ZeebeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeebe.zeebe.partitions[2].checkpoint = 1 << 60
    carry_out, seen = follower.carry_out, list[set[Exporter]]()

    def carried_out(*given: object, **named: object) -> object:
        seen.append(zeebe.zeebe.exporters)
        return carry_out(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(follower, "carry_out", carried_out)
    follow(site, Script(lambda: None), every_s=3600, participants=together(zeebe))
    assert Exporter.SOFT_PAUSED.value in zeebe.zeebe.history
    assert seen == [{Exporter.EXPORTING}] * 2


def test_exporting_goes_on_while_a_run_waits_for_kafka(
    site: Site, zeebe: ZeebeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeebe.zeebe.copying = -1
    plan_backup, seen = follower.plan_backup, list[set[Exporter]]()

    def planned(*given: object, **named: object) -> object:
        if Exporter.SOFT_PAUSED in zeebe.zeebe.exporters:
            raise KafkaUnreachable("gone")
        return plan_backup(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(follower, "plan_backup", planned)
    steps = [lambda: None, lambda: seen.append(zeebe.zeebe.exporters)]
    follow(site, Script(*steps), every_s=3600, participants=together(zeebe))
    assert Exporter.SOFT_PAUSED.value in zeebe.zeebe.history
    assert seen == [{Exporter.EXPORTING}]


def test_a_run_that_never_had_the_lease_resumes_nothing(site: Site, zeebe: ZeebeServer) -> None:
    from offsite.checkpoint.taker import Taker, held_lease

    zeebe.zeebe.export(Exporter.SOFT_PAUSED)
    with held_lease(Taker(backup=site.backup)):
        follow(site, Script(lambda: None), every_s=3600, participants=together(zeebe))
    assert zeebe.zeebe.exporters == {Exporter.SOFT_PAUSED}, "it may be paused for what another process takes"


def test_deleting_it_deletes_both_parts(site: Site, zeebe: ZeebeServer) -> None:
    take(site, zeebe)
    assert delete_checkpoint(site.backup, 7, participants=together(zeebe)).status == "deleted"
    assert zeebe.zeebe.ids == []


def test_one_that_was_taken_without_zeebe_is_not_answered_for_one_with_it(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    with pytest.raises(CheckpointIdUsed, match="without zeebe"):
        request_checkpoint(site.backup, 7, participants=("zeebe",))
    assert not request_checkpoint(site.backup, 7).is_new


def test_one_that_was_taken_with_it_is(site: Site, zeebe: ZeebeServer) -> None:
    take(site, zeebe)
    assert not request_checkpoint(site.backup, 7, participants=("zeebe",)).is_new
