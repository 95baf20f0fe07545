"""How old what is deleted must be, in each pass, and that what retention dropped goes while more is dropped all the
time."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.repository import catalog
from offsite.repository.commit import LIVE, CommitChanges, ExpiredRange
from offsite.repository.replaced import collected_hint
from offsite.repository.segments.segment import Segment
from offsite.upkeep.collection import plan as collect_plan
from offsite.upkeep.collection.agreement import RetentionInForce
from offsite.upkeep.collection.run import CollectionResult, collect, plan_collection
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.policy import RetentionPolicy
from tests import roll_ups
from tests.inline_runner import InlineRunner
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Retained, begin_restore, go_on, objects, twenty_days

WEEK = RetentionPolicy(keep_age_ms=7 * DAY_MS)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made() -> Retained:
    return twenty_days()


def collect_now(
    made: Retained, policy: RetentionPolicy = WEEK, *, grace_ms: int, accepted: int = 0
) -> CollectionResult:
    in_force = RetentionInForce(policy=policy, accepted=accepted)
    plan = plan_collection(made.backup, clock=made.clock, grace_ms=grace_ms, in_force=in_force)
    return collect(made.backup, plan, runner=InlineRunner())


def retain(made: Retained, policy: RetentionPolicy = WEEK) -> int:
    plan = plan_retention(made.backup, policy, clock=made.clock)
    done = apply_retention(made.backup, plan, clock=made.clock, force=bool(plan.clock_step))
    if done.commit is not None:
        made.note(done.state)
    return done.state.seq


def pending_after_a_pass(made: Retained) -> int:
    """The commit of a retention that a pass has walked past, and that nobody believes yet."""
    dropped = retain(made)
    go_on(made)
    assert collect_now(made, grace_ms=HOUR_MS).objects == 0
    assert collected_hint(made.backup).pending == (dropped,)
    return dropped


def test_what_a_pass_looks_at_again_is_young_once_the_clock_was_set_back(made: Retained) -> None:
    dropped = pending_after_a_pass(made)
    made.later(-40 * DAY_MS)
    go_on(made)
    assert collect_now(made, grace_ms=0).objects == 0
    assert collected_hint(made.backup).pending == (dropped,)
    made.later(40 * DAY_MS)
    assert collect_now(made, grace_ms=0).objects > 0
    made.check()


def test_what_a_pass_looks_at_again_is_as_old_as_the_grace_time_of_that_pass(made: Retained) -> None:
    dropped = pending_after_a_pass(made)
    assert collect_now(made, grace_ms=DAY_MS, accepted=dropped).objects == 0
    made.later(DAY_MS)
    assert collect_now(made, grace_ms=DAY_MS, accepted=dropped).objects > 0


def test_what_a_pass_looks_at_again_waits_for_a_restore_that_goes_on(made: Retained) -> None:
    """It had begun before the points were dropped, and nobody ran it for two days."""
    begin_restore(made, commit=2)
    (record,) = [key for key in made.store.objects if "/restores/" in key]
    made.later(2 * DAY_MS)
    pending_after_a_pass(made)
    made.later(HOUR_MS)
    made.store.put_overwrite(record, made.store.objects[record])
    made.later(3 * HOUR_MS)
    assert collect_now(made, grace_ms=HOUR_MS).objects == 0
    made.later(2 * DAY_MS)
    assert collect_now(made, grace_ms=HOUR_MS).objects > 0


@pytest.mark.parametrize("keep_ms", [HOUR_MS, 4 * HOUR_MS])
def test_space_becomes_free_where_retention_drops_points_again_and_again(keep_ms: int) -> None:
    """Also where no restore point is as old as the grace time, and the newest commits that drop something wait."""
    made, policy, counts = Retained(), RetentionPolicy(keep_age_ms=keep_ms), list[int]()
    made.make("a")
    for hour in range(24):
        made.write("a")
        made.trim("a", made.logs[made.partition("a")].copied)
        made.commit()
        retain(made, policy)
        made.later(HOUR_MS)
        if hour % 2 == 1:
            collect_now(made, policy, grace_ms=2 * HOUR_MS)
            counts.append(len(objects(made)))
    assert counts[-3:] == counts[-1:] * 3
    assert len(collected_hint(made.backup).pending) <= 3 * 2
    made.check()


def test_what_a_forged_commit_drops_stays_where_honest_ones_drop_more(made: Retained) -> None:
    """A range begins where its history does: it lies over what the forged one dropped."""
    before, base, partition_id = objects(made), made.backup.state(), made.partition("a")
    middle = base.segments[partition_id].read()[3].start
    expired = (ExpiredRange(partition_id=partition_id, start=0, end=middle, branch=LIVE),)
    made.note(made.backup.commit(CommitChanges(expired=expired, forgotten=((1, 5),)), base=base, writer="forged"))
    needed = {key for key in before if any(f"{start:020}" in key for start in range(middle))}
    retain(made)
    go_on(made)
    done = collect_now(made, grace_ms=0)
    assert [kept.commit for kept in done.kept] == [base.seq + 1]
    assert needed <= objects(made)


def test_a_pass_that_has_no_time_to_judge_a_commit_does_not_believe_it(
    made: Retained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a roll-up replaced is the only copy that anybody has read, if a stranger drops what replaced it."""
    monkeypatch.setattr(collect_plan, "OBJECTS_MAX", 6)
    partition_id = made.partition("a")

    def roll_up() -> tuple[Segment, ...]:
        segments = made.backup.state().segments[partition_id].read()[:4]
        made.note(roll_ups.roll_up(made.backup, [segments], alone=True))
        return segments

    replaced = roll_up()
    expired = (ExpiredRange(partition_id=partition_id, start=0, end=replaced[-1].end, branch=LIVE),)
    base = made.backup.state()
    made.note(made.backup.commit(CommitChanges(expired=expired), base=base, writer="forged"))
    roll_up()
    go_on(made)
    for _ in range(3):
        collect_now(made, grace_ms=0)
    assert {segment.key for segment in replaced} <= objects(made)


