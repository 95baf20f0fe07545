"""Pins, and the lines about what was deleted."""

from __future__ import annotations

import pytest

from offsite.model.clock import MOST_APART_MS
from offsite.model.errors import BadOption, BelowFloor, ClocksDiffer, CommitLost, NoSuchRestorePoint
from offsite.overview.judgement import problems_of
from offsite.points.point_cut import default_point
from offsite.repository.snapshots.audit_record import AuditLine, Deletion, UnreadableLine, note_deletions, read_audit
from offsite.stores.store import PutResult
from offsite.upkeep.collection.run import collect, plan_collection
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.pins import parse_until, pin_point, pinned_points, unpin_point
from offsite.upkeep.retention.policy import parse_policy
from offsite.upkeep.retention.report import DONE, NOT_DONE, TO_BE_DONE, audit_reports, get_note, retention_outlook
from tests.inline_runner import InlineRunner
from tests.virtual_time import MachineClock
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Retained, begin_restore

LAST = parse_policy(keep_age="0s")


@pytest.fixture
def made() -> Retained:
    """Five commits of a topic that loses all but its newest batch each time."""
    made = Retained()
    made.make("a")
    for _ in range(5):
        made.write("a")
        made.later(HOUR_MS)
        made.trim("a", made.logs[made.partition("a")].copied)
        made.commit()
    return made


def let_go(made: Retained, **rules: str) -> int:
    policy = parse_policy(**rules) if rules else LAST  # type: ignore[arg-type]
    done = apply_retention(made.backup, plan_retention(made.backup, policy, clock=made.clock), clock=made.clock)
    if done.commit is not None:
        made.note(done.state)
    return done.plan.points


def numbers(made: Retained) -> list[int]:
    return [line.seq for line in made.backup.state().history]


def test_what_is_pinned_stays_with_all_that_it_needs_until_it_is_unpinned(made: Retained) -> None:
    pin_point(made.backup, 2, reason="the audit of 2026")
    made.note(made.backup.state())
    assert let_go(made) == 3
    assert numbers(made) == [2, 5, 6, 7], "the newest that was read from the source stays, and the newest at all"
    made.check()
    assert [(each.commit, each.reason, each.until_ms) for each in pinned_points(made.backup)] == [
        (2, "the audit of 2026", 0)
    ]
    unpin_point(made.backup, 2)
    made.note(made.backup.state())
    let_go(made)
    assert 2 not in numbers(made)
    made.check()
    assert made.unneeded() == []


def test_a_pin_that_has_ended_keeps_nothing_and_is_taken_off(made: Retained) -> None:
    pin_point(made.backup, 2, reason="r", until_ms=made.clock.now_ms() + DAY_MS)
    let_go(made)
    assert 2 in numbers(made)
    made.later(DAY_MS)
    assert [each.holds for each in pinned_points(made.backup)] == [False]
    let_go(made)
    assert 2 in numbers(made), "ages count from the newest complete point, and so do ends of pins"
    made.write("a")
    made.commit()
    let_go(made)
    assert 2 not in numbers(made)
    assert pinned_points(made.backup) == ()


def test_what_cannot_be_pinned(made: Retained) -> None:
    with pytest.raises(NoSuchRestorePoint):
        pin_point(made.backup, 9, reason="r")
    with pytest.raises(BadOption):
        pin_point(made.backup, 2, reason=" ")
    with pytest.raises(NoSuchRestorePoint):
        unpin_point(made.backup, 2)


def test_the_end_of_a_pin_is_a_time_or_a_duration() -> None:
    assert parse_until(None, now_ms=5) == 0
    assert parse_until("90d", now_ms=5) == 5 + 90 * DAY_MS
    assert parse_until("2033-01-01", now_ms=5) == 1_988_150_400_000
    for text in ("2001-01-01", "0s", "soon"):
        with pytest.raises(BadOption):
            parse_until(text, now_ms=1_700_000_000_000)


def test_a_floor_refuses_and_force_does_it(made: Retained) -> None:
    policy = parse_policy(keep_age="0s", floor="2h")
    plan = plan_retention(made.backup, policy, clock=made.clock)
    assert plan.below_floor
    with pytest.raises(BelowFloor):
        apply_retention(made.backup, plan, clock=made.clock)
    assert numbers(made) == [1, 2, 3, 4, 5]
    assert list(read_audit(made.store, made.backup.layout)) == []  # type: ignore[arg-type]
    assert apply_retention(made.backup, plan, clock=made.clock, force=True).plan.points == 4


