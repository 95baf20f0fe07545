"""Declared restores: random courses of two operators, and single promises."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from offsite.jobs.ask import cancel_job
from offsite.model.errors import BadResource, OffsiteError
from offsite.operator.decide.restore import RestorePhase, RestoreStatus
from offsite.operator.resources.jobs import Restore, RestoreState
from offsite.operator.world.restores import GONE_MS
from offsite.repository.declared.entry import (
    OWNER,
    BackupStart,
    DeclaredEntry,
    DeclaredEntryKind,
    Owner,
    make_settings,
)
from offsite.repository.declared.layout import owner_key
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.declared.restore_log import AttemptEnd, AttemptOutcome, RestoreEntry, restore_log
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.stores.store import Store
from tests.worlds.operator.restore_world import PLACES, UIDS, RestoreWorld, new_restore

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000"))
STEPS, CALM_MAX = 40, 200
UID, OTHER, _ = UIDS


def play(seed: int) -> RestoreWorld:
    """A course of events under faults, then calm."""
    world = RestoreWorld(seed)
    for _ in range(STEPS):
        event = world.rng.random()
        if event < 0.03:
            world.stop_one()
        elif event < 0.65:
            world.operate(world.rng.choice(world.operators), faults=True)
        elif event < 0.72:
            world.lose_one()
        elif event < 0.78 and world.processes:
            world.rng.choice(world.processes).frozen = world.rng.randint(1, 12)
        elif event < 0.79:
            world.forget()
        world.now_ms += world.rng.choice([1000, 5000, 5000, 40_000])
        world.run_processes()
    calm(world)
    return world


def calm(world: RestoreWorld) -> None:
    world.is_calm = True
    for _ in range(CALM_MAX):
        found: dict[str, RestoreStatus] = {}
        for operator in world.operators:
            found = world.operate(operator, faults=False)
        world.now_ms += 10_000
        world.run_processes()
        if len(found) == len(UIDS) and all(each.phase.is_final for each in found.values()) and not world.processes:
            return
    raise AssertionError(found)


def test_a_restore_is_done_once_whoever_operates() -> None:
    for seed in range(50):
        played(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(3600)
def test_a_restore_is_done_once_in_many_courses() -> None:
    for seed in range(SEEDS):
        played(seed)


def played(seed: int) -> None:
    try:
        world = play(seed)
        before = {uid: list(jobs) for uid, jobs in world.begun.items()}
        for uid, restore in world.restores.items():
            log = restore_log(store_of(world, restore), uid).read()
            assert log.is_over
        world.now_ms += 10**9
        for operator in world.operators:
            world.operate(operator, faults=False)
        assert world.begun == before, "a finished restore was begun again"
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def store_of(world: RestoreWorld, restore: Restore) -> Store:
    return next(store for place, store in world.stores.items() if restore.spec.backup_url.startswith(place.repository))


class Course:
    """A world with one operator and no faults, step by step."""

    def __init__(self, **spec: object) -> None:
        self.world = RestoreWorld(1)
        self.world.is_calm = True
        self.restore = new_restore(UID, **spec)
        self.known = set(UIDS)

    def look(self, restore: Restore | None = None) -> RestoreStatus:
        hands = self.world.hands(self.world.operators[0], faults=False)
        return hands.reconcile(self.world.wanted(restore or self.restore), declared_uids=self.known)

    def until(self, done: Callable[[RestoreStatus], bool]) -> RestoreStatus:
        for _ in range(50):
            if done(status := self.look()):
                return status
            self.world.now_ms += 10_000
            self.world.run_processes()
        raise AssertionError(status)

    def end(self, exit_code: int, *, result: str = "", said: str = "") -> None:
        """The job that runs ends so."""
        (process,) = self.world.processes
        records = JobRecords(store=self.world.stores[PLACES[0]], layout=JobLayout(job=process.job))
        records.put_end(
            JobEnd(id=process.job, at_ms=self.world.now_ms, exit_code=exit_code, result=result, said=said),
            secret=process.secret,
        )
        self.world.processes.clear()


def test_a_restore_that_succeeded_is_completed_and_tells_what_was_proven() -> None:
    course = Course()
    assert course.look().phase is RestorePhase.RUNNING
    course.end(0, result='{"verified": true}')
    status = course.look()
    assert (status.phase, status.verified, status.conditions) == (RestorePhase.COMPLETED, True, ())
    assert status.job


def test_a_failed_restore_tells_the_error_of_its_command() -> None:
    course = Course()
    course.look()
    said = 'restoring\n{"error": {"id": "OFF-1402", "exit_code": 14, "message": "not empty", "hint": "rename"}}\n'
    course.end(14, said=said)
    status = course.look()
    assert status.phase is RestorePhase.FAILED
    assert status.failure is not None
    assert (status.failure.id, status.failure.message, status.failure.hint) == ("OFF-1402", "not empty", "rename")
    assert "not empty" in status.conditions[0].message


def test_a_lost_restore_goes_on_with_the_same_words_when_what_it_held_has_run_out() -> None:
    course = Course()
    course.look()
    first = course.world.begun[UID][0]
    course.world.processes.clear()
    status = course.until(lambda each: each.attempts == 2)
    assert status.phase is RestorePhase.RUNNING
    assert course.world.begun[UID] == [first, status.job]


def test_a_process_of_a_lost_job_that_begins_late_does_nothing() -> None:
    course = Course()
    course.look()
    (late,) = course.world.processes
    course.world.processes.clear()
    course.until(lambda each: each.attempts == 2)
    assert not late.step(course.world)


def test_a_stopped_restore_is_cancelled_and_one_that_never_ran_is_never_begun() -> None:
    course = Course()
    course.look()
    stopped = new_restore(UID, state="stopped")
    assert course.look(stopped).phase is RestorePhase.STOPPING
    course.world.run_processes()
    assert course.look(stopped).phase is RestorePhase.STOPPED
    assert course.look().phase is RestorePhase.STOPPED  # on a stale spec
    other = Course()
    assert other.look(stopped).phase is RestorePhase.STOPPED
    assert other.look().phase is RestorePhase.STOPPED
    assert not other.world.begun[UID]


@pytest.mark.parametrize("effect", range(24))
def test_an_operator_that_slept_while_a_restore_was_stopped_begins_it_no_more(effect: int) -> None:
    course, stopped = Course(), new_restore(UID, state="stopped")
    world, said = course.world, list[RestorePhase]()

    def sleep() -> None:
        for _ in range(4):
            world.now_ms += 40_000
            said.append(course.look(stopped).phase)

    sleepy = world.sleepy_hands("sleepy", effect, sleep)
    with suppress(OffsiteError):
        sleepy.reconcile(world.wanted(course.restore), declared_uids=UIDS)
    if RestorePhase.STOPPED in said:
        world.ended.add(UID)  # from now on no process may do anything
    world.run_processes()
    assert course.look(stopped).phase in {RestorePhase.STOPPED, RestorePhase.STOPPING}


def test_a_restore_that_somebody_cancelled_is_not_begun_again() -> None:
    course = Course()
    job = course.look().job
    cancel_job(course.world.stores[PLACES[0]], job, by="somebody")
    course.world.processes.clear()  # it vanishes before it tells its end
    status = course.until(lambda each: each.phase.is_final)
    assert status.phase is RestorePhase.STOPPED
    assert course.world.begun[UID] == [job]


def test_one_restore_of_a_tag_runs_at_a_time_in_a_cluster_also_from_another_repository() -> None:
    course = Course()
    course.look()
    other = new_restore(OTHER, repository=PLACES[1].repository)
    assert course.look(other).phase is RestorePhase.WAITING
    assert course.look(new_restore(UIDS[2], tag="another")).phase is RestorePhase.RUNNING
    course.world.processes = course.world.processes[:1]
    course.end(0)
    assert course.look(other).phase is RestorePhase.WAITING, "nobody told the end of the first one yet"
    assert course.look().phase is RestorePhase.COMPLETED
    assert course.look(other).phase is RestorePhase.RUNNING


def test_a_tag_of_a_restore_that_is_gone_is_free_when_nothing_of_it_runs() -> None:
    course = Course()
    course.look()
    course.world.processes.clear()
    course.known.remove(UID)
    other = new_restore(OTHER)
    assert course.look(other).phase is RestorePhase.WAITING
    course.world.now_ms += GONE_MS + 1
    course.look(other)
    assert course.look(other).phase is RestorePhase.RUNNING
    assert course.look().phase is RestorePhase.STOPPED  # by an operator that still knows it


def test_a_finished_restore_is_not_run_again_when_its_jobs_were_deleted() -> None:
    course = Course()
    course.look()
    course.end(0)
    course.world.forget()  # before any operator looked
    status = course.look()
    assert status.phase is RestorePhase.FAILED
    assert status.failure is not None
    assert "is unknown" in status.failure.message
    assert len(course.world.begun[UID]) == 1


def test_a_restore_that_was_done_is_told_to_be_unproven_once_its_jobs_were_deleted() -> None:
    course = Course()
    course.look()
    course.end(0)
    assert course.look().conditions == ()
    course.world.forget()
    status = course.look()
    assert status.phase is RestorePhase.COMPLETED
    assert [each.message for each in status.conditions] == [
        "its job is missing: there is no proof that the restore was done"
    ]
    assert len(course.world.begun[UID]) == 1


def test_a_restore_whose_process_always_vanishes_fails_at_last() -> None:
    course = Course()
    for _ in range(2000):
        status = course.look()
        course.world.processes.clear()
        course.world.now_ms += 70_000
        if status.phase.is_final:
            break
    assert status.phase is RestorePhase.FAILED
    assert status.failure is not None
    assert "20 times" in status.failure.message


def test_a_time_of_another_cluster_is_refused_where_the_backup_is_a_declared_one() -> None:
    course = Course(timestamp="2026-11-20T14:00:00Z", sourceCluster="shop")
    declare(course, cluster="bank")
    status = course.look()
    assert status.phase is RestorePhase.PENDING
    assert "belongs to bank, not to shop" in status.conditions[0].message
    assert not course.world.begun[UID]


def test_a_time_of_the_cluster_of_the_backup_is_taken() -> None:
    course = Course(timestamp="2026-11-20T14:00:00Z", sourceCluster="shop")
    declare(course, cluster="shop")
    assert course.look().phase is RestorePhase.RUNNING


def declare(course: Course, *, cluster: str) -> None:
    """The backup is that of a declared resource whose source is `cluster`."""
    store, owner, name = course.world.stores[PLACES[0]], "dddddddd-4", f"backup-{UID}"
    store.put_if_absent(owner_key(name), OWNER.encode(Owner(uid=owner)))
    ledger = declared_ledger(store, owner)
    beginning = BackupStart(backup=name, path=name, tag="default", cluster=cluster, topics=("*",))
    entry = DeclaredEntry(
        seq=1,
        previous="",
        kind=DeclaredEntryKind.STARTED,
        generation=1,
        fence=1,
        word="w",
        at_ms=1,
        number=1,
        beginning=beginning,
        settings=make_settings("7d", {}),
    )
    ledger.append(entry, to=ledger.read())


@pytest.mark.parametrize("effect", range(16))
def test_a_restore_that_is_deleted_while_another_operator_begins_it_goes_only_when_it_is_over(effect: int) -> None:
    course = Course()
    world, gone = course.world, list[bool]()

    def deleted_meanwhile() -> None:
        """As `RestoreKeeper.let_go` of a second operator."""
        other = world.hands(world.operators[1], faults=False)
        stopped = replace(world.wanted(course.restore), state=RestoreState.STOPPED)
        gone.append(other.reconcile(stopped, declared_uids=UIDS).phase.is_final)

    sleepy = world.sleepy_hands("x", effect, deleted_meanwhile)
    sleepy.reconcile(world.wanted(course.restore), declared_uids=UIDS)
    assert not (any(gone) and world.begun[UID]), "deleted, and runs"


def test_nothing_begins_when_what_is_declared_is_in_force_no_more() -> None:
    course = Course()
    course.world.is_in_force = False
    assert course.look().phase is RestorePhase.PENDING
    assert not course.world.begun[UID]
    course.world.is_in_force = True
    assert course.look().phase is RestorePhase.RUNNING


GONE_REPOSITORY = BadResource("account 'main' no longer exists", hint="")


def test_a_restore_that_cannot_begin_takes_no_tag_from_others() -> None:
    course = Course(cluster="nowhere")
    course.world.clusters = frozenset({"target"})
    assert "no cluster 'nowhere'" in course.look().conditions[0].message
    course.world.clusters = None
    assert course.look(new_restore(OTHER, cluster="nowhere")).phase is RestorePhase.RUNNING


def test_who_waits_for_a_tag_is_told_for_whom_and_that_its_repository_cannot_be_opened() -> None:
    course = Course()
    course.look()
    other = new_restore(OTHER, repository=PLACES[1].repository)
    assert f"it waits for restore {UID[:4]} with the tag" in course.look(other).conditions[0].message
    course.world.closed[PLACES[0]] = GONE_REPOSITORY
    status = course.look(other)
    assert status.phase is RestorePhase.WAITING
    assert f"restore {UID[:4]}, whose repository memory:///one cannot be opened" in status.conditions[0].message


def test_the_tag_of_a_restore_that_is_gone_with_its_repository_is_free_after_a_while() -> None:
    course = Course()
    course.look()
    course.world.closed[PLACES[0]] = GONE_REPOSITORY
    course.known.remove(UID)
    other = new_restore(OTHER, repository=PLACES[1].repository)
    assert course.look(other).phase is RestorePhase.WAITING
    course.world.now_ms += GONE_MS + 1
    assert course.look(other).phase is RestorePhase.RUNNING


YEAR_2099_MS = 4_070_908_800_000


def forge(course: Course, *ends: AttemptEnd | None, at_ms: int = 0, fence: int = 0) -> None:
    """Somebody else writes these entries into the log of the restore."""
    log = restore_log(course.world.stores[PLACES[0]], UID)
    for end in ends:
        now = log.read()
        entry = RestoreEntry(
            seq=now.seq + 1, previous=now.head, attempt=1, fence=fence, word="x", at_ms=at_ms, by="stranger", end=end
        )
        assert log.append(entry, to=now)


def test_an_end_that_is_dated_in_the_future_counts_as_past() -> None:
    course = Course()
    forge(course, None, AttemptEnd(outcome=AttemptOutcome.LOST), at_ms=YEAR_2099_MS)
    assert course.look().phase is RestorePhase.RUNNING


def test_an_entry_by_a_lock_that_nobody_held_is_told_as_damage() -> None:
    course = Course()
    forge(course, None, AttemptEnd(outcome=AttemptOutcome.LOST), fence=10**15)
    course.world.now_ms += 10**6
    status = course.look()
    assert not course.world.begun[UID]
    assert "which does not exist yet" in status.conditions[0].message
    hands = course.world.hands(course.world.operators[0], faults=False)
    assert hands.is_barred(course.world.wanted(course.restore))


def test_a_success_that_no_job_tells_of_is_not_proven() -> None:
    course = Course()
    forge(
        course,
        None,
        AttemptEnd(outcome=AttemptOutcome.SUCCEEDED, verified=True, job="forged"),
        at_ms=course.world.now_ms,
    )
    status = course.look()
    assert (status.phase, status.verified) == (RestorePhase.COMPLETED, None)
    assert status.failure is not None
    assert "not proven" in status.failure.message
    (told,) = status.conditions
    assert told.message == "its job is missing: there is no proof that the restore was done"
