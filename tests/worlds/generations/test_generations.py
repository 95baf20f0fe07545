"""The thirteen steps over a cluster in memory: two instances take turns, and what is restored is the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from offsite.archives.formats import open_reader
from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.generations import comparison
from offsite.generations.archive_target import place_of
from offsite.generations.backup_target import BackupTarget
from offsite.generations.coordination import CoordinationTopic
from offsite.generations.decision import CompletedEffect, Rest
from offsite.generations.instance import RunningInstance, open_instance
from offsite.generations.message import TOPIC, CoordinationMessage, Event, decode_message, encode_message
from offsite.generations.removals import GenerationRemoval
from offsite.generations.request import GenerationsRequest
from offsite.generations.status import (
    backup_or_generation,
    line_of,
    refuse_release,
    release,
    report_sets,
    restores_elsewhere,
)
from offsite.generations.target import Workshop
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import (
    BackupNotFound,
    DamagedCommit,
    GenerationRefused,
    GenerationsDiffer,
    GenerationTakenOver,
    KafkaNotAuthorized,
    NotCompacted,
    StoreFull,
)
from offsite.model.selection import parse_selection
from offsite.overview.status import read_status
from offsite.repository import local_memory
from offsite.repository.commit import LIVE, CommitChanges, ExpiredRange
from offsite.repository.generation_sets.entry import GenerationEntry, GenerationEntryKind, Instance
from offsite.repository.generation_sets.generation_set import GenerationPhase, GenerationSet
from offsite.repository.generation_sets.ledger import set_ledger
from offsite.repository.heads import RememberedHead
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import remove_backup
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, put_outcome, put_record
from offsite.restore.options import RestoreWords, parse_restore
from offsite.restore.plan import prepare_restore
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_archive_files
from offsite.upkeep.retention.pins import pin_point, unpin_point
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site
from tests.inline_runner import InlineRunner

DESCRIBE_CONFIGS = 10
"""The code of the operation."""


class Hands(SystemClock):
    """A clock that is put forward by hand; the store's too."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@dataclass
class Pair:
    site: Site
    length_ms: int = 1
    topics: str = "customers"
    clock: Hands = field(default_factory=Hands)

    def instance(self, instance: Instance, **more: Any) -> RunningInstance:
        request = GenerationsRequest(
            instance=instance,
            is_first=more.pop("is_first", instance is Instance.A),
            length_ms=more.pop("length_ms", self.length_ms),
            interval_s=1,
            backup=BackupRequest(backup="pair", selection=parse_selection(more.pop("topics", self.topics).split(","))),
            **more,
        )
        workshop = Workshop(
            repository=self.site.repository,
            cluster=self.site.source.connected,
            runner=InlineRunner(),
            outages=Outages(give_up_after_s=60, clock=self.clock, on_outage=lambda _: None),
            clock=self.clock,
            collect_after_s=24 * 3600,
            on_round=lambda _: None,
            on_effect=lambda _: None,
        )
        return open_instance(request, workshop)

    @property
    def state(self) -> GenerationSet:
        return set_ledger(self.site.repository.store, "pair").read()

    def phases(self) -> list[str]:
        return [str(each.phase) for each in self.state.generations]

    def messages(self) -> list[tuple[str, str, bool]]:
        """Key, event and offset of each record of the coordination topic."""
        found = []
        for record in self.site.source.read(TOPIC):
            message = None if record.value is None else decode_message(record.key or b"", record.value)
            found.append(((record.key or b"").decode(), "" if message is None else f"{message.event}@{message.offset}"))
        return found

    def restored(self) -> list[bytes | None]:
        newest = self.state.restorable
        assert newest is not None
        backup = self.site.repository.backup(f"pair.gen-{newest.number}")
        planned = prepare_restore(backup, self.site.target.admin, parse_restore(RestoreWords(topics=["*"])))
        run_restore(planned, cluster=self.site.target.connected, runner=InlineRunner())
        return self.site.target.values("customers")


