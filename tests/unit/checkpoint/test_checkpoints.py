"""Checkpoints from the request to the tombstone, against a cluster that is none: what is said at each step is so."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from offsite.backup.copy_pass import CommitThresholds
from offsite.backup.pass_cut import NoCut
from offsite.backup.run import carry_out
from offsite.checkpoint import serve
from offsite.checkpoint.explain import explain_checkpoint
from offsite.checkpoint.request import delete_checkpoint, make_note, request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import CheckpointReport, Checkpoints
from offsite.checkpoint.taker import Taker, held_lease
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    BadOption,
    CheckpointIdUsed,
    CheckpointNeeded,
    DamagedObject,
    KafkaUnreachable,
    NoSuchRestorePoint,
    PutOutcomeUnknown,
)
from offsite.repository.checkpoint_records import (
    TAKEN_CHECKPOINT,
    CheckpointEvent,
    CheckpointNote,
    CheckpointRecords,
)
from offsite.repository.leftovers import find_orphans
from offsite.upkeep.retention.pins import pin_point
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site


def server(site: Site) -> CheckpointServer:
    return CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
    )


def take(site: Site, wanted: int | None = None) -> CheckpointReport:
    asked = request_checkpoint(site.backup, wanted)
    assert server(site).serve()
    return show(site, asked.id)


def show(site: Site, checkpoint: int) -> CheckpointReport:
    return Checkpoints(site.backup).report(checkpoint)


def begun(site: Site, checkpoint: int, *, taker: Taker | None = None) -> Taker:
    """A checkpoint that every partition has started, and nothing more."""
    request_checkpoint(site.backup, checkpoint)
    taker = taker or Taker(backup=site.backup)
    assert taker.take(checkpoint, site.plan_backup()) is not None
    return taker


def test_a_checkpoint_ends_exactly_where_it_was_taken_although_later_commits_exist(site: Site) -> None:
    site.source.write("orders", [b"c"], partition=1)
    report = take(site, 7)
    assert (report.status, report.commit, report.partitions, report.partitions_completed) == ("completed", 2, 2, 2)
    assert [(each.partition, each.end) for each in report.details] == [(0, 2), (1, 1)]
    site.source.write("orders", [b"d"] * 5)
    site.back_up()
    assert replace(show(site, 7), age_s=0.0) == replace(report, age_s=0.0)
    assert site.restore(checkpoint=7, rename=["orders=copy"]).records == 3


def test_a_quiet_backup_still_gets_its_commit(site: Site) -> None:
    assert (take(site, 7).commit, take(site, 8).commit) == (2, 3)


def test_the_same_id_again_takes_no_second_backup(site: Site) -> None:
    take(site, 7)
    assert not request_checkpoint(site.backup, 7).is_new
    assert server(site).serve()
    assert site.backup.state().seq == 2


def test_a_lower_id_is_refused_with_the_name_of_the_higher_one(site: Site) -> None:
    take(site, 7)
    with pytest.raises(CheckpointIdUsed, match="checkpoint 7 ") as refused:
        request_checkpoint(site.backup, 6)
    assert "--id 8" in refused.value.hint


@pytest.mark.parametrize("wanted", [0, -1, 1 << 63])
def test_what_is_no_id_is_refused(site: Site, wanted: int) -> None:
    with pytest.raises(BadOption):
        request_checkpoint(site.backup, wanted)


def test_ids_rise_also_when_the_clock_steps_back(site: Site) -> None:
    ahead = site.backup.store.now_ms() + 3_600_000
    take(site, ahead)
    assert request_checkpoint(site.backup).id == ahead + 1


def test_a_requested_checkpoint_is_not_ongoing_until_every_partition_has_started(site: Site) -> None:
    assert show(site, 7).status == "doesNotExist"
    request_checkpoint(site.backup, 7)
    taker = Taker(backup=site.backup)
    with held_lease(taker):
        plan = site.plan_backup()
        assert show(site, 7).status == "requested"
        assert taker.take(7, plan) is not None
        report = show(site, 7)
        assert (report.status, [each.partition for each in report.details]) == ("ongoing", [0, 1])


def test_one_that_is_taken_is_ongoing_while_its_process_lives_and_never_completed_by_silence(site: Site) -> None:
    site.source.write("orders", [b"c"])
    taker = Taker(backup=site.backup)
    with held_lease(taker):
        begun(site, 7, taker=taker)
        report = show(site, 7)
        assert (report.status, report.partitions_completed) == ("ongoing", 1)
        assert [(each.status, each.reached, each.end) for each in report.details] == [
            ("ongoing", 2, 3),
            ("completed", 0, 0),
        ]
    report = show(site, 7)
    assert (report.status, [each.status for each in report.details]) == ("incomplete", ["doesNotExist", "completed"])


def test_one_whose_partitions_are_all_at_their_end_is_not_complete_without_its_commit(site: Site) -> None:
    begun(site, 7)
    report = show(site, 7)
    assert (report.status, report.partitions_completed) == ("incomplete", 2)
    with pytest.raises(NoSuchRestorePoint):
        site.plan_restore(checkpoint=7)


def test_a_later_pass_without_it_proves_that_it_failed_and_its_own_can_never_commit(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    plan = Taker(backup=site.backup).take(7, site.plan_backup())
    assert plan is not None
    site.back_up()
    report = show(site, 7)
    assert (report.status, "commit 2 belongs to another pass" in report.failure_reason) == ("failed", True)
    with pytest.raises(Exception, match="another writer made commit 2"):
        carry_out(plan, site.backup, repository=site.repository, kafka=site.source.config, runner=site.runner)
    assert show(site, 7).status == "failed"
    assert take(site, 8).status == "completed"


def test_upkeep_does_not_fail_a_checkpoint(site: Site) -> None:
    begun(site, 7)
    pin_point(site.backup, 1, reason="kept")
    assert show(site, 7).status == "incomplete"


def test_a_failed_id_cannot_be_taken_again(site: Site) -> None:
    taker = begun(site, 7)
    taker.abort(7, KafkaUnreachable("no broker answers"))
    report = show(site, 7)
    assert (report.status, report.failure_reason) == ("failed", "OFF-1501: no broker answers")
    with pytest.raises(CheckpointIdUsed, match="failed: OFF-1501: no broker answers") as refused:
        request_checkpoint(site.backup, 7)
    assert "--id 8" in refused.value.hint


def test_where_nobody_knows_whether_the_commit_arrived_nothing_is_said(site: Site) -> None:
    begun(site, 7).abort(7, PutOutcomeUnknown("no answer"))
    assert show(site, 7).status == "incomplete"


def test_a_partition_that_cannot_be_asked_fails_the_checkpoint_and_no_commit_carries_the_id(site: Site) -> None:
    site.source.failing[Api.LIST_OFFSETS, TopicPartition(topic="orders", partition=1)] = DENIED
    report = take(site, 7)
    assert (report.status, "orders/1: " in report.failure_reason) == ("failed", True)
    assert [each.status for each in report.details] == ["completed", "failed"]
    assert site.backup.state().checkpoints == ()


def test_a_partition_that_fails_in_the_copy_fails_the_checkpoint(site: Site) -> None:
    site.source.write("orders", [b"damaged"], partition=1)
    site.source.topics["orders"].partitions[1].damage(0)
    report = take(site, 7)
    assert (report.status, "orders/1: " in report.failure_reason) == ("failed", True)
    assert site.backup.state().seq == 2, "what could be copied is a plain restore point"
    assert site.backup.state().checkpoints == ()


def test_a_commit_that_does_not_end_where_it_was_taken_does_not_carry_the_id(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    taker = Taker(backup=site.backup)
    plan = taker.take(7, site.plan_backup())
    assert plan is not None
    assert plan.checkpoint is not None
    first, *others = plan.checkpoint.ends
    moved = replace(plan.checkpoint, ends=(replace(first, end=first.end + 1), *others))
    ended = carry_out(
        replace(plan, checkpoint=moved),
        site.backup,
        repository=site.repository,
        kafka=site.source.config,
        runner=site.runner,
    )
    assert not taker.finish(7, ended.state, "elsewhere")
    assert show(site, 7).status == "failed"


@pytest.mark.parametrize(
    "every", [CommitThresholds(), CommitThresholds(segments=1, times_longer=0)], ids=["once", "early"]
)
def test_records_that_the_source_loses_before_they_are_copied_fail_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, every: CommitThresholds
) -> None:
    """Also where an early commit of its pass has told of them."""
    for value in (b"c", b"d"):
        site.source.write("orders", [value])
        site.source.write("orders", [value], partition=1)
    log = site.source.topics["orders"].partitions[0]

    def late(*given: object, **named: object) -> object:
        log.delete_before(log.end - 1)
        return carry_out(*given, **named, thresholds=every)  # type: ignore[arg-type]

    monkeypatch.setattr(serve, "carry_out", late)
    report = take(site, 7)
    assert (report.status, report.commit) == ("failed", 0)
    assert "orders/0: the source lost offsets 2 to 2 (retention) after the checkpoint" in report.failure_reason


def test_what_is_only_asked_for_can_be_called_off(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    assert delete_checkpoint(site.backup, 7).status == "deleted"
    assert server(site).serve()
    assert site.backup.state().seq == 1
    request_checkpoint(site.backup, 8)
    taker = Taker(backup=site.backup)
    assert taker.next_request() == 8
    delete_checkpoint(site.backup, 8)
    plan = taker.take(8, site.plan_backup())  # it had begun just before
    assert plan is not None
    carry_out(plan, site.backup, repository=site.repository, kafka=site.source.config, runner=site.runner)
    assert show(site, 8).status == "deleted"
    assert site.restore(commit=2, rename=["orders=copy"]).verified


def test_what_the_source_had_lost_before_it_was_taken_does_not_count(site: Site) -> None:
    site.source.write("orders", [b"c"])
    log = site.source.topics["orders"].partitions[0]
    log.delete_before(log.end)
    assert take(site, 7).status == "completed"


def test_of_many_takers_exactly_one_takes_an_id(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    plan = site.plan_backup()
    barrier, won = threading.Barrier(8), []

    def race() -> None:
        taker = Taker(backup=site.backup)
        barrier.wait()
        if taker.take(7, plan) is not None:
            won.append(taker.word)

    racing = [threading.Thread(target=race) for _ in range(8)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    taken = CheckpointRecords.of(site.backup).taken(7)
    assert taken is not None
    assert won == [taken.note.writer]


def test_of_many_who_ask_for_the_next_one_each_gets_an_id_of_its_own(site: Site) -> None:
    found: list[int] = []
    asking = [threading.Thread(target=lambda: found.append(request_checkpoint(site.backup).id)) for _ in range(8)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(set(found)) == 8
    assert server(site).serve()
    assert {show(site, each).status for each in found} == {"completed"}


def test_a_request_that_a_higher_id_has_passed_fails(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    CheckpointRecords.of(site.backup).put(make_note(site.backup, 8, writer="w"), CheckpointEvent.REQUESTED)
    begun(site, 9, taker=Taker(backup=site.backup))
    assert (show(site, 7).status, show(site, 8).status) == ("failed", "failed")
    assert server(site).serve()
    assert site.backup.state().seq == 1


def test_a_second_process_takes_none_while_the_first_does(site: Site) -> None:
    request_checkpoint(site.backup, 7)
    with held_lease(Taker(backup=site.backup)):
        assert not server(site).serve()
    assert server(site).serve()
    assert show(site, 7).status == "completed"


def test_the_objects_of_leases_that_ended_do_not_pile_up(site: Site) -> None:
    for _ in range(5):
        assert server(site).serve()
    assert len(list(site.backup.store.list(site.backup.layout.checkpoint_taker_prefix))) <= 3


def test_a_deleted_checkpoint_goes_with_its_restore_point_and_its_id_is_never_used_again(site: Site) -> None:
    take(site, 7)
    take(site, 8)
    assert delete_checkpoint(site.backup, 7).status == "deleted"
    assert [each.seq for each in site.backup.state().history] == [1, 3, 4]
    assert [each.status for each in Checkpoints(site.backup).list().checkpoints] == ["completed", "deleted"]
    with pytest.raises(CheckpointIdUsed):
        request_checkpoint(site.backup, 7)
    with pytest.raises(NoSuchRestorePoint):
        site.plan_restore(checkpoint=7)
    assert delete_checkpoint(site.backup, 7).status == "deleted"


def test_the_newest_restore_point_stays_without_its_checkpoint(site: Site) -> None:
    take(site, 7)
    report = delete_checkpoint(site.backup, 7)
    assert (report.status, report.commit) == ("deleted", 2)
    with pytest.raises(NoSuchRestorePoint):
        site.plan_restore(checkpoint=7)
    site.back_up()
    assert delete_checkpoint(site.backup, 7).commit == 0


def test_one_that_is_pinned_or_being_taken_is_not_deleted(site: Site) -> None:
    take(site, 7)
    pin_point(site.backup, 2, reason="audit")
    with pytest.raises(CheckpointNeeded, match="pinned"):
        delete_checkpoint(site.backup, 7)
    taker = Taker(backup=site.backup)
    with held_lease(taker):
        begun(site, 8, taker=taker)
        with pytest.raises(CheckpointNeeded, match="is in progress"):
            delete_checkpoint(site.backup, 8)
    assert show(site, 7).status == "completed"


def test_a_pin_that_comes_while_it_is_deleted_keeps_the_restore_point(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(site, 7)
    take(site, 8)
    put = CheckpointRecords.put

    def pin_first(records: CheckpointRecords, told: CheckpointNote, what: CheckpointEvent) -> bool:
        pin_point(site.backup, 2, reason="audit")
        return put(records, told, what)

    monkeypatch.setattr(CheckpointRecords, "put", pin_first)
    with pytest.raises(CheckpointNeeded, match="pinned"):
        delete_checkpoint(site.backup, 7)
    assert (show(site, 7).status, show(site, 7).commit) == ("deleted", 2)


def test_one_whose_restore_point_retention_let_go_is_deleted_by_it(site: Site) -> None:
    from offsite.repository.commit import CommitChanges

    take(site, 7)
    head = take(site, 8) and site.backup.state()
    site.backup.commit(head.carry_over(CommitChanges(forgotten=((2, 3),))), base=head, writer="w")
    report = show(site, 7)
    assert (report.status, report.deleted_by) == ("deleted", "retention")


def test_without_a_cut_an_explanation_claims_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr("offsite.backup.pass_commits.cut_of_pass", lambda *_, **__: NoCut(why="none wanted"))
        site.source.write("orders", [b"ends that have no cut"])
        take(site, 7)
    found = explain_checkpoint(site.backup, 7)
    assert (found.has_cut, found.classes) == (False, (("orders", "uncoordinated"),))
    take(site, 8)
    found = explain_checkpoint(site.backup, 8)
    assert (found.has_cut, found.classes) == (True, (("orders", "unchanged"),)), "nobody wrote while it was taken"
    with pytest.raises(NoSuchRestorePoint):
        explain_checkpoint(site.backup, 9)


def test_a_list_shows_the_newest_first_and_how_many_there_are(site: Site) -> None:
    for each in (7, 8, 9):
        take(site, each)
    found = Checkpoints(site.backup).list(most=2)
    assert (found.total, [each.id for each in found.checkpoints]) == (3, [9, 8])


def test_what_is_told_of_checkpoints_is_never_left_over(site: Site) -> None:
    begun(site, 7)
    assert not [each for each in find_orphans(site.backup) if "checkpoint" in each.info.key]


def test_what_is_told_of_a_checkpoint_reads_back_and_nonsense_does_not(site: Site) -> None:
    begun(site, 7)
    taken = CheckpointRecords.of(site.backup).taken(7)
    assert taken is not None
    assert TAKEN_CHECKPOINT.decode(TAKEN_CHECKPOINT.encode(taken), key="k") == taken
    twice = replace(taken, ends=(taken.ends[0], taken.ends[0]))
    with pytest.raises(DamagedObject, match="one end for each partition"):
        TAKEN_CHECKPOINT.decode(TAKEN_CHECKPOINT.encode(twice), key="k")
    with pytest.raises(DamagedObject):
        TAKEN_CHECKPOINT.decode(TAKEN_CHECKPOINT.encode(taken)[:-3], key="k")


def overwrite(site: Site, key: str, data: bytes) -> None:
    site.backup.store.delete(key)
    site.backup.store.put_if_absent(key, data)


def test_what_a_stranger_tells_of_a_complete_one_changes_nothing_of_it(site: Site) -> None:
    report, key = take(site, 7), site.backup.layout.checkpoint_key(7, CheckpointEvent.TAKEN)
    told_when_taken = CheckpointRecords.of(site.backup).taken(7)
    assert told_when_taken is not None
    first, *others = told_when_taken.ends
    for data in (
        TAKEN_CHECKPOINT.encode(replace(told_when_taken, ends=(replace(first, end=999), *others))),
        b"not JSON",
    ):
        overwrite(site, key, data)
        assert replace(show(site, 7), age_s=0.0) == replace(report, age_s=0.0)
        assert explain_checkpoint(site.backup, 7).commit == 2
    site.backup.store.delete(key)
    assert show(site, 7).details == report.details
    assert delete_checkpoint(site.backup, 7).status == "deleted"


def test_what_cannot_be_read_of_one_hides_no_others_from_a_list(site: Site) -> None:
    take(site, 7)
    overwrite(site, site.backup.layout.checkpoint_key(9, CheckpointEvent.TAKEN), b"not JSON")
    unreadable, complete = Checkpoints(site.backup).list().checkpoints
    assert (unreadable.id, unreadable.status, complete.status) == (9, "incomplete", "completed")
    assert "not JSON" in unreadable.failure_reason
    with pytest.raises(DamagedObject):
        show(site, 9)


def test_a_lease_that_cannot_be_read_hides_no_status(site: Site) -> None:
    take(site, 7)
    overwrite(site, f"{site.backup.layout.checkpoint_taker_prefix}00000099.claim.json", b"not JSON")
    assert show(site, 7).status == "completed"
    assert request_checkpoint(site.backup, 8).is_new
    with pytest.raises(DamagedObject):
        server(site).serve()
