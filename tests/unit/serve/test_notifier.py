"""`offsite serve --notify`: changes of the verdict, and what a source lost, are told once each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from offsite.notify.event import Event, EventKind
from offsite.notify.outbox import AGAIN_AFTER_S, WAITING_MAX, Outbox
from offsite.notify.teller import Delivery, Limit
from offsite.overview.comparison import SourceComparison, TopicComparison, TopicState
from offsite.overview.several import RepositoryReading
from offsite.overview.status import BackupStatus, Status
from offsite.overview.verdict_changes import UNREAD_TOLD_AFTER_S, VerdictChange, VerdictChanges
from offsite.serve.notifier import Notifier
from offsite.serve.repository_watch import RepositoryWatch
from offsite.serve.site import Site, SiteSettings
from tests.virtual_time import VirtualClock

LOOKED = 1_700_000_000_000
ORDERS = TopicComparison(
    topic="orders", state=TopicState.GONE, alarm=True, detail="deleted", restore={"topics": "orders"}
)
PAYMENTS = TopicComparison(topic="payments", state=TopicState.SHRUNK, alarm=True)


def backup(
    name: str = "nightly", *, lost: tuple[TopicComparison, ...] = (), problem: str = "", silent: str = ""
) -> BackupStatus:
    """`problem`: why it is not safe. `silent`: why nothing newer is known of its source."""
    problems = (problem,) if problem else ()
    source = replace(SourceComparison.of(lost, LOOKED), problem=silent)
    return BackupStatus(
        backup=name,
        safe=not problem,
        problems=problems,
        restorable_from_ms=1,
        restorable_to_ms=2,
        age_s=3,
        damaged=problem == "damage",
        source=source,
    )


@dataclass
class Course:
    """What is told of one repository by one process after another."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    changes_told: list[VerdictChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.changes = VerdictChanges(self.changes_told.append, clock=self.clock, subject="file repository")

    def reads(self, *backups: BackupStatus, problem: str = "") -> list[tuple[EventKind, str]]:
        """Take a reading, and return what is told of it."""
        status = Status(repository="r", safe=True, backups=backups) if backups else None
        before = len(self.changes_told)
        self.changes.take(RepositoryReading(name="shop", place="r", status=status, problem=problem))
        return [(change.kind, change.message) for change in self.changes_told[before:]]


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Course()


def test_a_backup_that_is_safe_from_the_start_is_not_told(course: Course) -> None:
    assert course.reads(backup()) == course.reads(backup()) == []


def test_a_verdict_is_told_when_it_turns_and_when_it_turns_back(course: Course) -> None:
    course.reads(backup())
    assert course.reads(backup(problem="stale")) == [(EventKind.NOT_SAFE, "needs attention: stale")]
    assert course.reads(backup(problem="stale for longer")) == []
    assert course.reads(backup(problem="damage")) == [(EventKind.NOT_SAFE, "damaged: damage")]
    assert course.reads(backup()) == [(EventKind.SAFE_AGAIN, "safe, never proven")]
    assert course.reads(backup()) == []


def test_each_backup_is_told_for_itself(course: Course) -> None:
    course.reads(backup("a", problem="stale"), backup("b"))
    assert course.reads(backup("a", problem="stale"), backup("b", problem="stale")) == [
        (EventKind.NOT_SAFE, "needs attention: stale")
    ]
    assert [change.backup for change in course.changes_told] == ["a", "b"]


def test_a_loss_is_told_once_and_another_one_too(course: Course) -> None:
    said = "lost at the source: orders (gone); the backup keeps what it had copied"
    assert course.reads(backup(lost=(ORDERS,))) == [(EventKind.SOURCE_LOSS, said)]
    assert course.changes_told[0].hint == "offsite restore plan --backup=nightly --repo=r --topics=orders"
    assert course.changes_told[0].details == ("orders: deleted",)
    assert course.reads(backup(lost=(ORDERS,))) == []
    said = "lost at the source: payments (shrunk); the backup keeps what it had copied"
    assert course.reads(backup(lost=(ORDERS, PAYMENTS))) == [(EventKind.SOURCE_LOSS, said)]


def test_a_loss_that_comes_back_is_told_again_and_a_source_that_is_silent_brings_none_back(course: Course) -> None:
    course.reads(backup(lost=(ORDERS,)))
    assert course.reads(backup(silent="no broker answers")) == []
    assert course.reads(backup(lost=(ORDERS,))) == []
    assert course.reads(backup()) == []
    assert len(course.reads(backup(lost=(ORDERS,)))) == 1


def test_what_was_told_is_told_by_no_later_process(course: Course) -> None:
    course.reads(backup(problem="stale", lost=(ORDERS,)))
    course.restart()
    assert course.reads(backup(problem="stale", silent="the first look has not ended yet")) == []
    assert course.reads(backup(problem="stale", lost=(ORDERS,))) == []
    course.restart()
    assert course.reads(backup(lost=(ORDERS,))) == [(EventKind.SAFE_AGAIN, "safe, never proven")]


