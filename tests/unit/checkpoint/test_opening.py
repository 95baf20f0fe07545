"""Checkpoints that are opened to applications: what is written where, who is waited for, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from offsite.backup.cut.found_cut import Stamps, _moved
from offsite.backup.stamps import StampWindows
from offsite.checkpoint.opening import ControlReader, Opener
from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import CheckpointReport, Checkpoints
from offsite.checkpoint.taker import Taker
from offsite.cut.readings import CutEvidence, EndsReading
from offsite.kafka.net.routing import shared_router
from offsite.kafka.small_log import SmallLog
from offsite.log.range import PartitionId, TopicPartition
from offsite.log.records.record import Record
from offsite.model.errors import BadOption, CheckpointIdUsed, DamagedObject, NoSuchTopic, ParticipantFailed
from offsite.model.options import StampForm
from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointRecords, Stamping, decode_note
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite_participant.control import AckRecord, ControlRecord, OpenRecord, Session, Sign, SignRecord, format_record
from offsite_participant.control import parse_record as parse_said
from offsite_participant.number import MAX_NUMBER, Form, Stamp, marker_of, stamped
from tests.fake_cluster.partition_log import PartitionLog
from tests.fake_cluster.site import Site
from tests.virtual_time import Script

CONTROL = "control"
PAYER = Session("payer", "a1")


def stamping(form: StampForm = StampForm.MARKERS, *topics: str) -> Stamping:
    return Stamping(form=form, topics=topics or ("orders",), control_topic=CONTROL)


def log_of(site: Site, topic: str, partition: int = 0) -> SmallLog:
    return SmallLog(shared_router(site.source.config), TopicPartition(topic=topic, partition=partition))


def said(site: Site) -> list[ControlRecord | None]:
    log = log_of(site, CONTROL)
    return [parse_said(each.value) for each in log.read(log.start(), log.end())]


def say(site: Site, *records: ControlRecord) -> None:
    if CONTROL not in site.source.admin.topics():
        site.source.make_topic(CONTROL)
    for each in records:
        log_of(site, CONTROL).append(format_record(each))


def records(site: Site, topic: str, partition: int) -> list[Record]:
    log = log_of(site, topic, partition)
    return list(log.read(log.start(), log.end()))


def write(
    site: Site,
    number: int | None,
    partition: int = 0,
    form: Form = Form.MARKERS,
    topic: str = "orders",
    *,
    control: str = CONTROL,
) -> int:
    """A record of a participant with that number, or of somebody who is none."""
    headers = () if number is None else tuple(stamped((), Stamp(number, form, topic, control)))
    return log_of(site, topic, partition).append(b"paid", headers=headers)


def take(site: Site, checkpoint: int, how: Stamping) -> CheckpointReport:
    request_checkpoint(site.backup, checkpoint, stamping=how)
    assert server(site, how).serve()
    return Checkpoints(site.backup).report(checkpoint)


def server(site: Site, how: Stamping | None = None) -> CheckpointServer:
    return CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
        stamping=how,
    )


def cut_of(site: Site, report: CheckpointReport) -> CommitCut:
    ref = site.backup.state_at(report.commit).cut
    assert ref is not None
    return get_commit_cut(site.backup.store, ref)


def open_with(site: Site, script: Script, form: StampForm = StampForm.ACKS, checkpoint: int = 7) -> object:
    bounds = site.plan_backup().source.bounds
    return Opener(cluster=site.source.connected, clock=script).open(checkpoint, stamping(form), bounds)


def beats(site: Site) -> Callable[[], None]:
    return lambda: say(site, SignRecord(sign=Sign.BEAT, session=PAYER, lease_ms=1_000))


def test_each_partition_gets_a_marker_and_the_cut_ends_before_what_is_behind_it(site: Site) -> None:
    site.source.make_topic("mail")
    report = take(site, 7, stamping())
    assert report.status == "completed", report.failure_reason
    last = [records(site, "orders", number)[-1] for number in (0, 1)]
    assert [marker_of(each.key, each.value, each.headers, "orders") for each in last] == [7, 7]
    assert said(site) == [OpenRecord(id=7, form=Form.MARKERS)]
    ends = {each.partition_id.partition: each.end for each in cut_of(site, report).partitions}
    assert ends == {number: len(records(site, "orders", number)) - 1 for number in (0, 1)}


def meanwhile(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Done between the opening of form A and the ends."""
    marking = Opener._mark

    def mark(opener: Opener, windows: StampWindows) -> None:
        for each in steps:
            each()
        marking(opener, windows)

    monkeypatch.setattr(Opener, "_mark", mark)


