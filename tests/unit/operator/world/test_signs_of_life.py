"""What shows that a declared backup goes on, and what does not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsite.model.clock import MOST_APART_MS
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.decide.observed import ObservedAgents, ObservedLowLevel
from offsite.operator.world.observe import BackupFacts, Observer, observe_backup
from offsite.repository.declared.notes import AgentReport, put_agent_report
from tests.memory_store import MemoryStore
from tests.unit.operator.work.declared import UID, Declared
from tests.worlds.operator.world import identity

HOUR_MS = 3_600_000
PLACE = RepositoryPlace(account="", repository="one")


@dataclass
class Course:
    """A backup that was begun a day ago, which an agent took in hand then, by term 1."""

    store: MemoryStore = field(default_factory=MemoryStore)
    facts: BackupFacts = field(default_factory=BackupFacts)

    def __post_init__(self) -> None:
        self.declared = Declared(self.store)  # type: ignore[arg-type]
        self.declared.start()
        self.terms = self.declared.layout.agent(self.store)  # type: ignore[arg-type]
        self.take("one")
        self.store.clock.pass_ms(24 * HOUR_MS)
        self.now_ms = self.store.now_ms()

    def take(self, name: str) -> None:
        self.terms.claim(identity(name), name, take_over=True)

    def say(self, term: int, well_ms: int, why: str = "") -> None:
        word = AgentReport(number=1, term=term, well_ms=well_ms, why=why)
        put_agent_report(self.store, self.declared.layout, word)  # type: ignore[arg-type]

    def read(self, _place: object, _store: object, _backup: str) -> BackupFacts:
        return self.facts

    def observe(self, _uid: str) -> ObservedAgents:
        return ObservedAgents()

    def configure(self, _uid: str, _agents: object) -> None:
        raise AssertionError

    @property
    def live(self) -> ObservedLowLevel:
        eyes = Observer(open_store=lambda _: self.store, facts=self, agents=self, identity=identity("x"))  # type: ignore[arg-type, return-value]
        found = observe_backup(eyes, UID, [PLACE]).live
        assert found is not None
        return found

    @property
    def quiet_h(self) -> int:
        return round(self.live.quiet_ms / HOUR_MS)


@pytest.fixture
def course() -> Course:
    return Course()


def test_the_word_of_the_agent_shows_that_it_goes_on(course: Course) -> None:
    assert course.quiet_h == 24
    course.say(1, course.now_ms)
    assert (course.quiet_h, course.live.ahead) == (0, "")


@pytest.mark.parametrize("why", ["", "OFF-1501: no broker answers"])
def test_a_word_that_is_dated_in_the_future_shows_nothing_and_is_told(course: Course, why: str) -> None:
    course.say(1, course.now_ms + MOST_APART_MS + HOUR_MS, why)
    assert course.quiet_h == 24
    assert "the report of its agent is dated" in course.live.ahead


@pytest.mark.parametrize("facts", ["latest_ms", "partial_ms"])
def test_a_commit_that_is_dated_in_the_future_shows_nothing_and_is_told(course: Course, facts: str) -> None:
    course.facts = BackupFacts(**{facts: course.now_ms + 365 * 24 * HOUR_MS})
    assert course.quiet_h == 24
    assert "its newest commit is dated" in course.live.ahead


def test_a_resume_that_is_dated_in_the_future_shows_nothing_and_is_told(course: Course) -> None:
    course.store.clock.pass_ms(-(48 * HOUR_MS))
    course.say(1, course.store.now_ms() - HOUR_MS)
    assert course.quiet_h == 1
    assert "its last start or resume is dated" in course.live.ahead


def test_a_clock_that_is_a_little_ahead_is_believed(course: Course) -> None:
    course.say(1, course.now_ms + MOST_APART_MS // 2)
    assert (course.quiet_h, course.live.ahead) == (0, "")


def test_only_the_agent_that_took_it_in_hand_last_can_say_that_it_goes_on(course: Course) -> None:
    course.store.clock.pass_ms(-(6 * HOUR_MS))
    course.take("two")
    course.store.clock.pass_ms(6 * HOUR_MS)
    course.say(1, course.now_ms, "an outage of before")
    assert (course.quiet_h, course.live.outage) == (6, "")
    course.say(3, course.now_ms)
    assert course.quiet_h == 24
    course.say(2, course.now_ms)
    assert course.quiet_h == 0


def test_a_commit_of_a_pass_that_has_not_ended_shows_that_it_goes_on(course: Course) -> None:
    course.facts = BackupFacts(is_whole=True, latest_ms=course.now_ms - 6 * HOUR_MS, partial_ms=course.now_ms)
    assert course.quiet_h == 0


def test_what_is_left_behind_and_what_is_missing_is_seen(course: Course) -> None:
    course.facts = BackupFacts(left_behind="orders-1 (OFF-1203)")
    word = AgentReport(number=1, term=1, well_ms=course.now_ms, missing="bills")
    put_agent_report(course.store, course.declared.layout, word)  # type: ignore[arg-type]
    assert (course.live.left_behind, course.live.missing) == ("orders-1 (OFF-1203)", "bills")
