"""Ages over clocks that jump, sources that are silent, and records that others dated."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import PartitionId
from offsite.model.errors import BelowFloor, ClockStep, CommitLost
from offsite.repository.segments.segment import Segment
from offsite.upkeep.retention import plan as planning
from offsite.upkeep.retention.apply import RetentionResult, apply_retention, plan_retention
from offsite.upkeep.retention.kept_points import SILENT
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy
from tests.examples import examples
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Log, Retained

YEAR_MS = 365 * DAY_MS
COURSES = 30
SEEN_WITHIN = 5


class Drifting(Retained):
    """A backup in a folder: the store's clock is the machine's, and may be wrong. `true_ms`: the time. Producers have
    clocks that are right; `is_idle`: they write nothing; `event_ms`: they date records by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.true_ms = self.store.clock.now_ms()
        self.ahead_ms = 0
        self.event_ms: int | None = None
        self.made_at: dict[int, int] = {}
        self.complete: set[int] = set()
        self.make("a")

    def passes(self, by_ms: int) -> None:
        self.true_ms += by_ms
        self.store.clock.set_ms(self.true_ms + self.ahead_ms)

    def jumps(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms
        self.passes(0)

    def backs_up(self, *, idle: bool = False, incomplete: bool = False) -> int:
        if not idle:
            self.write("a")
        seq = self.commit(incomplete=incomplete).seq
        self.made_at[seq] = self.true_ms
        if not incomplete:
            self.complete.add(seq)
        self.passes(0)
        return seq

    def retains(self, policy: RetentionPolicy, *, force: bool = False) -> RetentionResult:
        plan = plan_retention(self.backup, policy, clock=self.clock)
        done = apply_retention(self.backup, plan, clock=self.clock, force=force)
        if done.commit is not None:
            self.note(done.state)
        self.passes(0)
        return done

    @property
    def points(self) -> list[int]:
        return [line.seq for line in self.backup.state().history]

    def _segment(self, known: PartitionId, log: Log) -> Segment:
        made = super()._segment(known, log)
        return replace(made, timestamp_max_ms=self.true_ms if self.event_ms is None else self.event_ms)


@pytest.fixture
def made() -> Drifting:
    """Five nightly backups."""
    made = Drifting()
    for _ in range(5):
        made.passes(DAY_MS)
        made.backs_up()
    return made


MONTH = parse_policy(keep_age="30d", floor="7d")


def test_a_clock_that_is_a_year_ahead_makes_no_point_older(made: Drifting) -> None:
    made.jumps(YEAR_MS)
    assert made.retains(parse_policy(keep_age="30d")).commit is None
    assert made.retains(MONTH).commit is None
    assert made.points == [1, 2, 3, 4, 5]


def test_a_commit_of_a_clock_that_was_a_year_ahead_makes_no_point_older(made: Drifting) -> None:
    made.jumps(YEAR_MS)
    made.passes(DAY_MS)
    made.backs_up()
    with pytest.raises(ClockStep, match="between commits 5 and 6 the clock advanced by 366 d") as refused:
        made.retains(parse_policy(keep_age="30d"))
    assert "--force" in (refused.value.hint or "")
    made.jumps(0)
    assert made.retains(MONTH).commit is None, "the clock is right again"
    assert made.points == [1, 2, 3, 4, 5, 6]


def test_who_knows_that_the_time_has_passed_says_so(made: Drifting) -> None:
    made.passes(YEAR_MS)
    made.event_ms = made.true_ms - YEAR_MS  # what was written for long ago speaks for no time
    made.backs_up()
    policy = parse_policy(keep_age="30d")
    with pytest.raises(ClockStep):
        made.retains(policy)
    assert made.retains(policy, force=True).plan.points == 5
    assert made.points == [6, 7]


def test_records_speak_for_the_time_that_a_backup_rested(made: Drifting) -> None:
    made.passes(YEAR_MS)
    made.backs_up()
    assert made.retains(parse_policy(keep_age="30d")).plan.points == 5


def test_records_that_are_dated_by_themselves_are_no_step(made: Drifting) -> None:
    """Each night some of years ago, or of years to come: the rhythm of the backup speaks for its times."""
    for event_ms in (made.true_ms - 3 * YEAR_MS, made.true_ms + 3 * YEAR_MS):
        made.event_ms = event_ms
        for _ in range(6):
            made.passes(DAY_MS)
            made.backs_up()
    assert made.retains(parse_policy(keep_age="10d")).plan.points > 0


def test_a_point_whose_records_are_later_than_its_own_time_may_be_younger(made: Drifting) -> None:
    """The clock stood still for a month, by being behind: times of commits never go back."""
    made.jumps(-40 * DAY_MS)
    for _ in range(30):
        made.passes(DAY_MS)
        made.backs_up()
    made.jumps(0)
    made.passes(DAY_MS)
    made.backs_up()
    with pytest.raises(ClockStep, match="the clock may have been behind"):
        made.retains(parse_policy(keep_age="20d"))


def test_nothing_goes_while_the_source_is_silent_for_longer_than_the_floor(made: Drifting) -> None:
    policy = parse_policy(keep_age="2d", floor="1d")
    assert planned_points(made, policy) > 0
    made.passes(9 * DAY_MS)
    plan = plan_retention(made.backup, policy, clock=made.clock)
    assert plan.is_empty
    assert {each.rule for each in plan.kept_points} > {SILENT}
    assert plan.notes[0].startswith("nothing is deleted: the newest complete restore point, commit 5, is 9 d")
    for _ in range(3):
        made.backs_up()
        made.passes(DAY_MS)
    assert made.retains(policy).plan.points > 0, "it speaks again"


def test_a_source_that_is_silent_makes_no_point_older(made: Drifting) -> None:
    before = planned_points(made, parse_policy(keep_age="3d"))
    made.passes(YEAR_MS)
    assert planned_points(made, parse_policy(keep_age="3d")) == before


def test_passes_that_are_never_complete_are_silence(made: Drifting) -> None:
    made.passes(9 * DAY_MS)
    made.backs_up(incomplete=True)
    assert planned_points(made, MONTH) == 0
    assert planned_points(made, parse_policy(keep_age="1h", floor="1d")) == 0


def test_before_the_first_complete_pass_nothing_goes() -> None:
    made = Drifting()
    for _ in range(4):
        made.passes(DAY_MS)
        made.backs_up(incomplete=True)
    plan = plan_retention(made.backup, parse_policy(keep_age="1h"), clock=made.clock)
    assert (plan.is_empty, plan.notes) == (True, ("nothing is deleted: no restore point is complete yet",))


def test_a_mirror_reckons_in_the_same_way(made: Drifting) -> None:
    """The records of a topic that was deleted stay for its `retention.ms` from then, whatever a clock says."""
    made.delete("a")
    made.make("b")
    made.passes(HOUR_MS)
    made.commit()
    made.jumps(YEAR_MS)
    assert plan_retention(made.backup, RetentionPolicy(), clock=made.clock).is_empty


def test_a_plan_that_was_overtaken_lets_go_no_more_than_it_said(made: Drifting) -> None:
    plan = plan_retention(made.backup, parse_policy(keep_age="3d"), clock=made.clock)
    made.passes(2 * DAY_MS)
    made.backs_up()
    pin_point(made.backup, 5, reason="so that it is planned anew")
    made.note(made.backup.state())
    done = apply_retention(made.backup, plan, clock=made.clock)
    assert done.plan.points == plan.points


def test_a_plan_that_was_shown_is_the_same_after_another_commit(made: Drifting) -> None:
    """Who confirms it a minute later confirms what was shown, while the backup goes on."""
    policy = parse_policy(keep_age="3d")
    shown = plan_retention(made.backup, policy, clock=made.clock)
    made.passes(2 * DAY_MS)
    newest = made.backs_up()
    anew = plan_retention(made.backup, policy, clock=made.clock, now_ms=shown.now_ms)
    assert (anew.forgotten, anew.from_ms) == (shown.forgotten, shown.from_ms)
    assert anew.kept_points[-1].last == newest


def planned_points(made: Drifting, policy: RetentionPolicy) -> int:
    return plan_retention(made.backup, policy, clock=made.clock).points


def course(number: int) -> str:
    """What is wrong at the end of a random course; empty when nothing is."""
    return played(random.Random(number))


def played(drawn: random.Random) -> str:
    """What is wrong at the end of a course that is drawn."""
    made = Drifting()
    rhythm_ms = drawn.choice((HOUR_MS, 6 * HOUR_MS, DAY_MS))
    least_ms = 4 * rhythm_ms + 2 * DAY_MS
    """What may be wrong unseen: a jump that is no longer than some of the backup's own pauses, or than two days."""
    told = list[str]()
    for _ in range(drawn.randint(6, 30)):
        made.passes(int(rhythm_ms * drawn.uniform(0.8, 1.2)))
        lot = drawn.random()
        if lot < 0.1:
            made.jumps(int(drawn.choice((0, 0, 1, -1)) * drawn.choice((HOUR_MS, DAY_MS, 20 * DAY_MS, 3 * YEAR_MS))))
            told.append(f"the clock is {made.ahead_ms / DAY_MS:.1f} d ahead")
        elif lot < 0.2:
            made.passes(drawn.choice((2, 10, 100)) * rhythm_ms)
            told.append("an outage")
        elif lot < 0.75:
            seq = made.backs_up(idle=drawn.random() < 0.2, incomplete=drawn.random() < 0.1)
            told.append(f"commit {seq} at {made.true_ms / DAY_MS:.1f}")
        else:
            policy = RetentionPolicy(
                keep_age_ms=drawn.choice((1, 2, 5)) * least_ms,
                daily=drawn.choice((0, 0, 5)),
                floor_ms=drawn.choice((0, HOUR_MS, 2 * least_ms)),
            )
            if problem := _retained(made, policy, least_ms=least_ms):
                return "\n".join([*told, f"{policy}", problem])
    return ""


def _retained(made: Drifting, policy: RetentionPolicy, *, least_ms: int) -> str:
    before, now_ms = made.points, made.store.clock.now_ms()
    complete = [seq for seq in before if seq in made.complete]
    line = made.backup.state().history.find(complete[-1]) if complete else None
    try:
        made.retains(policy)
    except (BelowFloor, ClockStep, CommitLost):
        return "" if made.points == before else "refused, and something is gone"
    gone = [seq for seq in before if seq not in made.points]
    if gone and line is None:
        return f"{gone} went, and nothing was complete"
    if gone and line is not None and policy.floor_ms and now_ms - line.committed_at_ms > policy.floor_ms:
        return f"{gone} went while the source was silent"
    if {before[-1], *complete[-1:]} & {*gone} if before else False:
        return "the newest went, or the newest complete one"
    keep_ms = max(policy.keep_age_ms or 0, policy.floor_ms)
    own = [seq for seq in gone if seq in made.made_at]
    young = [seq for seq in own if made.made_at[complete[-1]] - made.made_at[seq] < keep_ms - least_ms]
    return f"{young} went, and are younger than {keep_ms / DAY_MS:.1f} d" if young else ""


def test_no_clock_and_no_outage_makes_a_point_go_before_its_time() -> None:
    assert [problem for number in range(COURSES) if (problem := course(number))] == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_clock_and_no_outage_makes_a_point_go_before_its_time_over_many_courses() -> None:
    assert [problem for number in range(10_000) if (problem := course(number))] == []


Patch = pytest.MonkeyPatch


def _from_now(patch: Patch) -> None:
    reckoned = planning.reckon
    patch.setattr(
        planning,
        "reckon",
        lambda head, point, *, now_ms: replace(reckoned(head, point, now_ms=now_ms), from_ms=now_ms),
    )


def _silence_is_nothing(patch: Patch) -> None:
    patch.setattr(planning, "explain_silence", lambda *_, **__: "")


def _a_jump_is_believed(patch: Patch) -> None:
    patch.setattr(planning, "explain_clock_jump", lambda *_: "")


def _a_clock_is_never_behind(patch: Patch) -> None:
    patch.setattr(planning, "explain_clock_behind", lambda *_: "")


BUGS = ((_from_now, 63), (_silence_is_nothing, 17), (_a_jump_is_believed, 8), (_a_clock_is_never_behind, 0))
"""Each mistake, and a course from which on it is seen soon."""


@pytest.mark.parametrize(("bug", "first"), BUGS)
def test_the_courses_show(bug: Callable[[Patch], None], first: int, monkeypatch: Patch) -> None:
    bug(monkeypatch)
    assert any(course(number) for number in range(first, first + SEEN_WITHIN)), "nobody saw it"


@examples(20)
@given(drawn=st.randoms(use_true_random=False))
def test_any_course(drawn: random.Random) -> None:
    assert played(drawn) == ""