def test_a_floor_that_the_rules_hold_refuses_nothing(made: Retained) -> None:
    """At the floor's beginning the newest point before it counts: here the third."""
    made.later(HOUR_MS // 2)
    held = parse_policy(keep_hourly=3, floor="2h")
    assert not plan_retention(made.backup, held, clock=made.clock).below_floor
    for rules in ({"keep_hourly": 2, "floor": "2h"}, {"keep_hourly": 3, "floor": "3h"}):
        assert plan_retention(made.backup, parse_policy(**rules), clock=made.clock).below_floor  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead_ms", [MOST_APART_MS + 5000, -MOST_APART_MS - 5000])
def test_clocks_that_differ_are_refused(made: Retained, ahead_ms: int) -> None:
    with pytest.raises(ClocksDiffer):
        plan_retention(made.backup, LAST, clock=MachineClock(made.clock, ahead_ms=ahead_ms))


def test_nothing_to_do_writes_nothing(made: Retained) -> None:
    let_go(made)
    made.commit()
    made.note(made.backup.state())
    before = dict(made.store.objects)
    assert let_go(made, keep_age="1d") == 0
    assert made.store.objects == before


def test_retention_is_no_sign_of_life_of_a_backup(made: Retained) -> None:
    """Else a backup that died would look fresh wherever retention runs each night, and lose what it read last."""
    last = made.backup.state()
    for day in range(40):
        made.later(DAY_MS)
        pin_point(made.backup, 5, reason=f"day {day}")
        unpin_point(made.backup, 5)
        let_go(made, keep_daily=3)  # type: ignore[arg-type]
    state = made.backup.state()
    assert state.completed_at_ms == last.completed_at_ms
    assert default_point(made.backup.store, state).complete_ms == last.committed_at_ms
    assert any(problem.startswith("last backup 40 d") for problem in problems_of(state, made.clock.now_ms(), 3600))
    assert 5 in numbers(made)


def test_each_deletion_has_its_line_before_it_is_done(made: Retained, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go(made)
    found = list(audit_reports(made.backup))
    assert [(each.by, each.kind, each.what, each.state) for each in found] == [
        ("retention", "points", "commits 1 to 4", DONE),
        ("retention", "range", "a/0 [0, 40)", DONE),
    ]
    assert found[0].rule == "not kept by age 0 ms"
    assert found[0].bytes > 0
    assert found[0].who
    for _ in range(101):
        made.commit()
    deleted: list[tuple[str, bool]] = []

    def delete(key: str) -> None:
        told = {
            line.deletion.what for line in read_audit(made.store, made.backup.layout) if isinstance(line, AuditLine)
        }  # type: ignore[arg-type]
        deleted.append((key, key in told))
        made.store.objects.pop(key, None)

    monkeypatch.setattr(made.store, "delete", delete)
    objects = collect(
        made.backup, plan_collection(made.backup, clock=made.clock, grace_ms=0), runner=InlineRunner()
    ).objects
    assert objects >= 4
    assert sum(is_told for _, is_told in deleted) == objects
    assert {each.by for each in audit_reports(made.backup)} == {"retention", "collect"}
    assert {each.state for each in audit_reports(made.backup)} == {DONE}


def test_an_object_that_is_still_there_is_to_be_deleted(made: Retained) -> None:
    key = next(each for each in made.store.objects if each.endswith(".log"))
    lines = [Deletion(kind="object", what=each, rule="r") for each in (key, f"{key}.gone")]
    note_deletions(made.store, made.backup.layout, lines, by="collect", commit=5)  # type: ignore[arg-type]
    assert [each.state for each in audit_reports(made.backup)] == [TO_BE_DONE, DONE]


def test_no_commit_lets_go_before_its_lines_are_written(made: Retained, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at either of them: without lines there is no commit, and without a commit the lines say so."""
    put = made.store.put_if_absent

    def killed(at: str) -> None:
        def break_off(key: str, data: bytes) -> PutResult:
            if at in key:
                raise KeyboardInterrupt
            return put(key, data)

        with monkeypatch.context() as patched:
            patched.setattr(made.store, "put_if_absent", break_off)
            with pytest.raises(KeyboardInterrupt):
                let_go(made)

    killed("/audit/")
    assert numbers(made) == [1, 2, 3, 4, 5]
    assert list(audit_reports(made.backup)) == []
    killed("/commits/")
    assert numbers(made) == [1, 2, 3, 4, 5]
    assert {each.state for each in audit_reports(made.backup)} == {TO_BE_DONE}
    let_go(made)
    assert sorted(each.state for each in audit_reports(made.backup) if each.kind == "points") == [DONE, NOT_DONE]


def test_a_line_whose_commit_never_came_says_so(made: Retained) -> None:
    lines = [Deletion(kind="points", what="commits 1 to 2", rule="r", bytes=5)]
    note_deletions(made.store, made.backup.layout, lines, by="retention", commit=5, writer="mine")  # type: ignore[arg-type]
    assert [each.state for each in audit_reports(made.backup)] == [TO_BE_DONE]
    made.commit()
    assert [each.state for each in audit_reports(made.backup)] == [NOT_DONE]


def test_what_cannot_be_read_of_the_audit_hides_nothing_else(made: Retained) -> None:
    let_go(made)
    key = made.backup.layout.audit_key(0, "0" * 8)
    made.store.put_overwrite(key, b'{"format":1}\n\x1b[31m\n')
    found = list(read_audit(made.store, made.backup.layout))  # type: ignore[arg-type]
    assert [isinstance(each, UnreadableLine) for each in found] == [True, True, False, False]
    assert [bool(each.problem) for each in audit_reports(made.backup)] == [True, True, False, False]


def test_what_is_kept_and_what_goes_next_is_told(made: Retained) -> None:
    assert retention_outlook(made.backup, made.backup.state()) is None
    let_go(made, keep_age="2h")
    found = retention_outlook(made.backup, made.backup.state())
    assert found is not None
    assert (found.rule, found.restore_points, found.pinned) == ("not kept by age 2 h 00 min", 3, 0)
    assert found.next_commit == 4
    line = made.backup.state().history.find(4)
    assert line is not None
    assert found.next_ms == line.committed_at_ms + 2 * HOUR_MS
    assert found.waiting_bytes > 0
    made.store.put_overwrite(made.backup.layout.retention_key, b"{")
    assert get_note(made.backup) is None


def trimmed(made: Retained) -> None:
    """One more commit of the topic, which lost all but its newest batch again."""
    made.write("a", 3)
    made.trim("a", made.logs[made.partition("a")].copied)
    made.commit()


def test_what_goes_is_what_was_shown_though_others_commit_meanwhile(made: Retained) -> None:
    """A newer point would take the place of the one that the rule was shown to keep."""
    for rules in ({"keep_daily": 1}, {"max_bytes": "300B"}):
        made.later(DAY_MS)
        trimmed(made)
        last = made.backup.state().seq
        plan = plan_retention(made.backup, parse_policy(**rules), clock=made.clock)  # type: ignore[arg-type]
        trimmed(made)
        done = apply_retention(made.backup, plan, clock=made.clock)
        made.note(done.state)
        assert numbers(made) == [each for each in numbers(made) if each >= last]
        assert numbers(made)[:2] == [last, last + 1]
        assert [(each.first, each.last) for each in done.plan.kept_points] == [(last, last), (last + 1, last + 1)]
        made.check()


def test_points_that_were_to_stay_do_not_go_by_a_pin_that_came_meanwhile(made: Retained) -> None:
    plan = plan_retention(made.backup, parse_policy(max_bytes="700B"), clock=made.clock)
    kept = [number for number in numbers(made) if not any(start <= number < end for start, end in plan.forgotten)]
    assert len(kept) > 1
    pin_point(made.backup, 1, reason="r")
    before = made.backup.state()
    for _ in range(3):
        trimmed(made)
    with pytest.raises(CommitLost, match="the plan kept them"):
        apply_retention(made.backup, plan, clock=made.clock)
    assert set(kept) < set(numbers(made)), before.history


def test_a_restore_that_began_after_the_plan_keeps_its_point(made: Retained) -> None:
    plan = plan_retention(made.backup, LAST, clock=made.clock)
    begin_restore(made, commit=3)
    done = apply_retention(made.backup, plan, clock=made.clock)
    made.note(done.state)
    assert numbers(made) == [3, 5, 6]
    made.check()


def test_what_waits_is_what_came_to_be_let_go(made: Retained) -> None:
    """A retention that was overtaken wrote its lines, too."""
    plan = plan_retention(made.backup, LAST, clock=made.clock)
    trimmed(made)
    done = apply_retention(made.backup, plan, clock=made.clock)
    assert {each.state for each in audit_reports(made.backup)} == {DONE, NOT_DONE}
    outlook = retention_outlook(made.backup, done.state)
    assert outlook is not None
    assert outlook.waiting_bytes == done.plan.removed_bytes