@pytest.fixture
def pair(site: Site) -> Pair:
    site.source.make_topic("customers", partitions=2, cleanup_policy="compact")
    site.source.write("customers", [b"1", b"2", b"3"])
    site.source.write("customers", [b"x"], partition=1)
    return Pair(site)


def until(pair: Pair, condition: Callable[[], bool], *instances: RunningInstance) -> None:
    for _ in range(20):
        if condition():
            return
        for each in instances:
            each.step()
    raise AssertionError(f"it never came to it: {pair.state}")


def test_a_whole_cycle(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B)
    a.step()
    assert pair.phases() == ["complete"]
    until(pair, lambda: bool(pair.state.asked_ms), a)
    a.step()
    assert pair.messages() == [("pair-passivate-0", "ACTIVATE@3"), ("pair-passivate-1", "ACTIVATE@1")]
    b.step()
    assert pair.phases() == ["retired", "complete"] or pair.phases() == ["sealed", "complete"]
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    assert ("pair-activate-0", "PASSIVATE@3") in pair.messages()
    assert pair.site.repository.backups() == ("pair.gen-2",)
    pair.site.source.write("customers", [b"4"])
    until(pair, lambda: pair.state.active == 3, a, b)
    assert pair.state.generations[2].instance is Instance.A
    assert pair.restored() == [b"1", b"2", b"3", b"4"]


