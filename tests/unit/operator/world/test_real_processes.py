"""Restores and schedules with the processes that really do jobs, against a repository in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from offsite.jobs.status import JobState
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace
from offsite.operator.decide.desired_restore import resolve_restore
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.decide.restore import RestorePhase, RestoreStatus
from offsite.operator.world.claims import Tags
from offsite.operator.world.jobs import JobStarter, local_processes
from offsite.operator.world.observe import BackupFacts, Observer
from offsite.operator.world.restores import RestoreExecutor
from offsite.operator.world.schedules import ScheduleExecutor, ScheduleStatus
from offsite.operator.world.timeline import RunTarget, Timeline
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store
from tests.worlds.operator.restore_world import UIDS, new_restore
from tests.worlds.operator.schedule_world import UID, new_schedule

T = TypeVar("T")
WAIT_S = 60


class Nothing:
    """No backups, no agents."""

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        return BackupFacts()

    def observe(self, uid: str) -> ObservedAgents:
        return ObservedAgents()

    def configure(self, uid: str, agents: DesiredAgents | None) -> None: ...


def jobs_at(folder: Path) -> JobStarter:
    store = open_folder(folder)
    Repository.init(store)
    eyes = Observer(open_store=lambda _: store, facts=Nothing(), agents=Nothing(), identity=ProcessIdentity.current())
    environment = {**os.environ, "OFFSITE_REPO": str(folder), "OFFSITE_BOOTSTRAP": "localhost:1"}
    return JobStarter(observer=eyes, processes=local_processes(at_once=2), environment_of=lambda *_: environment)


def awaited(look: Callable[[], T], done: Callable[[T], bool]) -> T:
    until = time.monotonic() + WAIT_S
    while not done(found := look()):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    return found


def test_a_restore_of_a_backup_that_there_is_not_fails_with_the_error_of_its_command(tmp_path: Path) -> None:
    jobs = jobs_at(tmp_path)
    hands = RestoreExecutor(jobs=jobs, tags=Tags(jobs.observer.open_store(RepositoryPlace(account="", repository=""))))
    wanted = resolve_restore(new_restore(UIDS[0], repository=str(tmp_path)), (Account(name="main", endpoint=""),))

    def look() -> RestoreStatus:
        return hands.reconcile(wanted, declared_uids=UIDS)

    assert look().phase is RestorePhase.RUNNING
    status = awaited(look, lambda each: each.phase.is_final)
    assert status.phase is RestorePhase.FAILED
    assert status.failure is not None
    assert status.failure.id.startswith("OFF-")
    assert status.failure.message


def test_a_checkpoint_of_a_backup_that_there_is_not_is_told_as_failed(tmp_path: Path) -> None:
    jobs = jobs_at(tmp_path)
    place = RepositoryPlace(account="", repository=str(tmp_path))
    home = jobs.observer.open_store(place)
    hands, wanted = ScheduleExecutor(jobs=jobs, home=home), new_schedule(startingDeadline="1d")
    hands.reconcile(wanted, None)
    timeline = Timeline(store=home, uid=UID)
    newest = next(timeline.newest_first())
    past = replace(newest.decision, time_ms=newest.decision.time_ms - 600_000)
    for key in [each.key for each in home.list(timeline.prefix)]:
        home.delete(key)
    assert timeline.append(past, None, behind=0)  # as if it had begun ten minutes ago

    def look() -> ScheduleStatus:
        return hands.reconcile(wanted, RunTarget(place=place, backup="none", cluster="shop"))

    status = awaited(look, lambda each: each.runs[0].state == JobState.FAILED.value)
    assert status.runs[0].message.startswith("OFF-")
