"""The retention of a run that follows: a moment at a time, and whatever the backup does meanwhile."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from offsite.follow import chores
from offsite.follow.chores import RETRY_S, Chore, retaining
from offsite.model.errors import KafkaUnreachable, StoreUnreachable
from offsite.model.journal import JOURNAL
from offsite.repository.commit import CommitChanges
from offsite.upkeep.retention.apply import RetentionResult, carry_to, plan_retention
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.plan import retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy
from tests.roll_ups import roll_up
from tests.worlds.retention.retained import HOUR_MS, Retained, begin_restore


class NoCluster:
    """A cluster that does not answer."""

    @property
    def admin(self) -> Any:
        raise KafkaUnreachable("no broker answers", hint="")


class Machine:
    """A clock that agrees with the store's, and on which time passes only when it is told; `step_s`: when asked."""

    def __init__(self, made: Retained, step_s: float = 0.0) -> None:
        self._made, self._step_s = made, step_s
        self.now_s = 0.0

    def now_ms(self) -> int:
        return self._made.store.clock.now_ms()

    def monotonic_s(self) -> float:
        self.now_s += self._step_s
        return self.now_s

    def later(self, by_s: float) -> None:
        self.now_s += by_s
        self._made.later(int(by_s * 1000))

    def sleep(self, duration_s: float) -> None:
        self.later(duration_s)


@pytest.fixture
def made() -> Retained:
    made = Retained()
    made.make("a")
    for _ in range(8):
        made.write("a")
        made.later(HOUR_MS)
        made.trim("a", made.logs[made.partition("a")].copied)
        made.commit()
    return made


def retaining_of(clock: Machine, policy: RetentionPolicy) -> Chore:
    return retaining(policy, cluster=NoCluster(), clock=clock, every_s=3600.0)  # type: ignore[arg-type]


def points(made: Retained) -> list[int]:
    return [line.seq for line in made.backup.state().history]


def test_a_step_lets_go_and_the_next_comes_after_the_rest(made: Retained) -> None:
    clock = Machine(made)
    step = retaining_of(clock, parse_policy(keep_age="3h"))
    state = step.step(made.backup, made.backup.state())
    assert state == made.backup.state()
    assert points(made) == [6, 7, 8, 9]
    clock.later(1800)
    made.commit()
    assert step.step(made.backup, made.backup.state()) is None
    clock.later(3600)
    made.write("a")
    made.commit()
    assert step.step(made.backup, made.backup.state()) is not None
    assert 6 not in points(made)


def test_a_step_of_the_clock_is_told_and_lets_nothing_go(made: Retained, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody sits beside a run that follows to say that the time has passed."""
    clock = Machine(made)
    made.later(400 * 24 * HOUR_MS)  # no record speaks for it
    made.commit()
    step = retaining_of(clock, parse_policy(keep_age="3h"))
    assert step.step(made.backup, made.backup.state()) is None
    assert points(made) == list(range(1, 10))
    assert "retention_failed" in caplog.text
    assert "OFF-1462" in caplog.text


def test_what_came_while_it_was_planned_stays_with_all_that_it_needs(made: Retained) -> None:
    """One pause a round: the backup goes on, and a roll-up makes one segment over a border of what goes."""
    slow = retaining_of(Machine(made, step_s=chores.STEP_S / 2), parse_policy(keep_age="2h"))
    rounds = 0
    while slow.step(made.backup, made.backup.state()) is None:
        rounds += 1
        if rounds == 1:
            for _ in range(2):
                made.write("a", 2)
                made.commit()
            roll_up(made.backup, [tuple(made.backup.state().segments[made.partition("a")][4:8])], alone=True)
            made.note(made.backup.state())
        assert rounds < 50
    assert rounds >= 2
    made.note(made.backup.state())
    assert points(made)[0] == 7
    made.check()
    starts = [each.start for each in made.backup.state().segments[made.partition("a")]]
    assert starts == [40, 80, 100], "of the new segment the first kept point needs a part"


def test_a_pin_that_came_while_it_was_planned_is_kept(made: Retained) -> None:
    plan = plan_retention(made.backup, parse_policy(keep_age="2h"), clock=made.clock)
    pin_point(made.backup, 2, reason="r")
    assert carry_to(plan, made.backup.state()) is None
    step = retaining_of(Machine(made), parse_policy(keep_age="2h"))
    assert step.step(made.backup, made.backup.state()) is not None
    assert 2 in points(made)


def test_a_commit_that_only_adds_carries_a_plan_along(made: Retained) -> None:
    plan = plan_retention(made.backup, parse_policy(keep_age="2h"), clock=made.clock)
    head = made.backup.commit(CommitChanges(), base=made.backup.state(), writer="w")
    carried = carry_to(plan, head)
    assert carried is not None
    assert (carried.expired, carried.forgotten, carried.head.seq) == (plan.expired, plan.forgotten, head.seq)


def test_what_goes_wrong_ends_no_round_and_is_tried_again(made: Retained, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Machine(made)
    step = retaining_of(clock, parse_policy(keep_age="2h"))

    def fails(*_: object) -> bool:
        raise StoreUnreachable("the store does not answer", hint="")

    with monkeypatch.context() as patched:
        patched.setattr(made.store, "put_if_absent", fails)
        assert step.step(made.backup, made.backup.state()) is None
    clock.later(RETRY_S / 2)
    assert step.step(made.backup, made.backup.state()) is None
    clock.later(RETRY_S)
    assert step.step(made.backup, made.backup.state()) is not None


def test_that_somebody_was_first_is_no_warning(
    made: Retained, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Machine(made)
    step = retaining_of(clock, parse_policy(keep_age="2h"))
    carry_out = chores.carry_out

    def pin_first(*arguments: Any, **options: Any) -> RetentionResult:
        pin_point(made.backup, 7, reason="r")
        return carry_out(*arguments, **options)

    with monkeypatch.context() as patched, caplog.at_level(logging.INFO, logger=JOURNAL.name):
        patched.setattr(chores, "carry_out", pin_first)
        assert step.step(made.backup, made.backup.state()) is None
    assert [each.levelno for each in caplog.records if "retention_overtaken" in each.message] == [logging.INFO]
    assert "pinned a restore point" in caplog.text
    clock.later(RETRY_S)
    assert step.step(made.backup, made.backup.state()) is not None


def test_a_mirror_that_cannot_ask_the_cluster_lets_nothing_go(made: Retained) -> None:
    made.later(1000 * HOUR_MS)
    assert retaining_of(Machine(made), RetentionPolicy()).step(made.backup, made.backup.state()) is None
    assert points(made) == list(range(1, 9))


def test_a_plan_pauses_after_each_point_that_a_rule_chooses(made: Retained) -> None:
    """Thousands may be asked for, and each is read: a round of the backup must not wait for all of them."""
    steps = retention_plan_steps(made.backup, parse_policy(keep_hourly=8), clock=made.clock)
    assert sum(1 for _ in steps) >= 8


def test_a_restore_that_began_while_it_was_planned_keeps_its_point(made: Retained) -> None:
    slow = retaining_of(Machine(made, step_s=chores.STEP_S / 2), parse_policy(keep_age="2h"))
    assert slow.step(made.backup, made.backup.state()) is None
    begin_restore(made, commit=3)
    for _ in range(50):
        assert slow.step(made.backup, made.backup.state()) is None
    assert points(made) == list(range(1, 9))
    again = retaining_of(Machine(made), parse_policy(keep_age="2h"))
    assert again.step(made.backup, made.backup.state()) is not None
    assert points(made)[0] == 3
