"""Schedules: random courses of two operators, and single promises."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from offsite.model.errors import BadResource, StoreUnreachable
from offsite.operator.decide.desired import Account, RepositoryPlace, resolve_backup
from offsite.operator.decide.schedule import DecisionKind
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.parse import parse_resource
from offsite.operator.world.schedules import ScheduleStatus, find_target
from offsite.operator.world.timeline import KEPT_DECISIONS, RecordedDecision, SkipReason, Timeline
from offsite.repository.declared.entry import BackupStart, DeclaredEntry, DeclaredEntryKind, make_settings
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from tests.worlds.operator.schedule_world import PLACE, TARGET, UID, ScheduleWorld

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000")) // 5
STEPS = 60
MINUTE = 60_000


def play(seed: int) -> None:
    world = ScheduleWorld(seed, startingDeadline=("4m", "12m")[seed % 2], history=3)
    decided: dict[int, RecordedDecision] = {}
    for _ in range(STEPS):
        event = world.rng.random()
        if event < 0.7:
            world.operate(world.rng.choice("xy"), faults=True)
        elif event < 0.75 and world.processes:
            world.processes.remove(world.rng.choice(world.processes))
        elif event < 0.8 and world.processes:
            world.rng.choice(world.processes).frozen = world.rng.randint(1, 12)
        elif event < 0.84:
            world.wanted = replace(world.wanted, suspend=not world.wanted.suspend)
        world.now_ms += world.rng.choice([5000, 20_000, 20_000, 70_000, 1_000_000])
        world.run_processes()
        for each in line(world):
            assert decided.setdefault(each.seq, each) == each
    runs = [each for each in decided.values() if each.decision.kind.is_run]
    assert len({each.decision.time_ms for each in runs}) == len(runs), "a time was decided twice"
    times = [each.decision.time_ms for each in sorted(decided.values(), key=lambda each: each.seq)]
    assert times == sorted(times)
    assert len(world.begun) <= sum(each.decision.kind is DecisionKind.FIRED for each in runs)
    fires_again(world)


def fires_again(world: ScheduleWorld) -> None:
    """Without faults it fires again, whatever was."""
    world.is_calm, world.wanted, world.work_max = True, replace(world.wanted, suspend=False), 2
    before = len(world.begun)
    for _ in range(150):
        world.operate("x", faults=False)
        world.operate("y", faults=False)
        world.now_ms += 20_000
        world.run_processes()
        if len(world.begun) > before + 1:
            return
    raise AssertionError("it does not fire any more")


def line(world: ScheduleWorld) -> list[RecordedDecision]:
    return list(Timeline(store=world.home, uid=UID).newest_first())


def test_each_time_fires_once_and_one_run_at_a_time_whoever_operates() -> None:
    for seed in range(10):
        played(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(3600)
def test_each_time_fires_once_in_many_courses() -> None:
    for seed in range(SEEDS):
        played(seed)


def played(seed: int) -> None:
    try:
        play(seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def quiet(**spec: object) -> ScheduleWorld:
    """A world without faults, whose schedule was looked at once, on an hour."""
    world = ScheduleWorld(1, **spec)
    world.is_calm, world.work_max = True, 1
    world.now_ms -= world.now_ms % (60 * MINUTE)
    look(world)
    return world


def look(world: ScheduleWorld, *, after_ms: int = 0) -> ScheduleStatus:
    world.now_ms += after_ms
    found = world.operate("x", faults=False)
    assert found is not None
    return found


def test_a_schedule_tells_what_ran_when_it_ran_last_and_when_it_runs_next() -> None:
    world = quiet()
    first = world.now_ms + 5 * MINUTE
    status = look(world, after_ms=5 * MINUTE + 1)
    assert (status.last_ms, status.next_ms, status.problem) == (first, first + 5 * MINUTE, "")
    assert [each.state for each in status.runs] == ["starting"]
    world.run_processes()
    status = look(world)
    assert [(each.time_ms, each.state, each.job) for each in status.runs] == [(first, "succeeded", world.begun[0])]
    assert world.commands == [("checkpoint", "take", "--backup=shop-1", "--wait")]


def test_the_next_run_is_skipped_and_told_while_one_runs() -> None:
    world = quiet()
    look(world, after_ms=5 * MINUTE)
    world.processes[0].left = 10**6
    for _ in range(20):
        world.now_ms += 15_000
        world.run_processes()
    status = look(world)
    assert [each.state for each in status.runs] == ["skipped", "running"]
    assert len(world.begun) == 1


def test_what_cannot_begin_within_its_deadline_is_told() -> None:
    world = quiet()
    world.target = None
    assert look(world, after_ms=5 * MINUTE).problem
    assert not line(world)[0].decision.kind.is_run
    status = look(world, after_ms=4 * MINUTE + 30_000)
    assert [each.state for each in status.runs] == ["missed"]
    assert not world.begun


def test_a_time_that_fired_for_another_backup_is_not_begun_for_this_one() -> None:
    world = quiet()
    timeline = Timeline(store=world.home, uid=UID)
    newest = next(timeline.newest_first())
    due = replace(newest.decision, time_ms=newest.decision.time_ms + 5 * MINUTE, kind=DecisionKind.FIRED)
    timeline.append(due, replace(TARGET, backup="shop-0"), behind=newest.seq)
    assert [each.state for each in look(world, after_ms=5 * MINUTE).runs] == ["waiting"]
    assert [each.state for each in look(world, after_ms=4 * MINUTE + 1).runs] == ["missed"]
    assert not world.begun


def test_only_so_many_runs_are_told_and_old_decisions_are_deleted() -> None:
    world = quiet(history=3)
    for _ in range(KEPT_DECISIONS + 20):
        status = look(world, after_ms=5 * MINUTE)
        world.run_processes()
    assert len(status.runs) == 3
    assert len(line(world)) <= KEPT_DECISIONS + 1
    assert len(world.begun) == KEPT_DECISIONS + 20


def test_one_decision_follows_another_and_an_old_look_decides_nothing() -> None:
    world = quiet()
    timeline = Timeline(store=world.home, uid=UID)
    newest = next(timeline.newest_first())
    later = replace(newest.decision, time_ms=newest.decision.time_ms + 1)
    assert timeline.append(later, None, behind=newest.seq)
    assert not timeline.append(replace(later, left_out=1), None, behind=newest.seq)


def end(world: ScheduleWorld, exit_code: int, *, result: str = "", said: str = "") -> None:
    """The job that runs ends so."""
    process = world.processes.pop()
    job = process.job
    ended = JobEnd(id=job, at_ms=world.now_ms, exit_code=exit_code, result=result, said=said)
    JobRecords(store=world.store, layout=JobLayout(job=job)).put_end(ended, secret=process.secret)


MOVED = replace(TARGET, place=RepositoryPlace(account="new", repository="memory:///two"), backup="shop-2")


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_schedule_goes_on_when_the_account_of_its_last_run_is_no_more(is_begun: bool) -> None:
    world = quiet()
    if not is_begun:
        timeline = Timeline(store=world.home, uid=UID)
        newest = next(timeline.newest_first())
        due = replace(newest.decision, time_ms=newest.decision.time_ms + 5 * MINUTE, kind=DecisionKind.FIRED)
        timeline.append(due, TARGET, behind=newest.seq)
    look(world, after_ms=5 * MINUTE)
    world.processes.clear()
    world.closed[TARGET.place] = BadResource("account 'main' no longer exists", hint="known: new")
    world.target, before = MOVED, len(world.begun)
    status = look(world, after_ms=2 * MINUTE)
    assert (status.problem, [each.state for each in status.runs]) == ("", ["unknown"])
    assert "account 'main' no longer exists" in status.runs[0].message
    status = look(world, after_ms=3 * MINUTE)
    assert [each.state for each in status.runs] == ["starting", "unknown"]
    assert len(world.begun) == before + 1


def test_a_repository_in_use_that_does_not_answer_is_waited_for_and_an_old_one_is_not() -> None:
    world = quiet()
    look(world, after_ms=5 * MINUTE)
    world.closed[TARGET.place] = StoreUnreachable("no answer", hint="")
    with pytest.raises(StoreUnreachable):
        look(world, after_ms=5 * MINUTE)
    world.target = MOVED
    assert [each.state for each in look(world).runs] == ["starting", "unknown"]


@pytest.mark.parametrize(
    ("exit_code", "result", "said", "told"),
    [
        (13, "", '{"error": {"id": "OFF-1302", "message": "fails its CRC32C"}}', "failed: OFF-1302: fails its CRC32C"),
        (13, '{"proven": false, "findings": ["orders/0: other"]}', "", "failed: orders/0: other"),
        (3, '{"proven": null, "problem": "nothing to compare"}', "", "was done in part: nothing to compare"),
        (1, "", "", "failed: its command gave no reason"),
    ],
)
def test_a_run_that_failed_is_told_until_one_succeeds(exit_code: int, result: str, said: str, told: str) -> None:
    world = quiet(history=1)
    look(world, after_ms=5 * MINUTE)
    assert look(world).failure == ""
    end(world, exit_code, result=result, said=said)
    assert told in look(world).failure
    assert told in look(world, after_ms=5 * MINUTE).failure, "the next one runs"
    end(world, 0)
    assert look(world).failure == ""


def test_a_lost_run_and_a_missed_one_are_told_as_failures() -> None:
    world = quiet()
    look(world, after_ms=5 * MINUTE)
    world.processes.clear()
    assert "was lost" in look(world, after_ms=4 * MINUTE).failure
    world = quiet()
    world.target = None
    look(world, after_ms=5 * MINUTE)
    assert "was missed" in look(world, after_ms=4 * MINUTE + 30_000).failure


def test_what_is_due_while_the_backup_is_paused_is_skipped_and_said_why() -> None:
    world = quiet()
    world.target = SkipReason(reason="shop-1 is paused: nothing is copied")
    status = look(world, after_ms=5 * MINUTE)
    assert [(each.state, each.message) for each in status.runs] == [("skipped", "shop-1 is paused: nothing is copied")]
    assert (status.problem, status.failure, world.begun) == ("", "", [])
    world.target = TARGET
    assert [each.state for each in look(world, after_ms=5 * MINUTE).runs] == ["starting", "skipped"]


def test_a_clock_that_was_ahead_once_is_told_and_silences_nothing() -> None:
    world = quiet()
    now_ms, year_ms = world.now_ms, 365 * 24 * 60 * MINUTE
    look(world, after_ms=year_ms)
    world.processes.clear()
    world.now_ms = now_ms + MINUTE
    assert "a clock is or was wrong" in look(world).clock
    status = look(world)
    assert status.clock
    assert status.next_ms == now_ms + 5 * MINUTE
    before = len(world.begun)
    status = look(world, after_ms=5 * MINUTE)
    assert (status.clock, len(world.begun)) == ("", before + 1)


def test_what_was_left_out_behind_a_suspension_is_told() -> None:
    world = quiet()
    world.wanted = replace(world.wanted, suspend=True)
    look(world, after_ms=MINUTE)
    world.wanted = replace(world.wanted, suspend=False)  # and no operator runs for an hour
    status = look(world, after_ms=60 * MINUTE)
    assert [each.state for each in status.runs] == ["skipped"]
    assert "12 times left out" in status.runs[0].message


def test_a_schedule_whose_job_runs_says_so() -> None:
    world = quiet()
    assert look(world, after_ms=5 * MINUTE).is_running
    end(world, 0)
    assert not look(world).is_running


@pytest.mark.parametrize(
    ("action", "phase", "is_whole", "expected"),
    [
        ("checkpoint", DeclaredEntryKind.STARTED, True, "shop-1"),
        ("checkpoint", DeclaredEntryKind.PAUSED, True, "is paused"),
        ("checkpoint", DeclaredEntryKind.STARTED, False, "has not completed its first full copy"),
        ("checkpoint", DeclaredEntryKind.STOPPED, True, None),
        ("drill", DeclaredEntryKind.PAUSED, True, "shop-1"),
        ("drill", DeclaredEntryKind.STOPPED, True, "shop-1"),
        ("drill", DeclaredEntryKind.STARTED, False, "has not completed its first full copy"),
    ],
)
def test_a_run_is_about_a_backup_that_may_have_it(
    action: str, phase: DeclaredEntryKind, is_whole: bool, expected: str | None
) -> None:
    world = ScheduleWorld(1, action=action)
    store = world.store
    ledger = declared_ledger(store, "dddddddd-4")
    beginning = BackupStart(backup="shop-1", path="shop", tag="default", cluster="shop", topics=("*",))
    for kind in (DeclaredEntryKind.STARTED, phase)[: 1 if phase is DeclaredEntryKind.STARTED else 2]:
        history = ledger.read()
        parts = (
            {"beginning": beginning, "settings": make_settings("7d", {})} if kind is DeclaredEntryKind.STARTED else {}
        )
        ledger.append(
            DeclaredEntry(
                seq=history.seq + 1,
                previous=history.head,
                kind=kind,
                generation=1,
                fence=1,
                word="w",
                at_ms=1,
                number=1,
                **parts,  # type: ignore[arg-type]
            ),
            to=history,
        )
    document = {
        "apiVersion": "offsite.dev/v1alpha1",
        "kind": "Backup",
        "metadata": {"name": "shop", "uid": "dddddddd-4"},
        "spec": {},
    }
    declared = parse_resource(document, source="world")
    assert isinstance(declared, Backup)
    wanted = resolve_backup(declared, (Account(name=PLACE.account, endpoint=PLACE.repository),))
    world.is_whole = is_whole
    eyes = replace(world.hands("x").observer, open_store=lambda _: store)
    found = find_target(eyes, world.wanted, wanted)
    assert (expected or "None") in str(found)