@pytest.mark.parametrize(
    ("numbers", "expected"), [((0, 3), "participant"), ((0, None), "uncoordinated"), ((), "unchanged")]
)
def test_a_topic_is_of_participants_if_all_that_is_new_is_stamped(
    site: Site, monkeypatch: pytest.MonkeyPatch, numbers: tuple[int | None, ...], expected: str
) -> None:
    meanwhile(monkeypatch, *(partial(write, site, each) for each in numbers))
    report = take(site, 7, stamping())
    assert dict(cut_of(site, report).classes)["orders"] == expected


def test_what_is_stamped_with_the_number_is_not_in_the_cut_and_what_is_older_is(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = []

    def mark(_opener: Opener, _windows: object) -> None:
        at.extend([write(site, 3), write(site, 7), write(site, 7)])
        write(site, 7, partition=1)

    monkeypatch.setattr(Opener, "_mark", mark)
    cut = cut_of(site, take(site, 7, stamping()))
    assert {each.partition_id.partition: each.end for each in cut.partitions}[0] == at[1]


def test_who_has_a_higher_number_did_not_take_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It heard of one that was opened meanwhile, or is a stranger: it passes the markers, and takes no checkpoint."""
    meanwhile(monkeypatch, lambda: write(site, 3), lambda: write(site, 90))
    cut = cut_of(site, take(site, 7, stamping()))
    assert dict(cut.classes)["orders"] == "uncoordinated"
    assert any("a writer used number 90" in each for each in cut.notes)


def test_who_hears_of_it_in_another_way_did_not_take_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: write(site, 3), lambda: write(site, 3, form=Form.ACKS))
    assert dict(cut_of(site, take(site, 7, stamping())).classes)["orders"] == "uncoordinated"


def test_partitions_that_come_meanwhile_are_in_no_cut_and_who_read_them_proves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.source.make_topic("orders-paid")

    def grow() -> None:
        site.source.topics["orders"].partitions.append(PartitionLog())

    meanwhile(monkeypatch, lambda: write(site, 3, topic="orders-paid"), grow)
    cut = cut_of(site, take(site, 7, stamping(StampForm.MARKERS, "orders*")))
    assert dict(cut.classes) == {"orders": "uncoordinated", "orders-paid": "uncoordinated"}
    assert any("orders got new partitions while" in each for each in cut.notes)


def test_a_leader_that_changes_meanwhile_is_no_loss(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written in its epoch lies behind the end that the one before it had told."""
    log = site.source.topics["orders"].partitions[0]
    elect = partial(log.epochs.append, (1, log.end))
    meanwhile(monkeypatch, elect, lambda: write(site, 3))
    report = take(site, 7, stamping())
    assert report.status == "completed", report.failure_reason
    assert dict(cut_of(site, report).classes)["orders"] == "participant"


def test_who_reads_another_control_topic_has_not_heard_of_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """He passes the markers by, for their number was never opened where he looks."""
    meanwhile(monkeypatch, lambda: write(site, 3, control="another"))
    cut = cut_of(site, take(site, 7, stamping()))
    assert dict(cut.classes)["orders"] == "uncoordinated"
    assert any("do all writers take part, and do they read that topic?" in each for each in cut.notes)


def test_a_topic_that_comes_meanwhile_is_in_no_cut_and_who_read_it_proves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: site.source.make_topic("orders-2"), lambda: write(site, 3))
    cut = cut_of(site, take(site, 7, stamping()))
    assert dict(cut.classes)["orders"] == "uncoordinated"
    assert any("orders-2 got new partitions while" in each for each in cut.notes)