def test_the_next_one_is_asked_for_when_the_length_has_passed_and_not_before(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of the store."""
    a = pair.instance(Instance.A, length_ms=60_000)
    for _ in range(3):
        a.step()
    assert (pair.phases(), pair.state.asked_ms) == (["complete"], 0)
    store = type(pair.site.repository.store)
    now_ms = store.now_ms
    monkeypatch.setattr(store, "now_ms", lambda self: now_ms(self) + 60_000)
    until(pair, lambda: bool(pair.state.asked_ms), a)


def test_messages_are_taken_back_when_they_are_answered(pair: Pair) -> None:
    a, b = pair.instance(Instance.A, length_ms=1), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    a.step()
    newest = dict(pair.messages())
    assert set(newest.values()) == {""}, newest


def test_nothing_is_left_of_a_removed_generation_but_that_it_was(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    store = pair.site.repository.store
    assert [info.key for info in store.list("backups/pair.gen-1/")] == ["backups/pair.gen-1/removed.json"]
    with pytest.raises(BackupNotFound):
        pair.site.repository.backup("pair.gen-1")


def test_nothing_of_a_generation_is_deleted_before_a_line_says_so(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    store, deleted = pair.site.repository.store, list[bool]()
    delete = type(store).delete

    def told(self: Any, key: str) -> None:
        if "pair.gen-1/" in key:
            deleted.append(bool(removals_of(pair)))
        delete(self, key)

    monkeypatch.setattr(type(store), "delete", told)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    assert deleted
    assert all(deleted)
    (line,) = removals_of(pair)
    assert (line.generation, line.why) == ("pair.gen-1", "the switch to generation 2 was committed")
    assert line.bytes > 0
    assert line.who.startswith("process ")


def test_a_generation_that_cannot_be_written_down_stays(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    store = pair.site.repository.store
    put = type(store).put_if_absent
    before = [info.key for info in store.list("backups/pair.gen-1/")]

    def full(self: Any, key: str, data: Any) -> Any:
        if "/audit/" in key:
            raise StoreFull("no space is left")
        return put(self, key, data)

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "put_if_absent", full)
        for _ in range(3):
            b.step()
            with suppress(StoreFull):
                a.step()
    assert pair.phases() == ["removing", "complete"]
    mark = "backups/pair.gen-1/removing.json"
    assert [info.key for info in store.list("backups/pair.gen-1/") if info.key != mark] == before
    until(pair, lambda: pair.phases() == ["removed", "complete"], a)


def test_what_came_back_goes_with_a_line_of_its_own(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.repository.removal.SETTLED_MS", -1000)
    a, b = pair.instance(Instance.A), pair.instance(Instance.B)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    pair.site.repository.store.put_if_absent(f"backups/pair.gen-1/commits/{77:020}.json", b"12345")
    until(pair, lambda: pair.phases()[2:] == ["removed", "complete"], a, b)
    told = [(each.generation, each.why, each.bytes) for each in removals_of(pair) if each.generation == "pair.gen-1"]
    assert told[1:] == [("pair.gen-1", "it came back after it was removed", 5)]


def removals_of(pair: Pair) -> tuple[GenerationRemoval, ...]:
    (found,) = report_sets(pair.site.repository)
    return found.removals


def test_an_instance_that_is_run_again_shuts_out_the_process_before(pair: Pair) -> None:
    old = pair.instance(Instance.A)
    old.step()
    new = pair.instance(Instance.A)
    new.step()
    with pytest.raises(GenerationTakenOver, match="by now"):
        old.step()
    new.step()


def test_a_process_that_was_shut_out_ends(pair: Pair) -> None:
    """It is no outage that passes: a process that tried again for a day would look as if it were at work."""
    old = pair.instance(Instance.A)
    old.step()
    pair.instance(Instance.A).step()
    outages = Outages(give_up_after_s=3600, clock=pair.clock, on_outage=lambda outage: pytest.fail(str(outage)))
    with pytest.raises(GenerationTakenOver):
        old.run(outages=outages, clock=pair.clock, interval_s=1)


def test_two_that_both_begin_as_the_active_one(pair: Pair) -> None:
    a, b = pair.instance(Instance.A, length_ms=10**9), pair.instance(Instance.B, length_ms=10**9, is_first=True)
    b.step()
    a.step()
    b.step()
    assert [each.instance for each in pair.state.generations] == [Instance.B]


def test_both_instances_need_the_same_topics(pair: Pair) -> None:
    pair.instance(Instance.A).step()
    with pytest.raises(GenerationsDiffer, match="topics customers"):
        pair.instance(Instance.B, topics="orders").step()


def test_a_strangers_message_changes_nothing(pair: Pair) -> None:
    a, b = pair.instance(Instance.A, length_ms=10**9), pair.instance(Instance.B)
    a.step()
    b.step()
    for event, to in ((Event.PASSIVATE, "pair-activate"), (Event.ACTIVATE, "pair-passivate")):
        for partition in range(2):
            message = CoordinationMessage(
                event=event,
                connector=to,
                topic="customers",
                partition=partition,
                offset=0,
                at_ms=pair.state.generations[0].complete_ms,
            )
            pair.site.source.write(TOPIC, [encode_message(message)], key=message.key)
    pair.site.source.write(TOPIC, [b"\xc3\x01 garbage"], key=b"pair-activate-0")
    for _ in range(3):
        a.step()
        b.step()
    assert pair.phases() == ["complete"]


def test_a_ledger_alone_removes_no_generation(pair: Pair) -> None:
    """Whoever may create objects reads the words of both instances in it, and writes on."""
    a = pair.instance(Instance.A, length_ms=10**9)
    a.step()
    store = pair.site.repository.store
    for kind, instance_, generation in (
        (GenerationEntryKind.JOINED, Instance.B, 0),
        (GenerationEntryKind.ASKED, Instance.A, 1),
        (GenerationEntryKind.BEGUN, Instance.B, 2),
        (GenerationEntryKind.SWITCHED, Instance.B, 2),
        (GenerationEntryKind.SEALED, Instance.B, 1),
        (GenerationEntryKind.REMOVING, Instance.A, 1),
    ):
        state = pair.state
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=kind,
            instance=instance_,
            word=state.holders.get(instance_, "stranger"),
            at_ms=store.now_ms(),
            generation=generation,
            partitions=1,
        )
        assert set_ledger(store, "pair").append(entry, to=state) is not None
    for _ in range(3):
        a.step()
    assert pair.phases() == ["removing", "complete"]
    assert pair.site.repository.backup("pair.gen-1").state().history


def test_a_topic_that_may_not_be_read_is_told_at_once(pair: Pair) -> None:
    pair.site.source.make_topic(TOPIC, cleanup_policy="compact")
    pair.site.source.failing[Api.LIST_OFFSETS, TopicPartition(topic=TOPIC, partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        pair.instance(Instance.A).step()


class Jumping(Hands):
    """A clock that lets a run go on for some rounds, and keeps for how long it waited."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.slept_s: list[float] = []
        self._rounds = rounds

    def sleep(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)
        if len(self.slept_s) == self._rounds:
            raise KeyboardInterrupt


def test_who_misses_the_active_one_again_and_again_changes_its_rhythm(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B)
    until(pair, lambda: bool(pair.state.asked_ms), a)
    a.step()
    right, clock = b._with.target.copy, Jumping(4)

    def copy(number: int, guard: Any) -> Any:
        copied = right(number, guard)
        pair.site.source.write("customers", [b"more"])
        a.step()
        return copied

    b._with.target.copy = copy  # type: ignore[method-assign]
    outages = Outages(give_up_after_s=60, clock=clock, on_outage=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        b.run(outages=outages, clock=clock, interval_s=1000)
    assert pair.phases() == ["complete", "filling"]
    assert min(clock.slept_s) < 900


def test_a_lost_message_is_sent_again(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: TOPIC in pair.site.source.topics and bool(pair.messages()), a)
    pair.site.source.remake_topic(TOPIC)
    assert pair.messages() == []
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def older_that_alone_holds_a_deleted_topic(pair: Pair) -> tuple[RunningInstance, RunningInstance]:
    """Both instances: the first generation is sealed, and holds a topic that the second does not."""
    a = pair.instance(Instance.A, topics="*")
    b = pair.instance(Instance.B, topics="*", length_ms=10**9)
    pair.site.source.make_topic("old", cleanup_policy="compact")
    pair.site.source.write("old", [b"1"])
    a.step()
    del pair.site.source.topics["old"]
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    return a, b


def test_a_generation_that_alone_holds_a_deleted_topic_stays(pair: Pair) -> None:
    a, b = older_that_alone_holds_a_deleted_topic(pair)
    for _ in range(4):
        a.step()
        b.step()
    assert pair.phases() == ["sealed", "complete"]
    assert pair.state.generations[0].phase is GenerationPhase.SEALED


def test_a_deleted_topic_goes_with_its_generation_when_somebody_agrees(pair: Pair) -> None:
    a, b = older_that_alone_holds_a_deleted_topic(pair)
    with pytest.raises(GenerationRefused, match="cannot be released"):
        release(pair.site.repository, "pair", 2, by="a person")
    release(pair.site.repository, "pair", 1, by="a person")
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    assert [each.why for each in removals_of(pair)] == ["released by a person"]


def test_a_forged_release_takes_no_generation_away(pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever may create objects writes the word of a person. The instance never saw a person give it."""
    a, b = older_that_alone_holds_a_deleted_topic(pair)
    release(pair.site.repository, "pair", 1, by="a stranger")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    for _ in range(4):
        a.step()
        b.step()
    assert pair.phases() == ["sealed", "complete"]
    (found,) = report_sets(pair.site.repository)
    assert found.generations[0].released_by == "a stranger"
    assert "in the name of a stranger, was not given on this machine: it counts here from" in found.generations[0].kept
    assert not read_status(pair.site.repository).safe
    refuse_release(pair.site.repository, "pair", 1)
    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)
    a.step()
    assert pair.phases() == ["sealed", "complete"]
    release(pair.site.repository, "pair", 1, by="a person")
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_what_a_forged_commit_let_go_of_a_generation_is_compared_all_the_same(pair: Pair) -> None:
    """Whoever may create objects lets all of the older generation go behind its seal: then nothing of it is lacking."""
    a, b = older_that_alone_holds_a_deleted_topic(pair)
    older = pair.site.repository.backup("pair.gen-1")
    base = older.state()
    expired = tuple(
        ExpiredRange(partition_id=known, start=0, end=listed.read()[-1].end, branch=LIVE)
        for known, listed in base.segments.items()
    )
    older.commit(CommitChanges(expired=expired), base=base, writer="forged")
    a._with.target.ends = lambda _: {}  # type: ignore[method-assign]  # but for the comparison of ends
    for _ in range(3):
        a.step()
        b.step()
    assert pair.phases() == ["sealed", "complete"]
    (found,) = report_sets(pair.site.repository)
    assert "deleted a part of the backup, and this machine does not accept the deletion" in found.generations[0].kept


def test_a_pin_that_a_stranger_took_off_a_generation_holds(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    older = pair.site.repository.backup("pair.gen-1")
    pin_point(older, older.state().seq, reason="legal hold")
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    base = older.state()
    older.commit(CommitChanges(unpinned=(base.pins[0].seq,)), base=base, writer="forged")
    for _ in range(3):
        effect = a.step()
        b.step()
    assert pair.phases() == ["sealed", "complete"]
    assert isinstance(effect, Rest)
    assert "one of its restore points was pinned; commit" in effect.why


@pytest.mark.parametrize("as_archives", [False, True])
def test_a_forged_removal_takes_no_generation_away(pair: Pair, tmp_path: Path, *, as_archives: bool) -> None:
    """Whoever may read the ledger knows the word of an instance, and writes in its name that its generation is gone:
    what came back into such a one would be swept."""
    place = str(tmp_path / "archives") if as_archives else ""
    a = pair.instance(Instance.A, topics="*", place=place)
    b = pair.instance(Instance.B, topics="*", place=place, length_ms=10**9)
    pair.site.source.make_topic("old", cleanup_policy="compact")
    pair.site.source.write("old", [b"1"])
    a.step()
    del pair.site.source.topics["old"]
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    ledger = set_ledger(pair.site.repository.store, "pair")
    for kind in (GenerationEntryKind.REMOVING, GenerationEntryKind.REMOVED):
        state = ledger.read()
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=kind,
            instance=Instance.A,
            word=state.holders[Instance.A],
            at_ms=ledger.store.now_ms(),
            generation=1,
        )
        assert ledger.append(entry, to=state) is not None
    a._sweep()
    assert a._with.target.is_there(1)
    assert a._with.target.ends(1)


def test_a_forged_release_makes_nobody_take_over(pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    empty(pair)
    until(pair, lambda: pair.phases() == ["complete", "filling"], a, b)
    release(pair.site.repository, "pair", 1, by="a stranger")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    for _ in range(4):
        a.step()
        b.step()
    assert pair.phases() == ["complete", "filling"]
    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_a_generation_that_is_restored_from_stays_until_that_has_ended(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    backup = pair.site.repository.backup("pair.gen-1")
    planned = prepare_restore(backup, pair.site.target.admin, parse_restore(RestoreWords(topics=["*"])))
    layout = RestoreLayout(backup=backup.layout, restore=planned.record.restore)
    put_record(backup.store, layout, planned.record)
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    a.step()
    a.step()
    assert pair.phases() == ["sealed", "complete"]
    chosen = backup_or_generation(pair.site.repository, "pair").descriptor.name
    assert (chosen, restores_elsewhere(pair.site.repository, "pair", chosen=chosen)) == ("pair.gen-2", ("pair.gen-1",))
    put_outcome(
        backup.store, layout, RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())
    )
    assert restores_elsewhere(pair.site.repository, "pair", chosen=chosen) == ()
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_a_generation_with_a_pinned_point_stays_until_the_pin_is_taken_off(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    backup = pair.site.repository.backup("pair.gen-1")
    pin_point(backup, 1, reason="month-end")
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    for _ in range(3):
        a.step()
        b.step()
    assert pair.phases() == ["sealed", "complete"]
    unpin_point(backup, 1)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_what_hinders_the_cycle_does_not_hinder_the_backup(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    a = pair.instance(Instance.A)
    until(pair, lambda: bool(pair.state.asked_ms), a)
    pair.site.source.write("customers", [b"4"])
    hindered = KafkaNotAuthorized(f"may not read {TOPIC}")
    monkeypatch.setattr(CoordinationTopic, "announcements", lambda *_: raised(hindered))
    with pytest.raises(KafkaNotAuthorized):
        a.step()
    assert pair.restored() == [b"1", b"2", b"3", b"4"]


def test_damage_in_the_old_generation_does_not_hinder_the_new_one(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: bool(pair.state.asked_ms), a)
    a.step()
    monkeypatch.setattr(BackupTarget, "seal", lambda *_: raised(DamagedCommit("of generation 1")))
    with pytest.raises(DamagedCommit):
        b.step()
    assert pair.phases() == ["retired", "complete"]
    pair.site.source.write("customers", [b"4"])
    with pytest.raises(DamagedCommit):
        b.step()
    assert pair.restored() == [b"1", b"2", b"3", b"4"]


def test_a_generation_that_another_process_removes_meanwhile_is_not_damaged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped wakes up beside its successor, and goes on with the removal."""
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    store, layout, compare = pair.site.repository.store, BackupLayout(backup="pair.gen-1"), BackupTarget.lost
    removed = []

    def lost(self: BackupTarget, old: int, new: int, topics: Any = None) -> tuple[str, ...]:
        if pair.phases() != ["removing", "complete"]:
            return compare(self, old, new, topics)
        removed.append(remove_backup(store, layout, is_read=lambda: False, announce=lambda _: None))
        return raised(DamagedCommit("listed but cannot be read"))

    monkeypatch.setattr(BackupTarget, "lost", lost)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    assert removed == [True]


def test_a_generation_that_another_process_lets_go_meanwhile_is_not_damaged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    store, compare = pair.site.repository.store, BackupTarget.lost

    def lost(self: BackupTarget, old: int, new: int, topics: Any = None) -> tuple[str, ...]:
        state = pair.state
        if topics is not None or state.generations[0].phase is not GenerationPhase.SEALED:
            return compare(self, old, new, topics)
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=GenerationEntryKind.REMOVING,
            instance=Instance.A,
            word=state.holders[Instance.A],
            at_ms=store.now_ms(),
            generation=1,
        )
        assert set_ledger(store, "pair").append(entry, to=state) is not None
        return raised(DamagedCommit("listed but cannot be read"))

    monkeypatch.setattr(BackupTarget, "lost", lost)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def raised(error: Exception) -> NoReturn:
    raise error


def test_what_others_have_put_in_the_place_of_a_generation_is_not_taken_over(pair: Pair) -> None:
    """It would be gone on with, and be removed one day."""
    own = pair.site.repository.create_backup(
        "pair.gen-2", cluster_id=pair.site.source.admin.cluster().cluster_id, selection=parse_selection(["customers"])
    )
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    with pytest.raises(GenerationRefused, match=r"pair\.gen-2"):
        until(pair, lambda: len(pair.phases()) == 2, a, b)
    assert pair.phases() == ["complete"]
    assert own.state().seq == 0


def test_a_folder_with_files_of_others_is_no_place_for_an_archive(pair: Pair, tmp_path: Path) -> None:
    place = tmp_path / "archives"
    (place / "pair.gen-1").mkdir(parents=True)
    (place / "pair.gen-1" / "notes.txt").write_text("mine")
    with pytest.raises(GenerationRefused, match=r"pair\.gen-1"):
        pair.instance(Instance.A, place=str(place)).step()


def test_the_status_names_the_generation_to_restore_from(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    (found,) = report_sets(pair.site.repository)
    assert (found.name, found.restore_from, found.removed) == ("pair", "pair.gen-2", 1)
    assert [(each.number, each.phase, each.is_active) for each in found.generations] == [(2, "complete", True)]
    assert backup_or_generation(pair.site.repository, "pair").descriptor.name == "pair.gen-2"
    with pytest.raises(BackupNotFound, match="no backup 'other'"):
        backup_or_generation(pair.site.repository, "other")
    with pytest.raises(BackupNotFound, match="no generations other"):
        report_sets(pair.site.repository, "other")


def test_no_alarm_about_a_generation_that_was_removed(pair: Pair) -> None:
    """Also on a machine that saw it, and did not remove it."""
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    seen = RememberedHead(repository=pair.site.repository, backup="pair.gen-1")
    head = seen.get()
    assert head is not None
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    seen.remember(head)
    status = read_status(pair.site.repository)
    assert [each.backup for each in status.backups] == ["pair.gen-2"]
    told = [(each.backup, each.by, each.why) for each in status.removed]
    assert told == [("pair.gen-1", "generations", "the switch to generation 2 was committed")]


def test_generations_as_avro_archives(pair: Pair, tmp_path: Path) -> None:
    place = str(tmp_path / "archives")
    a = pair.instance(Instance.A, place=place)
    b = pair.instance(Instance.B, place=place, length_ms=10**9)
    a.step()
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)
    (line,) = removals_of(pair)
    assert (line.generation, line.why) == ("pair.gen-1", "the switch to generation 2 was committed")
    assert line.bytes > 0
    pair.site.source.write("customers", [b"4"])
    b.step()
    (found,) = report_sets(pair.site.repository)
    assert found.restore_from == f"{place}/pair.gen-2"
    assert [each.name for each in Path(place).iterdir() if any(each.rglob("*.data"))] == ["pair.gen-2"]
    reader = open_reader("avro", open_archive_files(found.restore_from))
    records = [record for piece in reader.contents().pieces for some in reader.read(piece) for record in some]
    assert sorted(record.value or b"" for record in records) == [b"1", b"2", b"3", b"4", b"x"]


def test_a_place_of_archives_may_be_a_url() -> None:
    assert place_of("s3://bucket/a?region=x", "pair", 3) == "s3://bucket/a/pair.gen-3?region=x"
    assert place_of("/mnt/a/", "pair", 3) == "/mnt/a/pair.gen-3"


def empty(pair: Pair, topic: str = "customers") -> None:
    """Somebody deletes all records (`kafka-delete-records.sh`); log ends stay as they are."""
    for log in pair.site.source.topics[topic].partitions:
        log.delete_before(log.end)


@pytest.mark.parametrize("as_archives", [False, True])
def test_a_source_that_was_emptied_takes_no_generation_away(pair: Pair, tmp_path: Path, *, as_archives: bool) -> None:
    place = str(tmp_path / "archives") if as_archives else ""
    a, b = pair.instance(Instance.A, place=place), pair.instance(Instance.B, length_ms=10**9, place=place)
    a.step()
    empty(pair)
    for _ in range(6):
        a.step()
        b.step()
    assert pair.phases() == ["complete", "filling"]
    (found,) = report_sets(pair.site.repository)
    assert found.restore_from.endswith("pair.gen-1")
    kept = found.generations[0].kept
    lost = "up to offset 3" if as_archives else ": 1 key from offset 2 on that were not replaced or deleted"
    assert kept.replace("customers/0 ", "customers/0").startswith(f"generation 2 lacks customers/0{lost}")
    release(pair.site.repository, "pair", 1, by="a person")
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_the_instance_says_why_it_does_not_take_over(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B)
    a.step()
    empty(pair)
    until(pair, lambda: pair.phases() == ["complete", "filling"], a, b)
    line = line_of(CompletedEffect(effect=b.step(), state=pair.state))
    assert line is not None
    assert line.text.startswith("generation 2 is read, and does not take over: generation 2 lacks customers/0: 1 key")
    assert "its log starts at 3 now: somebody, or its retention, deleted records" in line.text
    problems = {each.backup: each.problems for each in read_status(pair.site.repository).backups}
    assert problems["pair.gen-1"] == ()
    assert problems["pair.gen-2"][0].startswith("generation 2 lacks customers/0")
    assert problems["pair.gen-2"][0].endswith("; generation 1 stays")
    release(pair.site.repository, "pair", 1, by="a person")
    assert read_status(pair.site.repository).safe, "nobody minds"


def test_a_source_that_was_emptied_after_the_switch_takes_no_generation_away(pair: Pair) -> None:
    """As retention of the new one, or a roll-up that lost something, would: it is compared again when the old one is to
    go, and not taken from the switch."""
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    target = a._with.target
    assert isinstance(target, BackupTarget)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(target, "lost", lambda *_: ("customers/0: 1 key",))
        for _ in range(4):
            b.step()
            effect = a.step()
    assert effect == Rest(why="generation 1 stays: generation 2 lacks customers/0: 1 key")
    assert pair.phases() == ["sealed", "complete"]


@pytest.mark.parametrize("away", [("commits",), ("backup.json", "commits"), ("backup.json", "commits", "packs")])
def test_a_generation_whose_commits_are_away_is_not_taken_for_empty(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Sequence[str]
) -> None:
    """A part of it is on another disk, or is being copied back."""
    monkeypatch.setattr(comparison, "COMPARED_AGAIN_AFTER", 2)
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    until(pair, lambda: pair.phases() == ["sealed", "complete"], a, b)
    place = Path(pair.site.repository.store.url) / "backups" / "pair.gen-1"
    for name in away:
        (place / name).rename(tmp_path / name)
    before = sorted(place.rglob("*.*"))
    for _ in range(4):
        b.step()
        a.step()
    assert (pair.phases(), sorted(place.rglob("*.*"))) == (["sealed", "complete"], before)
    (found,) = report_sets(pair.site.repository)
    assert found.generations[0].kept == (
        "generation 2 lacks data of pair.gen-1: all its commits are missing, so a part of the backup may be missing"
    )
    for name in away:
        (tmp_path / name).rename(place / name)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_what_was_replaced_or_deleted_may_be_missing(pair: Pair) -> None:
    write = pair.site.source.write
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"b", None)):
        write("customers", [value], key=key)
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    write("customers", [b"3"], key=b"k")
    write("customers", [b"3"], key=b"c")
    pair.site.source.topics["customers"].partitions[0].delete_before(6)  # as the cleaner would: k, c and a are replaced
    write("customers", [b"4"], key=b"a")
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_a_comparison_is_made_again_after_some_rounds(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads every key of both; and the producers of a source may write what is missing again."""
    monkeypatch.setattr(comparison, "COMPARED_AGAIN_AFTER", 5)
    a, b = pair.instance(Instance.A), pair.instance(Instance.B, length_ms=10**9)
    a.step()
    empty(pair)
    until(pair, lambda: pair.phases() == ["complete", "filling"], a, b)
    compared, lost = list[int](), b._with.target.lost
    monkeypatch.setattr(b._with.target, "lost", lambda *given: compared.append(1) or lost(*given))
    for _ in range(4):
        b.step()
    assert len(compared) <= 1
    for partition in (0, 1):
        pair.site.source.write("customers", [b"again"], partition=partition)
    until(pair, lambda: pair.phases() == ["removed", "complete"], a, b)


def test_topics_that_are_not_compacted_are_refused(pair: Pair) -> None:
    pair.site.source.make_topic("orders")
    with pytest.raises(NotCompacted, match="orders is not compacted"):
        pair.instance(Instance.A, topics="orders,customers").step()
    assert pair.state.generations == ()


def test_a_topic_that_is_no_longer_compacted_begins_no_other_generation(pair: Pair) -> None:
    a, b = pair.instance(Instance.A), pair.instance(Instance.B)
    until(pair, lambda: bool(pair.state.asked_ms), a)
    pair.site.source.topics["customers"].configs["cleanup.policy"] = "delete"
    a.step()
    with pytest.raises(NotCompacted):
        b.step()
    pair.site.source.write("customers", [b"4"])
    a.step()
    assert pair.phases() == ["complete"]
    assert pair.restored() == [b"1", b"2", b"3", b"4"]


def test_settings_that_may_not_be_read_are_not_known_to_be_compaction(pair: Pair) -> None:
    pair.site.source.forbidden["customers"] = {DESCRIBE_CONFIGS}
    with pytest.raises(NotCompacted, match="are not readable"):
        pair.instance(Instance.A).step()
