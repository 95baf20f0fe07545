"""Checkpoints of a run that follows: on schedule and on request, one at a time, truthful when a round breaks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.checkpoint.participants import Participants
from offsite.checkpoint.request import CHOSEN_MAX, request_checkpoint
from offsite.checkpoint.status import Checkpoints, CheckpointStatus
from offsite.follow import follower
from offsite.follow.follower import Follower, FollowSettings, FollowTimes, Round
from offsite.kafka.net.routing import shared_router
from offsite.kafka.small_log import SmallLog
from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption, KafkaUnreachable
from offsite.model.options import StampForm
from offsite.repository import lease
from offsite.repository.checkpoint_records import CheckpointRecords, Stamping
from offsite.repository.lease import ProcessIdentity
from offsite_participant.control import OpenRecord, format_record
from offsite_participant.number import Form
from tests.fake_cluster.site import BACKUP, Site
from tests.file_participant import FileParticipant
from tests.virtual_time import Script


def follow(
    site: Site,
    clock: Script,
    *,
    every_s: float | None = None,
    participants: Participants | None = None,
    stamping: Stamping | None = None,
) -> list[Round]:
    rounds: list[Round] = []
    following = FollowSettings(
        repository=site.repository,
        cluster=site.source.connected,
        runner=site.runner,
        request=BackupRequest(backup=BACKUP, selection=None),
        times=FollowTimes(interval_s=10, checkpoint_every_s=every_s),
        checkpoints=True,
        participants=participants,
        stamping=stamping,
    )
    outages = Outages(give_up_after_s=3600, clock=clock, on_outage=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Follower(following, outages=outages, clock=clock, on_round=rounds.append).run()
    return rounds


def taken(site: Site) -> list[tuple[str, int]]:
    return [(each.status.value, each.commit) for each in reversed(Checkpoints(site.backup).list().checkpoints)]


def nothing() -> None:
    pass


def test_the_first_one_is_taken_once_it_has_caught_up_and_the_next_when_it_is_due(site: Site) -> None:
    follow(site, Script(*[nothing] * 6), every_s=30)
    assert taken(site) == [("completed", 2), ("completed", 3), ("completed", 4)]


def test_a_first_round_that_catches_up_takes_none(site: Site) -> None:
    site.source.write("orders", [b"c"])
    rounds = follow(site, Script(nothing), every_s=30)
    assert [each.plan.checkpoint is None for each in rounds] == [True, False]


def test_a_slow_round_does_not_pile_them_up(site: Site) -> None:
    clock = Script(lambda: setattr(clock, "now_s", clock.now_s + 300), nothing)
    follow(site, clock, every_s=30)
    assert len(taken(site)) == 1


def test_one_that_is_asked_for_is_taken_by_the_next_round(site: Site) -> None:
    asked: list[int] = []
    rounds = follow(site, Script(lambda: asked.append(request_checkpoint(site.backup).id), nothing))
    assert [None if each.result is None else each.result.commit for each in rounds] == [None, 2, None]
    assert Checkpoints(site.backup).report(asked[0]).commit == 2


def test_without_a_schedule_or_a_request_none_is_taken(site: Site) -> None:
    assert len(follow(site, Script(nothing))) == 2
    assert taken(site) == []


def test_a_round_that_breaks_fails_its_checkpoint_and_the_next_one_is_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsite.follow import follower
    from offsite.model.errors import KafkaUnreachable

    carry_out, breaks = follower.carry_out, [KafkaUnreachable("gone"), None]

    def breaking(*given: object, **named: object) -> object:
        if breaks and (error := breaks.pop()) is not None:
            raise error
        return carry_out(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(follower, "carry_out", breaking)
    follow(site, Script(*[nothing] * 6), every_s=30)
    first, *others = Checkpoints(site.backup).list().checkpoints[::-1]
    assert (first.status, first.failure_reason) == ("failed", "OFF-1501: gone")
    assert {each.status.value for each in others} == {"completed"}


def test_what_a_run_that_died_had_opened_does_not_cost_the_next_run_a_checkpoint(site: Site) -> None:
    how = Stamping(form=StampForm.MARKERS, topics=("orders",), control_topic="control")
    request_checkpoint(site.backup, 7, stamping=how)
    site.source.make_topic("control")
    control = SmallLog(shared_router(site.source.config), TopicPartition(topic="control", partition=0))
    control.append(format_record(OpenRecord(id=7, form=Form.MARKERS)))
    follow(site, Script(*[nothing] * 3), every_s=3600, stamping=how)
    assert [status for status, _ in taken(site)] == ["failed", "completed"]


def test_a_run_whose_lease_was_taken_over_leaves_them_to_the_other_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)

    def take_over() -> None:
        terms = CheckpointRecords.of(site.backup).lease
        terms.claim(ProcessIdentity.current(), "another", take_over=True)
        beating = [each for each in threading.enumerate() if each.name == "offsite-lease"]
        for each in beating:
            each.join(10)
        request_checkpoint(site.backup, 7)

    follow(site, Script(take_over, nothing, nothing))
    assert Checkpoints(site.backup).report(7).status == "requested"


def test_the_run_lets_others_take_them_when_it_ends(site: Site) -> None:
    follow(site, Script(nothing))
    assert not Checkpoints(site.backup).is_being_taken


def test_participants_take_part_in_those_of_a_run_too(site: Site, tmp_path: Path) -> None:
    positions = {TopicPartition(topic="orders", partition=0): 2}
    participant = FileParticipant(folder=tmp_path, reads=lambda: positions)

    def stop_completing() -> None:
        participant.ends_as = CheckpointStatus.FAILED

    def fail() -> None:
        participant.fails = "disk full"

    def recover() -> None:
        participant.fails, participant.ends_as = "", CheckpointStatus.COMPLETED

    follow(
        site,
        Script(nothing, stop_completing, fail, recover, nothing),
        every_s=10,
        participants=Participants([participant], poll_s=0.01),
    )
    found = [Checkpoints(site.backup).report(each) for each in Checkpoints(site.backup).ids]
    assert [(each.status.value, each.failure_reason) for each in found] == [
        ("completed", ""),
        ("failed", "participant database: its part is failed"),
        ("failed", "OFF-1472: participant database: disk full"),
        ("completed", ""),
        ("completed", ""),
    ]
    assert [len(each.participants) for each in found] == [1, 1, 0, 1, 1]


def test_in_an_outage_participants_save_one_state_for_an_id_that_is_known(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    participant = FileParticipant(folder=tmp_path)

    def unreachable(*_: object, **__: object) -> None:
        raise KafkaUnreachable("no broker answers")

    def break_down() -> None:
        monkeypatch.setattr(follower, "plan_backup", unreachable)

    script = Script(break_down, nothing, nothing, monkeypatch.undo, nothing)
    follow(site, script, every_s=10, participants=Participants([participant], poll_s=0.01))
    known = Checkpoints(site.backup).ids
    assert sorted(each.name for each in tmp_path.glob("database-*")) == [f"database-{each}.json" for each in known]
    assert {status for status, _ in taken(site)} == {"completed"}


def test_a_run_asks_no_participant_when_no_checkpoint_is_due(site: Site, tmp_path: Path) -> None:
    participant = FileParticipant(folder=tmp_path)
    follow(site, Script(*[nothing] * 3), participants=Participants([participant]))
    assert participant.asked == []


def test_an_id_behind_which_none_is_left_ends_no_checkpoints_whoever_asked_for_it(site: Site) -> None:
    for beyond in (MAX_OFFSET, MAX_OFFSET + 1):
        site.backup.store.put_if_absent(site.backup.layout.checkpoint_key(beyond, "requested"), b"of a stranger")

    def write() -> None:
        site.source.write("orders", [b"new"])

    follow(site, Script(write, write), every_s=10)
    assert sorted(status for status, _ in taken(site)) == ["completed", "completed", "failed"]
    assert request_checkpoint(site.backup).id < CHOSEN_MAX
    with pytest.raises(BadOption, match="not a checkpoint id"):
        request_checkpoint(site.backup, CHOSEN_MAX + 1)
    assert request_checkpoint(site.backup, CHOSEN_MAX).is_new
    assert request_checkpoint(site.backup).id == CHOSEN_MAX + 1, "the next one is there all the same"