def test_a_repository_that_is_not_read_is_told_after_a_minute_and_changes_no_verdict(course: Course) -> None:
    course.reads(backup(problem="stale"))
    assert course.reads(backup(), problem="OFF-1601: no answer") == []
    course.clock.sleep(UNREAD_TOLD_AFTER_S)
    said = "not read for 1 min 00 s: OFF-1601: no answer"
    assert course.reads(backup(), problem="OFF-1601: no answer") == [(EventKind.UNREAD, said)]
    course.clock.sleep(3600)
    assert course.reads(problem="OFF-1601: no answer") == []
    assert course.reads(backup()) == [
        (EventKind.READ_AGAIN, "the repository can be read again"),
        (EventKind.SAFE_AGAIN, "safe, never proven"),
    ]


def test_an_outage_of_less_than_a_minute_is_not_told(course: Course) -> None:
    for _ in range(3):
        course.clock.sleep(UNREAD_TOLD_AFTER_S - 1)
        assert course.reads(problem="OFF-1601: no answer") == []
        assert course.reads(backup()) == []


@dataclass
class FakeReceiver:
    """Keeps what it gets; fails while `problem` is set."""

    problem: str = ""
    events: list[Event] = field(default_factory=list)
    timeout_s: float = 30.0

    def wants(self, event: Event) -> bool:
        return bool(event.kind)

    def deliver(self, event: Event, limit: Limit) -> list[Delivery]:
        assert limit.left_s() > 0
        if not self.problem:
            self.events.append(event)
        return [Delivery(to="nobody", event=event.kind, took_s=0.0, problem=self.problem)]

    @property
    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]


def event(kind: EventKind, message: str = "") -> Event:
    return Event(kind=kind, command="serve", run="r", at_ms=0, began_ms=0, message=message)


def test_what_did_not_arrive_is_sent_again_to_whom_it_did_not_reach() -> None:
    clock, away, there = VirtualClock(), FakeReceiver(problem="nobody answers"), FakeReceiver()
    outbox = Outbox([away, there], clock=clock)
    outbox.put(event(EventKind.SOURCE_LOSS))
    outbox.put(event(EventKind.NOT_SAFE))
    outbox.send()
    away.problem = ""
    outbox.send()
    assert away.kinds == []
    clock.sleep(AGAIN_AFTER_S)
    outbox.send()
    assert away.kinds == there.kinds == [EventKind.SOURCE_LOSS, EventKind.NOT_SAFE]


def test_a_round_is_not_sent_again_and_no_more_than_a_hundred_events_wait() -> None:
    clock, receiver = VirtualClock(), FakeReceiver(problem="nobody answers")
    outbox = Outbox([receiver], clock=clock)
    outbox.put(event(EventKind.ROUND))
    outbox.send()
    for number in range(WAITING_MAX + 1):
        outbox.put(event(EventKind.SOURCE_LOSS, str(number)))
    receiver.problem = ""
    outbox.send()
    assert [sent.message for sent in receiver.events] == [str(number) for number in range(1, WAITING_MAX + 1)]


def test_a_coordinator_tells_with_the_name_of_the_repository_and_pings_while_all_is_safe(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, receiver, watches = course.clock, FakeReceiver(), []
    statuses = {name: backup() for name in ("shop", "bank")}
    for name in statuses:
        watch = RepositoryWatch(Site(SiteSettings(repo=f"/{name}", name=name)), clock)
        monkeypatch.setattr(watch, "_read", _reads(statuses, name))
        watches.append(watch)
    notifier = Notifier(watches, [receiver], clock=clock, subject="file")

    def passes() -> list[tuple[EventKind, str, str]]:
        receiver.events.clear()
        for watch in watches:
            watch.look()
        notifier.look()
        return [(sent.kind, sent.repository, sent.backup) for sent in receiver.events]

    assert passes() == [(EventKind.ROUND, "", "")]
    statuses["bank"] = backup(problem="stale")
    clock.sleep(60)
    assert passes() == [(EventKind.NOT_SAFE, "bank", "nightly")]
    assert receiver.events[0].title == "offsite: serve of bank/nightly: not safe"
    clock.sleep(60)
    assert passes() == []
    statuses["bank"] = backup()
    assert passes() == [(EventKind.SAFE_AGAIN, "bank", "nightly"), (EventKind.ROUND, "", "")]
    assert passes() == []


def _reads(statuses: dict[str, BackupStatus], name: str) -> Callable[[], tuple[Status, str]]:
    return lambda: (Status(repository=name, safe=statuses[name].safe, backups=(statuses[name],)), "")
