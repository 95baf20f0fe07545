"""A Zeebe cluster takes part: one backup of the same id, whatever is lost on the way, and exporting goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from offsite.checkpoint.participants import DeclaredPositions
from offsite.checkpoint.status import CheckpointStatus
from offsite.checkpoint.zeebe.participant import ZeebeParticipant
from offsite.model.errors import OffsiteError, ParticipantFailed, ParticipantUnreachable
from tests.fake_zeebe.cluster import Exporter, FakeZeebe, State
from tests.fake_zeebe.server import ZeebeServer, cuts_answer, loses_answer, says, serving, slow
from tests.processes import wait_until
from tests.unit.checkpoint.zeebe.conftest import QUICK

Make = Callable[..., ZeebeParticipant]


def take(participant: ZeebeParticipant, checkpoint: int = 7) -> DeclaredPositions:
    """As `Participants` asks it."""
    while (found := participant.take(checkpoint)) is None:
        time.sleep(0.02)
    return found


def complete(participant: ZeebeParticipant, checkpoint: int = 7) -> CheckpointStatus:
    while (found := participant.status(checkpoint)) is CheckpointStatus.ONGOING:
        time.sleep(0.02)
    return found


def test_exporting_is_paused_softly_before_and_resumed_after_the_backup(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    participant = participant_of(zeebe)
    assert take(participant) == DeclaredPositions()
    assert zeebe.zeebe.exporters == {Exporter.SOFT_PAUSED}
    assert complete(participant) is CheckpointStatus.COMPLETED
    assert zeebe.zeebe.history[:4] == ["SOFT_PAUSED", "take 7", "complete 7", "EXPORTING"]


@pytest.mark.parametrize("route", ["backupRuntime", "backups"])
def test_the_endpoint_that_is_there_is_found_by_asking(route: str, participant_of: Make) -> None:
    with serving(route=route) as zeebe:
        participant = participant_of(zeebe)
        take(participant)
        assert complete(participant) is CheckpointStatus.COMPLETED


def test_exporting_goes_on_while_our_own_copy_takes_long(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe)
    take(participant)
    wait_until(lambda: zeebe.zeebe.exporters == {Exporter.EXPORTING}, "exporting to go on without being asked")
    assert zeebe.zeebe.history[-2:] == ["complete 7", "EXPORTING"]
    assert complete(participant) is CheckpointStatus.COMPLETED


def test_exporting_goes_on_after_a_while_though_the_backup_never_ends(participant_of: Make) -> None:
    with serving(FakeZeebe(copying=-1)) as zeebe:
        participant = participant_of(zeebe, times=replace(QUICK, paused_s=0.3))
        take(participant)
        wait_until(lambda: zeebe.zeebe.exporters == {Exporter.EXPORTING}, "exporting to go on")
        assert participant.status(7) is CheckpointStatus.ONGOING


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_the_same_id_is_asked_for_again_when_nobody_knows_what_became_of_it(
    zeebe: ZeebeServer, participant_of: Make, code: int
) -> None:
    zeebe.fail_next("POST /actuator/backups", says(code), says(code))
    participant = participant_of(zeebe)
    take(participant)
    assert complete(participant) is CheckpointStatus.COMPLETED
    assert {each.body for each in zeebe.requests("POST /actuator/backups")} == {b'{"backupId": 7}'}
    assert len(zeebe.requests("POST /actuator/backups")) == 3
    assert len(zeebe.requests("pause")) == 1


@pytest.mark.parametrize("fault", [loses_answer, cuts_answer])
def test_a_backup_whose_answer_was_lost_is_found_by_its_id(
    zeebe: ZeebeServer, participant_of: Make, fault: Callable[..., None]
) -> None:
    zeebe.fail_next("POST /actuator/backups", fault)
    participant = participant_of(zeebe)
    take(participant)
    assert complete(participant) is CheckpointStatus.COMPLETED
    assert zeebe.zeebe.history.count("take 7") == 1


def test_a_slow_answer_is_given_up_and_asked_for_again(zeebe: ZeebeServer, participant_of: Make) -> None:
    zeebe.fail_next("POST /actuator/backups", slow(0.6))
    participant = participant_of(zeebe, timeout_s=0.2)
    take(participant)
    assert complete(participant) is CheckpointStatus.COMPLETED


def test_a_backup_that_began_on_some_partitions_is_begun_on_the_others(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    def breaks_midway(exchange: object) -> None:
        for number in (1,):
            zeebe.zeebe.partitions[number].checkpoint = 7

    zeebe.fail_next("POST /actuator/backups", breaks_midway)
    participant = participant_of(zeebe)
    take(participant)
    assert zeebe.zeebe.partitions[2].parts[7]


def test_a_new_backup_may_be_unknown_for_a_moment(participant_of: Make) -> None:
    with serving(FakeZeebe(unseen=4)) as zeebe:
        participant = participant_of(zeebe)
        take(participant)
        assert complete(participant) is CheckpointStatus.COMPLETED


def test_the_same_id_again_saves_nothing_twice_also_from_another_process(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    take(participant_of(zeebe))
    again = participant_of(zeebe)
    take(again)
    assert complete(again) is CheckpointStatus.COMPLETED
    assert zeebe.zeebe.history.count("take 7") == 1
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_an_id_below_one_that_zeebe_had_fails_and_says_which_to_take(zeebe: ZeebeServer, participant_of: Make) -> None:
    zeebe.zeebe.take(2_000_000_000_000)
    with pytest.raises(ParticipantFailed, match="higher id") as error:
        take(participant_of(zeebe))
    assert "--id 2000000000001" in error.value.hint


def test_an_id_that_only_some_partitions_can_take_fails_before_it_counts_as_taken(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    zeebe.zeebe.partitions[2].checkpoint = 9
    with pytest.raises(ParticipantFailed, match="higher id"):
        take(participant_of(zeebe))
    assert zeebe.zeebe.partitions[1].parts[7], "the other one has begun"


def test_an_id_below_one_that_was_deleted_fails_without_a_promise(zeebe: ZeebeServer, participant_of: Make) -> None:
    zeebe.zeebe.take(100)
    zeebe.zeebe.delete(100)
    with pytest.raises(ParticipantFailed, match="higher id") as error:
        take(participant_of(zeebe))
    assert "above all earlier ids of Zeebe" in error.value.hint


def test_a_backup_of_that_id_from_long_ago_is_not_taken_for_this_checkpoint(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    zeebe.zeebe.skew_s = -7 * 86_400
    zeebe.zeebe.take(7)
    participant = participant_of(zeebe, asked_at_ms=lambda _: int(time.time() * 1000))
    with pytest.raises(ParticipantFailed, match="already, from before"):
        take(participant)
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}, "nothing was paused for it"


def test_a_backup_that_fails_fails_it_with_zeebes_reason(participant_of: Make) -> None:
    with serving(FakeZeebe(fails={2: "the disk is full"})) as zeebe:
        participant = participant_of(zeebe)
        take(participant)
        with pytest.raises(ParticipantFailed, match="partition 2 failed due to the disk is full"):
            complete(participant)
        wait_until(lambda: zeebe.zeebe.exporters == {Exporter.EXPORTING}, "exporting to go on")


def test_a_backup_that_some_partitions_lack_fails_after_a_while(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe)
    take(participant)
    del zeebe.zeebe.partitions[2].parts[7]
    with pytest.raises(ParticipantFailed, match="missing on partition 2"):
        complete(participant)


@pytest.mark.parametrize(
    ("what", "why"), [("has_store", "not taken"), ("is_continuous", "predetermined backupId"), ("is_scaling", "scaled")]
)
def test_a_cluster_that_takes_no_backup_says_why(zeebe: ZeebeServer, participant_of: Make, what: str, why: str) -> None:
    setattr(zeebe.zeebe, what, what != "has_store")
    with pytest.raises(OffsiteError, match=why if what != "has_store" else "enabled"):
        take(participant_of(zeebe))


def test_without_an_answer_it_fails_before_the_others_give_up_on_it(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe, times=replace(QUICK, take_s=0.2))
    zeebe.fail_next("POST /actuator/backups", *[says(503, "no leader")] * 100)
    with pytest.raises(ParticipantUnreachable, match=r"for 0\.2 s: .* 503 no leader"):
        take(participant)
    zeebe.faults.clear()
    participant.release()
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


@pytest.mark.parametrize("says_200", [True, False])
def test_a_pause_that_failed_is_not_taken_for_one_whatever_the_code_says(participant_of: Make, says_200: bool) -> None:
    with serving(exporting_says_200=says_200) as zeebe:
        why = "Expected 3 members of partition 1 but found 2"
        zeebe.fail_next("pause", lambda exchange: exchange.send(zeebe.exporting_said(500, why)))
        participant = participant_of(zeebe)
        assert participant.take(7) is None
        assert zeebe.requests("POST /actuator/backups") == []
        take(participant)
        assert zeebe.zeebe.history[:2] == ["SOFT_PAUSED", "take 7"]


def test_complete_it_is_only_when_exporting_goes_on(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe, times=replace(QUICK, watch_s=60.0))
    take(participant)
    zeebe.fail_next("resume", says(502), says(504))
    seen = []
    while (status := participant.status(7)) is not CheckpointStatus.COMPLETED:
        seen.append(status)
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}
    assert len(zeebe.requests("resume")) == 3


def test_release_resumes_what_a_killed_process_left_paused(zeebe: ZeebeServer, participant_of: Make) -> None:
    zeebe.zeebe.export(Exporter.SOFT_PAUSED)
    participant_of(zeebe).release()
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_release_that_does_not_get_through_says_what_a_person_has_to_do(
    zeebe: ZeebeServer, participant_of: Make
) -> None:
    zeebe.fail_next("resume", *[says(503)] * 3)
    with pytest.raises(ParticipantUnreachable, match=r"curl -X POST http://127.0.0.1:\d+/actuator/exporting/resume"):
        participant_of(zeebe).release()


def test_nothing_is_paused_after_a_release(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe, times=replace(QUICK, watch_s=60.0))
    take(participant)
    participant.release()
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}
    complete(participant)
    assert zeebe.zeebe.history[-1] in {"EXPORTING", "complete 7"}
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}


def test_what_is_on_its_way_pauses_nothing_after_a_release(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe)
    zeebe.fail_next("GET", slow(0.3))
    taking = threading.Thread(target=lambda: participant.take(7))
    taking.start()
    wait_until(lambda: len(zeebe.requests("GET")) == 1, "it to ask")
    participant.release()
    taking.join()
    assert zeebe.requests("pause") == []
    assert zeebe.zeebe.ids == []


def test_delete_lets_the_backup_go_and_may_be_repeated(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe)
    take(participant)
    complete(participant)
    zeebe.fail_next("DELETE", says(502), loses_answer)
    participant.delete(7)
    participant.delete(7)
    assert zeebe.zeebe.ids == []
    assert participant_of(zeebe).status(7) is CheckpointStatus.DOES_NOT_EXIST


def test_a_delete_that_does_not_get_through_is_an_error(zeebe: ZeebeServer, participant_of: Make) -> None:
    zeebe.zeebe.take(7)
    zeebe.fail_next("DELETE", *[says(503)] * 3)
    with pytest.raises(ParticipantUnreachable):
        participant_of(zeebe).delete(7)
    assert zeebe.zeebe.ids == [7]


def test_a_status_that_cannot_be_had_for_a_while_is_waited_for(zeebe: ZeebeServer, participant_of: Make) -> None:
    participant = participant_of(zeebe, times=replace(QUICK, watch_s=60.0))
    take(participant)
    zeebe.fail_next("GET", says(502), loses_answer, cuts_answer)
    assert complete(participant) is CheckpointStatus.COMPLETED
    zeebe.fail_next("GET", *[says(502)] * 200)
    with pytest.raises(ParticipantUnreachable, match="502"):
        complete(participant)


def test_the_state_of_the_fake_is_what_the_tests_think(zeebe: ZeebeServer) -> None:
    assert zeebe.zeebe.state({}) is State.DOES_NOT_EXIST
