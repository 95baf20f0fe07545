"""A killed restore and newer backups: the same command continues what is there, or begins anew with what is newest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import OnProgress, Runner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.model.errors import TargetNotEmpty
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.overview.status import read_status
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.command import offsite
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import wait_until
from tests.passing_runner import PassingRunner, ResultT, TaskT


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: which restore goes on is the driver's decision."""
    return CrossingRunner()


class KilledError(BaseException):
    """Stands for the end of the process."""


class KilledRunner(PassingRunner):
    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> NoReturn:
        raise KilledError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A backup of two commits, 10 and 15 records, and a restore of its first one that was killed."""

    site: Site
    topic: str
    target: str
    commits: tuple[int, int]
    killed: str

    @property
    def admin(self) -> ClusterAdmin:
        return self.site.cluster.admin

    def prepare(self) -> PlannedRestore:
        return prepared(self.site, self.topic, self.target)

    def run(self) -> RestoreResult:
        config = self.site.cluster.config
        return run_restore(self.prepare(), cluster=Cluster(config=config, admin=self.admin), runner=self.site.spark)

    def delete_target(self) -> None:
        self.admin.delete_topics([self.target])
        wait_until(lambda: self.target not in self.admin.topics())


def prepared(site: Site, topic: str, target: str) -> PlannedRestore:
    request = RestoreRequest(selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]))
    return prepare_restore(site.backup, site.cluster.admin, request)


def messages(start: int, end: int) -> list[DemoMessage]:
    return [DemoMessage(key=b"k", value=b"%d" % n, timestamp_ms=BASE_MS + n) for n in range(start, end)]


@pytest.fixture
def stale(site: Site) -> Stale:
    topic = site.make_topic()
    target = new_name(topic)
    site.produce(topic, messages(0, 10))
    first = site.back_up(topic).commit
    plan = prepared(site, topic, target)
    with pytest.raises(KilledError):
        run_restore(plan, cluster=site.cluster, runner=KilledRunner(site.spark))
    site.produce(topic, messages(10, 15))
    commits = (first, site.back_up().commit)
    return Stale(site=site, topic=topic, target=target, commits=commits, killed=plan.record.restore)


def test_where_a_target_is_still_there_the_old_commit_is_continued_and_the_newer_one_named(stale: Stale) -> None:
    report = report_plan(stale.prepare())
    assert (report.restore, report.resumes, report.commit, report.newer_commit) == (stale.killed, True, *stale.commits)
    result = stale.run()
    assert (result.restore, result.resumed, result.commit, result.newer_commit) == (stale.killed, True, *stale.commits)
    assert (result.records, result.verified) == (10, True)


def test_where_none_is_the_newest_commit_is_restored_and_the_old_restore_is_given_up(stale: Stale) -> None:
    stale.delete_target()
    result = stale.run()
    assert (result.resumed, result.commit, result.newer_commit) == (False, stale.commits[1], None)
    assert (result.records, result.verified) == (15, True)
    assert stale.killed != result.restore
    (status,) = read_status(stale.site.repository).backups
    assert not any(stale.killed in note for note in status.notes)
    stale.delete_target()
    again = stale.run()
    assert (again.resumed, again.records) == (False, 15)


def test_a_restore_that_was_given_up_is_not_continued_into_the_topics_of_the_later_one(stale: Stale) -> None:
    stale.delete_target()
    plan, site = stale.prepare(), stale.site
    with pytest.raises(KilledError):
        run_restore(
            plan, cluster=Cluster(config=site.cluster.config, admin=stale.admin), runner=KilledRunner(site.spark)
        )
    assert (plan.resumes, stale.prepare().record.restore) == (False, plan.record.restore)
    result = stale.run()
    assert (result.restore, result.resumed, result.commit, result.records) == (
        plan.record.restore,
        True,
        stale.commits[1],
        15,
    )


def test_who_asks_in_other_words_is_told_those_that_continue_it(stale: Stale) -> None:
    stale.site.produce(stale.target, messages(0, 3))  # as far as it came
    other = replace(stale.prepare().request, commit=stale.commits[0])
    with pytest.raises(TargetNotEmpty) as refused:
        prepare_restore(stale.site.backup, stale.admin, other)
    assert f"the unfinished restore {stale.killed}" in refused.value.hint
    assert f"renames={stale.topic}={stale.target}" in refused.value.hint


def test_people_are_told_which_commit_came_back_and_of_the_newer_one(stale: Stale) -> None:
    old, new = stale.commits
    options = ["--repo", stale.site.repository.store.url, "--backup", stale.site.backup.descriptor.name]
    ends = ["--bootstrap", stale.site.cluster.bootstrap, "--topics", stale.topic]
    rename = ["--rename", f"{stale.topic}={stale.target}"]
    planned = offsite("restore", "plan", *options, *ends, *rename, "--offsets", "translate", "-o", "table")
    assert f"as of commit {old} into" in planned.stdout
    assert f"the backup has commit {new} by now" in planned.stdout
    done = offsite("restore", "run", *options, *ends, *rename, "--offsets", "translate", "--yes", "-o", "table")
    assert f"as of commit {old}" in done.stdout
    assert f"the backup has commit {new} by now" in done.stdout