@pytest.mark.parametrize(("joins", "expected"), [(True, "participant"), (False, "uncoordinated")])
def test_who_writes_and_never_joined_has_acknowledged_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, joins: bool, expected: str
) -> None:
    """As a participant of form A, which waits for markers that nobody writes."""
    waiting = Opener._await_acks

    def wait(opener: Opener, reader: ControlReader, checkpoint: int) -> frozenset[Session]:
        write(site, 3, form=Form.ACKS)
        if joins:
            say(site, AckRecord(session=PAYER, id=7, lease_ms=60_000))
        return waiting(opener, reader, checkpoint)

    monkeypatch.setattr(Opener, "_await_acks", wait)
    cut = cut_of(site, take(site, 7, stamping(StampForm.ACKS)))
    assert dict(cut.classes)["orders"] == expected


def test_a_marker_that_is_gone_fails_the_checkpoint(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of its partition did not have to pass it."""
    monkeypatch.setattr(Opener, "_mark", lambda *_: write(site, 3))
    report = take(site, 7, stamping())
    assert report.status == "failed"
    assert "the marker in orders/0 is missing" in report.failure_reason


def test_each_session_is_waited_for_until_it_acknowledges(site: Site) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=1_000))
    script = Script(beats(site), beats(site), lambda: say(site, AckRecord(session=PAYER, id=7, lease_ms=1_000)))
    open_with(site, script)
    assert script.now_s > 1000.2
    assert said(site)[0] == OpenRecord(id=7, form=Form.ACKS), "what is older is of no use any more"


def test_a_session_that_died_is_waited_for_until_its_lease_is_over(site: Site) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=1_000))
    script = Script(*[lambda: None] * 50)
    open_with(site, script)
    assert 1001.0 <= script.now_s < 1001.5
    script = Script()
    open_with(site, script, checkpoint=8)
    assert script.now_s == 1000.0, "nobody waits for it again"


@pytest.mark.slow
def test_a_session_that_lives_and_is_silent_fails_the_checkpoint(site: Site) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=1_000))
    say(site, SignRecord(sign=Sign.JOIN, session=Session("dead", "d1"), lease_ms=600_000))
    say(site, SignRecord(sign=Sign.LEAVE, session=Session("dead", "d1"), lease_ms=600_000))
    script = Script(*[beats(site)] * 700)
    with pytest.raises(ParticipantFailed, match="payer has not acknowledged checkpoint 7 in time"):
        open_with(site, script)
    assert script.now_s < 1061, "whoever is not waited for does not make it longer"
    assert said(site)[0] == OpenRecord(id=7, form=Form.ACKS), "what is older is of no use any more"


def test_who_acknowledged_is_known_when_what_is_older_was_deleted(site: Site) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=1_000))
    open_with(site, Script(lambda: say(site, AckRecord(session=PAYER, id=7, lease_ms=1_000))))
    with pytest.raises(KeyboardInterrupt):
        open_with(site, Script(), checkpoint=8)  # it would wait for the session


def test_an_id_is_opened_once_and_ids_rise(site: Site) -> None:
    """What was stamped after a first opening may be below the ends that are read for a second one."""
    say(site, OpenRecord(id=7, form=Form.MARKERS))
    with pytest.raises(CheckpointIdUsed, match="7 was already opened in control and did not complete"):
        open_with(site, Script())
    with pytest.raises(CheckpointIdUsed, match="checkpoint 7 was already opened in control, so 6 cannot") as refused:
        open_with(site, Script(), checkpoint=6)
    assert "--id 8" in str(refused.value.hint)
    say(site, OpenRecord(id=MAX_NUMBER, form=Form.MARKERS))
    with pytest.raises(CheckpointIdUsed) as refused:
        open_with(site, Script())
    assert "--control-topic" in str(refused.value.hint)


@pytest.mark.parametrize("form", StampForm)
def test_who_is_overtaken_by_another_opener_fails(site: Site, monkeypatch: pytest.MonkeyPatch, form: StampForm) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=1_000))
    other = partial(say, site, OpenRecord(id=9, form=Form(form.value)))
    meanwhile(monkeypatch, other)
    with pytest.raises(ParticipantFailed, match="another checkpoint was opened in control"):
        open_with(site, Script(other), form=form)


def test_who_deletes_what_is_older_does_not_disturb_who_begins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    say(site, OpenRecord(id=5, form=Form.ACKS), OpenRecord(id=6, form=Form.ACKS))
    read, deleted = SmallLog.read, []

    def read_late(log: SmallLog, start: int, end: int) -> Iterator[Record]:
        if not deleted:
            deleted.append(True)
            site.source.admin.delete_records({TopicPartition(topic=CONTROL, partition=0): 1})
        return read(log, start, end)

    monkeypatch.setattr(SmallLog, "read", read_late)
    open_with(site, Script())
    assert said(site) == [OpenRecord(id=7, form=Form.ACKS)]


def test_a_control_topic_that_is_made_anew_meanwhile_fails_it(site: Site) -> None:
    say(site, SignRecord(sign=Sign.JOIN, session=PAYER, lease_ms=10_000))

    def make_anew() -> None:
        site.source.admin.delete_topics([CONTROL])
        say(site)

    with pytest.raises(ParticipantFailed, match="or records of control were deleted"):
        open_with(site, Script(make_anew))


def test_of_two_openers_the_first_one_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    append = SmallLog.append

    def second(log: SmallLog, value: bytes, **more: object) -> int:
        append(log, format_record(OpenRecord(id=9, form=Form.MARKERS)))
        return append(log, value, **more)  # type: ignore[arg-type]  # as it came

    say(site)
    monkeypatch.setattr(SmallLog, "append", second)
    with pytest.raises(CheckpointIdUsed):
        open_with(site, Script())


@pytest.mark.parametrize("value", [b"junk", b'{"version":2,"kind":"open"}', None])
def test_a_control_topic_that_cannot_be_read_fails_the_checkpoint_and_says_where(
    site: Site, value: bytes | None
) -> None:
    say(site)
    log_of(site, CONTROL).append(value)
    with pytest.raises(ParticipantFailed, match="offset 0 of control") as refused:
        open_with(site, Script())
    assert "kafka-delete-records" in str(refused.value.hint)


def test_what_is_not_known_to_be_ours_is_not_deleted(site: Site) -> None:
    """As in somebody's own topic that was named by mistake."""
    say(site)
    log_of(site, CONTROL).append(b'{"version":1,"kind":"login"}')
    open_with(site, Script())
    assert said(site) == [None, OpenRecord(id=7, form=Form.ACKS)]


def test_a_topic_of_the_backup_is_no_control_topic(site: Site) -> None:
    with pytest.raises(BadOption):
        take(site, 7, Stamping(form=StampForm.ACKS, topics=("*",), control_topic="orders"))
    assert len(records(site, "orders", 0)) + len(records(site, "orders", 1)) == 2


def test_a_topic_that_no_stamp_tells_of_is_not_unchanged() -> None:
    """It may have been made from what is behind the checkpoint, before the first reading."""
    audit = PartitionId("audit", "id", 0)
    seen = EndsReading(before={}, ends={audit: 5}, after={})
    evidence = CutEvidence(readings=(seen, seen), changes=())
    assert list(_moved(evidence, Stamps())) == []
    assert list(_moved(evidence, Stamps(topics=frozenset({"orders"})))) == [audit]


def test_a_control_topic_with_partitions_has_no_order(site: Site) -> None:
    site.source.make_topic(CONTROL, partitions=2)
    with pytest.raises(ParticipantFailed, match="has 2 partitions"):
        open_with(site, Script())


def test_topics_that_are_not_backed_up_cannot_take_part(site: Site) -> None:
    site.source.make_topic("elsewhere")
    with pytest.raises(NoSuchTopic, match="no topic of the backup matches elsewhere"):
        take(site, 7, stamping(StampForm.MARKERS, "elsewhere"))
    report = Checkpoints(site.backup).report(7)
    assert report.status == "failed"
    assert CONTROL not in site.source.admin.topics(), "nothing was opened"
    with pytest.raises(NoSuchTopic, match=r"no topic of the backup matches order$"):
        take(site, 8, stamping(StampForm.MARKERS, "orders", "order", "mails*"))


def test_a_repository_makes_nobody_write_to_a_cluster(site: Site) -> None:
    """Whoever may write there may ask for what the process that takes it was not started with."""
    before = len(records(site, "orders", 0))
    request_checkpoint(site.backup, 7, stamping=stamping())
    assert server(site).serve()
    report = Checkpoints(site.backup).report(7)
    assert (report.status, report.failure_reason) == (
        "failed",
        "the process that was to take it has other options for participants",
    )
    assert len(records(site, "orders", 0)) == before


def test_an_id_that_was_asked_for_otherwise_is_not_answered_as_the_same(site: Site) -> None:
    request_checkpoint(site.backup, 7, stamping=stamping())
    assert not request_checkpoint(site.backup, 7, stamping=stamping()).is_new
    assert not request_checkpoint(site.backup, 7).is_new
    with pytest.raises(CheckpointIdUsed, match="was requested with other options for participants"):
        request_checkpoint(site.backup, 7, stamping=stamping(StampForm.ACKS))


def test_a_request_says_how_it_is_opened_and_an_offsite_that_cannot_fails_it(site: Site) -> None:
    request_checkpoint(site.backup, 7, stamping=stamping())
    checkpoints = CheckpointRecords.of(site.backup)
    asked = checkpoints.note(7, CheckpointEvent.REQUESTED)
    assert asked is not None
    assert (asked.stamping, asked.participants) == (stamping(), ())
    data = site.backup.store.get(site.backup.layout.checkpoint_key(7, CheckpointEvent.REQUESTED))
    assert data is not None
    assert b'"needs":["offsite:stamps"]' in data.replace(b" ", b"")


@pytest.mark.parametrize(
    ("form", "topic", "control_topic"),
    [("later", '"a"', "c"), ("acks", '"regex:("', "c"), ("acks", "", "c"), ("acks", '"a"', "../c")],
)
def test_a_request_that_a_stranger_wrote_is_damaged(form: str, topic: str, control_topic: str) -> None:
    stamps = f'{{"form":"{form}","topics":[{topic}],"control_topic":"{control_topic}"}}'
    told = f'{{"format":1,"id":7,"at_ms":1,"by":"b","writer":"w","reason":"","stamps":{stamps}}}'
    with pytest.raises(DamagedObject):
        decode_note(told.encode(), key="key")


def test_who_failed_to_open_it_says_nothing_of_what_another_process_has_taken(site: Site) -> None:
    request_checkpoint(site.backup, 7, stamping=stamping())
    other, late = Taker(backup=site.backup), Taker(backup=site.backup)
    assert other.take(7, site.plan_backup()) is not None
    late.abort(7, CheckpointIdUsed("opened before"))
    assert Checkpoints(site.backup).facts(7).failed is None


def test_one_whose_process_died_after_it_was_opened_does_not_fail_the_next_one(site: Site) -> None:
    request_checkpoint(site.backup, 7, stamping=stamping())
    say(site, OpenRecord(id=7, form=Form.MARKERS))
    assert take(site, 8, stamping()).status == "completed"
    assert Checkpoints(site.backup).report(7).status == "failed"


def test_nobody_takes_what_was_told_to_have_failed(site: Site) -> None:
    request_checkpoint(site.backup, 7, stamping=stamping())
    first, late = Taker(backup=site.backup), Taker(backup=site.backup)
    first.abort(7, CheckpointIdUsed("opened before"))
    assert late.take(7, site.plan_backup()) is None
