"""An agent copies what is its own to copy, while it is told to, and not a round longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from offsite.backup.outages import Outages
from offsite.model.clock import MOST_APART_MS
from offsite.model.errors import KafkaUnreachable, OffsiteError, OtherCluster, StoreUnreachable
from offsite.operator.work.agent import Agent, AgentContext, Guard, Heartbeat
from offsite.repository.declared.entry import BackupSettings, DeclaredEntryKind
from offsite.repository.declared.history import LowLevelBackup
from offsite.repository.declared.notes import WHY_MAX, AgentReport, get_agent_report, put_agent_report
from offsite.repository.lease import TTL_S, Lease
from tests.memory_store import MemoryStore
from tests.unit.operator.work.declared import UID, Declared
from tests.virtual_time import VirtualClock
from tests.worlds.operator.world import identity


class Over(BaseException):
    """The test has seen enough."""


@dataclass
class FakeFollower:
    """Calls `during[n]` in its round n, before it asks the guard."""

    guard: Guard
    world: World

    def work(self) -> None:
        number = len(self.world.rounds)
        if (act := self.world.during.pop(number, None)) is not None:
            act()
        self.guard()
        self.world.rounds.append(number)

    def forget(self) -> None:
        self.world.forgotten += 1


@dataclass
class World:
    store: MemoryStore = field(default_factory=lambda: MemoryStore(VirtualClock()))
    rounds: list[int] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    during: dict[int, Callable[[], None]] = field(default_factory=dict)
    forgotten: int = 0
    checked: list[int] = field(default_factory=list)
    source_error: OffsiteError | None = None

    def __post_init__(self) -> None:
        self.clock = self.store.clock
        self.declared = Declared(self.store)  # type: ignore[arg-type]

    @contextmanager
    def open_follower(self, low: LowLevelBackup, guard: Guard, voice: Heartbeat) -> Iterator[FakeFollower]:
        self.opened.append(low.beginning.backup)
        self.voice = voice
        yield FakeFollower(guard, self)

    def check_source(self, low: LowLevelBackup) -> None:
        self.checked.append(low.number)
        if self.source_error is not None:
            raise self.source_error

    def agent(self, name: str = "one") -> Agent:
        return Agent(
            AgentContext(
                store=self.store,  # type: ignore[arg-type]
                uid=UID,
                open_follower=self.open_follower,  # type: ignore[arg-type]
                interval_of=lambda _: 10.0,
                check_source=self.check_source,
                outages=Outages(give_up_after_s=60, clock=self.clock, on_outage=lambda _: None),
                clock=self.clock,
                identity=identity(name),
            )
        )

    @property
    def word(self) -> AgentReport | None:
        return get_agent_report(self.store, self.declared.layout)  # type: ignore[arg-type]

    @property
    def terms(self) -> Lease:
        return self.declared.layout.agent(self.store)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_copied_before_it_is_decided(world: World) -> None:
    world.agent().step()
    assert world.opened == []
    world.declared.start()
    world.declared.decide(DeclaredEntryKind.PAUSED)
    world.agent().step()
    assert world.opened == []


@pytest.mark.parametrize("kind", [DeclaredEntryKind.STOPPED, DeclaredEntryKind.PAUSED])
def test_a_round_that_is_told_to_stop_commits_nothing_more(world: World, kind: DeclaredEntryKind) -> None:
    world.declared.start()
    world.during[2] = lambda: world.declared.decide(kind)
    world.agent().step()
    assert (world.rounds, world.opened) == ([0, 1], ["b"])
    assert world.terms.holder(asking=identity("other")) is None, "the next one need not wait"


def test_a_stop_between_two_rounds_is_heard_within_a_second(world: World) -> None:
    world.declared.start()
    began_ms = world.store.now_ms()
    world.during[0] = lambda: None
    seen: list[float] = []

    def stop_in_the_pause(duration_s: float) -> None:
        world.store.clock.pass_ms(int(duration_s * 1000))
        seen.append(duration_s)
        if len(seen) == 3:
            world.declared.decide(DeclaredEntryKind.STOPPED)

    world.clock.sleep = stop_in_the_pause  # type: ignore[method-assign]
    world.agent().step()
    assert (world.rounds, max(seen)) == ([0], 1.0)
    assert world.store.now_ms() - began_ms < 5_000


def test_other_settings_begin_the_work_anew(world: World) -> None:
    world.declared.start()
    world.during[1] = lambda: world.declared.decide(
        DeclaredEntryKind.MODIFIED, settings=BackupSettings(snapshot_duration="1d")
    )
    world.during[2] = lambda: world.declared.decide(DeclaredEntryKind.STOPPED)
    agent = world.agent()
    agent.step()
    agent.step()
    assert world.opened == ["b", "b"]


def test_an_agent_stands_by_until_the_other_one_is_silent(world: World) -> None:
    world.declared.start()
    other = world.terms.claim(identity("two"), "word", take_over=False)
    agent = world.agent()
    agent.step()
    assert world.opened == []
    world.store.clock.pass_ms(int(TTL_S * 1000) + 1)
    world.during[0] = lambda: world.declared.decide(DeclaredEntryKind.STOPPED)
    agent.step()
    assert world.opened == ["b"]
    with pytest.raises(Exception, match="taken over"):
        world.terms.check(other)


def test_what_does_not_answer_is_waited_out(world: World) -> None:
    world.declared.start()

    def fail() -> None:
        raise StoreUnreachable("away")

    world.during[1] = fail
    world.during[2] = lambda: world.declared.decide(DeclaredEntryKind.STOPPED)
    world.agent().step()
    assert (world.rounds, world.forgotten) == ([0, 1], 1)


def test_an_agent_says_when_it_went_well_last_and_what_it_waits_out(world: World) -> None:
    world.declared.start()
    said: list[AgentReport | None] = []

    def fail() -> None:
        raise KafkaUnreachable("no broker answers")

    def hear() -> None:
        said.append(world.word)

    world.during |= {1: fail}
    agent = world.agent()
    began_ms = world.store.now_ms()
    agent._parts.outages.on_worked = agent._heartbeat.report_success
    sleep = world.clock.sleep

    def sleep_and_hear(duration_s: float) -> None:
        sleep(duration_s)
        hear()
        if len(world.rounds) == 2:
            world.declared.decide(DeclaredEntryKind.STOPPED)

    world.clock.sleep = sleep_and_hear  # type: ignore[method-assign]
    agent.step()
    assert said[0] == AgentReport(number=1, term=1, well_ms=began_ms)
    assert AgentReport(number=1, term=1, well_ms=began_ms, why="OFF-1501: no broker answers") in said
    assert said[-1] is not None
    assert (said[-1].why, said[-1].well_ms > began_ms) == ("", True)


def test_an_agent_that_stands_by_says_nothing(world: World) -> None:
    world.declared.start()
    world.terms.claim(identity("two"), "word", take_over=False)
    agent = world.agent()
    agent._parts.outages.on_worked = agent._heartbeat.report_success
    agent.step()
    agent._parts.outages.worked()
    assert world.word is None


def test_an_agent_that_fails_at_first_says_when_it_went_well_last_under_the_one_before(world: World) -> None:
    world.declared.start()
    before_ms, now_ms = world.store.now_ms(), world.store.now_ms() + 3_600_000
    voices = [Heartbeat(world.store, world.declared.layout, world.clock) for _ in range(2)]  # type: ignore[arg-type]
    voices[0].take(1, 1)
    voices[0].report_success()
    world.store.clock.set_ms(now_ms)
    voices[1].take(1, 2)
    voices[1].report_failure(KafkaUnreachable("the leader moves"))
    assert world.word == AgentReport(number=1, term=2, well_ms=before_ms, why="OFF-1501: the leader moves")
    voices[1].report_success()
    assert world.word == AgentReport(number=1, term=2, well_ms=now_ms)


def test_an_agent_that_fails_says_no_time_that_is_in_the_future(world: World) -> None:
    voice = Heartbeat(world.store, world.declared.layout, world.clock)  # type: ignore[arg-type]
    word = AgentReport(number=1, term=1, well_ms=world.store.now_ms() + MOST_APART_MS + 1)
    put_agent_report(world.store, world.declared.layout, word)  # type: ignore[arg-type]
    voice.take(1, 2)
    voice.report_failure(KafkaUnreachable("down for days"))
    assert world.word == AgentReport(number=1, term=2, why="OFF-1501: down for days")


def test_what_follows_a_round_is_said_to_get_on_and_a_round_is_not(world: World) -> None:
    world.declared.start()
    said: list[int] = []

    def work_long() -> None:
        for ends in (False, True):
            if ends:
                world.voice.end_round(["bills"])
            for _ in range(3):
                world.clock.sleep(40.0)
                world.voice.report_progress()
                said.append(world.word.well_ms if world.word else 0)

    world.during |= {0: work_long, 1: lambda: world.declared.decide(DeclaredEntryKind.STOPPED)}
    began_ms = world.store.now_ms()
    world.agent().step()
    ended_ms = began_ms + 120_000
    assert said == [0, 0, 0, ended_ms, ended_ms + 80_000, ended_ms + 80_000]
    assert world.word is not None
    assert world.word.missing == "bills"


def test_a_topic_that_is_missing_or_no_longer_is_said_at_once(world: World) -> None:
    voice = Heartbeat(world.store, world.declared.layout, world.clock)  # type: ignore[arg-type]
    voice.take(1, 1)
    found: list[str] = []
    for missing in ([], [f"t{n}" for n in range(9)], ["t" * 249] * 5, []):
        voice.end_round(missing)
        found.append(world.word.missing if world.word else "")
    assert found[:2] == ["", "t0, t1, t2, t3, t4 and 4 more"]
    assert (len(found[2]), found[3]) == (WHY_MAX, "")


def test_who_stands_by_for_a_backup_of_another_cluster_ends_and_says_so(world: World) -> None:
    """The name of the source leads to another Kafka there: it could never take the place of the one that copies."""
    world.declared.start()
    world.terms.claim(identity("other"), "word", take_over=False)
    world.source_error = OtherCluster("backup b belongs to cluster one, this is two")
    with pytest.raises(OtherCluster):
        world.agent().run()


def test_who_stands_by_asks_once_whether_it_could_go_on_and_again_where_nobody_answers(world: World) -> None:
    world.declared.start()
    world.terms.claim(identity("other"), "word", take_over=False)
    agent = world.agent()
    world.source_error = KafkaUnreachable("no broker")
    agent.step()
    world.source_error = None
    agent.step()
    agent.step()
    assert world.checked == [1, 1]
    assert world.opened == []
