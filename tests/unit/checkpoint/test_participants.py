"""Participants of a checkpoint: asked before anything is read, held against the cut, and never passed over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsite.backup.pass_cut import NoCut
from offsite.checkpoint import serve
from offsite.checkpoint.explain import explain_checkpoint
from offsite.checkpoint.other_backup import OtherBackup
from offsite.checkpoint.participants import CheckpointingParticipant, DeclaredPositions, Participants
from offsite.checkpoint.request import delete_checkpoint, request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import CheckpointReport, Checkpoints, CheckpointStatus
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, CheckpointIdUsed, ParticipantFailed
from offsite.reports.point_report import consistency_of
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, DeclaredPosition, get_commit_cut
from tests.fake_cluster.site import Site, open_site
from tests.file_participant import FileParticipant

FIRST, SECOND = (TopicPartition(topic="orders", partition=number) for number in (0, 1))


def together(*asked: CheckpointingParticipant, within_s: float = 20.0) -> Participants:
    return Participants(asked, take_timeout_s=within_s, complete_timeout_s=within_s, poll_s=0.01)


def take(site: Site, participants: Participants, checkpoint: int = 7) -> CheckpointReport:
    request_checkpoint(site.backup, checkpoint)
    server = CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
        participants=participants,
    )
    assert server.serve()
    return Checkpoints(site.backup).report(checkpoint)


def failing_take(site: Site, participants: Participants) -> CheckpointReport:
    with pytest.raises(ParticipantFailed):
        take(site, participants)
    return Checkpoints(site.backup).report(7)


def at(first: int, second: int = 0) -> dict[TopicPartition, int]:
    return {FIRST: first, SECOND: second}


def test_what_a_participant_declared_is_stored_and_told(site: Site, tmp_path: Path) -> None:
    report = take(site, together(FileParticipant(folder=tmp_path, reads=lambda: at(1))))
    declared = CheckpointParticipant(
        name="database",
        can_replay=True,
        positions=(
            DeclaredPosition(topic="orders", partition=0, end=1),
            DeclaredPosition(topic="orders", partition=1, end=0),
        ),
    )
    assert (report.status, report.participants) == ("completed", (declared,))
    assert explain_checkpoint(site.backup, 7).participants == (declared,)
    state = site.backup.state_at(report.commit)
    assert state.cut is not None
    assert get_commit_cut(site.backup.store, state.cut).participants == (declared,)
    notes = consistency_of(site.backup.store, state, head=state).notes
    assert notes == ("participant database: had read orders/0 up to 1, orders/1 up to 0 and reads the rest again",)


def test_it_saves_its_state_before_anything_of_the_source_is_read(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    participant = FileParticipant(folder=tmp_path, reads=lambda: at(2))
    plan_backup = serve.plan_backup

    def planned_late(*given: object, **named: object) -> object:
        assert participant.asked == ["take"]
        site.source.write("orders", [b"c"])
        return plan_backup(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(serve, "plan_backup", planned_late)
    report = take(site, together(participant))
    assert (report.status, report.details[0].end) == ("completed", 3)


def test_one_that_cannot_replay_must_be_where_the_cut_ends(site: Site, tmp_path: Path) -> None:
    exact = FileParticipant(folder=tmp_path, reads=lambda: at(2), can_replay=False)
    assert take(site, together(exact)).status == "completed"
    lagging = FileParticipant(folder=tmp_path, reads=lambda: at(1), can_replay=False)
    report = take(site, together(lagging), 8)
    assert (report.status, "C5: orders/0 at 1 database" in report.failure_reason) == ("failed", True)


@pytest.mark.parametrize("ahead", [at(3), {TopicPartition(topic="strange", partition=0): 0}])
def test_one_that_has_read_what_the_cut_does_not_keep_contradicts(
    site: Site, tmp_path: Path, ahead: dict[TopicPartition, int]
) -> None:
    site.source.write("orders", [b"c"], partition=1)
    report = take(site, together(FileParticipant(folder=tmp_path, reads=lambda: ahead)))
    assert (report.status, "C5" in report.failure_reason) == ("failed", True)
    head = site.backup.state()
    assert (head.seq, head.checkpoints) == (2, ()), "what was copied is a plain restore point"
    assert head.cut is not None
    assert not get_commit_cut(site.backup.store, head.cut).refused, "its own cut is as good as any other"


def test_positions_without_a_cut_to_hold_them_against_fail_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsite.backup.pass_commits.cut_of_pass", lambda *_, **__: NoCut(why="none wanted"))
    report = take(site, together(FileParticipant(folder=tmp_path, reads=lambda: at(1))))
    assert (report.status, "no consistent cut" in report.failure_reason) == ("failed", True)
    assert take(site, together(FileParticipant(folder=tmp_path)), 8).status == "completed", "it reads nothing"


def test_one_that_is_not_ready_yet_is_asked_again(site: Site, tmp_path: Path) -> None:
    participant = FileParticipant(folder=tmp_path, not_yet=3)
    assert take(site, together(participant)).status == "completed"
    assert participant.asked == ["take"] * 4 + ["status"]


def test_one_that_fails_fails_the_checkpoint_before_anything_is_copied(site: Site, tmp_path: Path) -> None:
    site.source.write("orders", [b"c"])
    report = failing_take(site, together(FileParticipant(folder=tmp_path, fails="disk full")))
    assert (report.status, report.failure_reason) == ("failed", "OFF-1472: participant database: disk full")
    assert site.backup.state().seq == 1
    with pytest.raises(CheckpointIdUsed, match="disk full"):
        request_checkpoint(site.backup, 7)


def test_one_that_breaks_with_an_error_of_its_own_fails_it_too(site: Site, tmp_path: Path) -> None:
    def broken() -> dict[TopicPartition, int]:
        raise ZeroDivisionError("by zero")

    report = failing_take(site, together(FileParticipant(folder=tmp_path, reads=broken)))
    assert "ZeroDivisionError: by zero" in report.failure_reason


@pytest.mark.parametrize("nonsense", [at(-1), {TopicPartition(topic="no/topic", partition=0): 1}])
def test_nonsense_is_refused_before_it_is_stored(
    site: Site, tmp_path: Path, nonsense: dict[TopicPartition, int]
) -> None:
    report = failing_take(site, together(FileParticipant(folder=tmp_path, reads=lambda: nonsense)))
    assert "which is not a valid position" in report.failure_reason


def test_one_that_hangs_is_given_up(site: Site, tmp_path: Path) -> None:
    hanging = FileParticipant(folder=tmp_path, name="slow", hangs=threading.Event())
    quick = FileParticipant(folder=tmp_path, name="quick")
    report = failing_take(site, together(quick, hanging, within_s=0.2))
    assert "participant slow has not saved its state within 0.2 s" in report.failure_reason
    assert hanging.hangs is not None
    hanging.hangs.set()


def test_a_late_answer_of_a_failed_checkpoint_is_asked_for_no_more(tmp_path: Path) -> None:
    late = FileParticipant(folder=tmp_path, not_yet=10**9)
    with pytest.raises(ParticipantFailed):
        together(late, within_s=0.05).take(7)
    asking = [each for each in threading.enumerate() if each.name == "offsite-participant-database"]
    for each in asking:
        each.join(10)
        assert not each.is_alive()


@pytest.mark.parametrize(
    ("ends_as", "why"),
    [
        (CheckpointStatus.FAILED, "participant database: its part is failed"),
        (CheckpointStatus.ONGOING, "participant database has not completed its part within 0.2 s"),
    ],
)
def test_it_is_completed_only_when_every_participant_is(
    site: Site, tmp_path: Path, ends_as: CheckpointStatus, why: str
) -> None:
    site.source.write("orders", [b"c"])
    report = take(site, together(FileParticipant(folder=tmp_path, ends_as=ends_as), within_s=0.2))
    assert (report.status, report.failure_reason) == ("failed", why)
    assert (site.backup.state().seq, site.backup.state().checkpoints) == (2, ())


def test_the_same_id_again_saves_no_second_state(tmp_path: Path) -> None:
    participant = FileParticipant(folder=tmp_path, reads=lambda: at(len(participant.asked)))
    assert together(participant).take(7) == together(participant).take(7)


def test_deleting_a_checkpoint_deletes_what_participants_saved(site: Site, tmp_path: Path) -> None:
    participant = FileParticipant(folder=tmp_path)
    take(site, together(participant))
    assert participant.path(7).exists()
    assert delete_checkpoint(site.backup, 7, participants=together(participant)).status == "deleted"
    assert not participant.path(7).exists()


def test_two_of_the_same_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption):
        together(FileParticipant(folder=tmp_path), FileParticipant(folder=tmp_path))


@contextmanager
def another(folder: Path) -> Iterator[Site]:
    with open_site(folder) as site:
        site.source.make_topic("payments", partitions=1)
        site.source.write("payments", [b"p"])
        site.back_up("payments")
        yield site


class Begun(OtherBackup):
    """Its checkpoints are begun by the test."""

    def __init__(self, site: Site) -> None:
        super().__init__("elsewhere", site.backup, arguments=lambda _: ())
        self._site = site

    def take(self, checkpoint: int) -> DeclaredPositions | None:
        request_checkpoint(self._site.backup, checkpoint)
        take(self._site, Participants(), checkpoint)
        return super().take(checkpoint)


def test_another_backup_takes_the_same_id_and_counts(site: Site, tmp_path: Path) -> None:
    with another(tmp_path / "another") as elsewhere:
        report = take(site, together(Begun(elsewhere)))
        there = Checkpoints(elsewhere.backup).report(7)
    assert (report.status, there.status) == ("completed", "completed")
    assert report.participants == (CheckpointParticipant(name="elsewhere"),)


def test_another_backup_that_has_passed_the_id_fails_it(site: Site, tmp_path: Path) -> None:
    with another(tmp_path / "another") as elsewhere:
        take(elsewhere, Participants(), 9)
        other = OtherBackup("elsewhere", elsewhere.backup, arguments=lambda _: ())
        report = failing_take(site, together(other))
    assert (report.status, "checkpoint 9 of backup nightly exists" in report.failure_reason) == ("failed", True)


def test_no_process_takes_it_without_the_participants_that_it_was_asked_for_with(site: Site, tmp_path: Path) -> None:
    request_checkpoint(site.backup, 7, participants=["database"])
    report = take(site, Participants())
    assert report.status == "failed"
    assert report.failure_reason == "the process that was to take it does not know participant database"
    request_checkpoint(site.backup, 8, participants=["database"])
    database = FileParticipant(folder=tmp_path, reads=lambda: at(1))
    assert take(site, together(database), 8).status == "completed"