def test_passes_that_have_no_room_for_all_come_to_an_end(made: Retained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_plan, "OBJECTS_MAX", 4)
    policies = [RetentionPolicy(keep_age_ms=days * DAY_MS) for days in (15, 10, 5, 2)]
    for policy in policies:
        retain(made, policy)
        go_on(made)
    before = len(objects(made))
    passes = 1
    while not collect_now(made, policies[-1], grace_ms=0, accepted=made.backup.state().seq).is_last:
        passes += 1
        assert passes < 12
    assert passes > 2
    assert len(objects(made)) < before
    assert objects(made) == {segment.object_key for segment in made.backup.state().stored_segments()}
    made.check()


def test_more_objects_than_a_pass_has_room_for_stay_without_holding_up_the_rest(
    made: Retained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that nobody believes drops points; the honest retention drops their data, which stays, in each pass."""
    monkeypatch.setattr(collect_plan, "OBJECTS_MAX", 4)
    base, before = made.backup.state(), objects(made)
    made.note(made.backup.commit(CommitChanges(forgotten=((1, base.seq),)), base=base, writer="forged"))
    go_on(made)
    retain(made)
    for _ in range(10):
        made.later(DAY_MS)
        made.trim("a", made.logs[made.partition("a")].copied)
        made.write("a")
        made.commit()
    newer = objects(made) - before
    retain(made)
    go_on(made)
    passes = 1
    while not collect_now(made, grace_ms=0).is_last:
        passes += 1
        assert passes < 12
    needed = {segment.object_key for segment in made.backup.state().stored_segments()}
    assert newer & objects(made) == newer & needed != newer
    assert len(before & objects(made)) >= 19
    made.check()
