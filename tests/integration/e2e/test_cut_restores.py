"""Backups of an exactly-once application while it runs, restored to a second cluster, where it goes on.

Also one that deletes what it has read, while runs that follow it are stopped amid their rounds.
The ends as they were copied have to break it in the same run: else the other restores prove nothing.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import Checkpoints
from offsite.engine.runner import Runner
from offsite.kafka.cluster import connect
from offsite.model.errors import NoConsistentCut
from offsite.model.options import CutChoice, OffsetsMode
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.transfers import ORDERS, RECEIPTS, Application, Names, audit, drain, make_topics, running
from tests.integration.kafka.cluster import wait_until
from tests.shared_spark import shared_spark

RESTORES = int(os.environ.get("OFFSITE_CUT_RESTORES", "3"))
SOAK = int(os.environ.get("OFFSITE_CUT_RESTORES_SOAK", "60"))
COMMITS = max(RESTORES, 12)
"""So many are tried until the ends as copied of one of them break the application; of eight, four did."""
_numbers = itertools.count()
pytestmark = pytest.mark.timeout(180 + 30 * RESTORES)


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> Runner:
    """None, but in the soak: where ends are taken and groups stand is decided before any task runs."""
    runner: Callable[[], Runner] = getattr(request, "param", InlineRunner)
    return runner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Commits that were made while the application ran."""

    groups: Groups
    application: Application
    commits: tuple[int, ...]

    def cut(self, commit: int) -> CommitCut:
        backup = self.groups.site.backup
        ref = backup.state_at(commit).cut
        assert ref is not None, "the commit has no cut"
        return get_commit_cut(backup.store, ref)


@pytest.fixture
def busy(groups: Groups) -> Busy:
    names = make_topics(groups.source)
    application = Application(bootstrap=groups.source.bootstrap, names=names, family=names[ORDERS])
    chance, commits = random.Random(3), []
    with running(application):
        wait_until(lambda: groups.source.end(names[ORDERS]) > 100)
        while len(commits) < COMMITS:
            commits.append(take_checkpoint(groups) if len(commits) % 2 else back_up(groups, names, is_new=not commits))
            time.sleep(chance.uniform(0, 0.3))  # backups at all moments of a transaction
        assert groups.stopped_amid().incomplete
    return Busy(groups=groups, application=application, commits=tuple(commits))


def back_up(groups: Groups, names: Names, *, is_new: bool) -> int:
    return groups.back_up(*(names.values() if is_new else [])).commit


def take_checkpoint(groups: Groups) -> int:
    """The commit that carries a new checkpoint."""
    site = groups.site
    asked = request_checkpoint(site.backup, None)
    server = CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=connect(groups.source.bootstrap, None),
        runner=site.spark,
    )
    assert server.serve()
    report = Checkpoints(site.backup).report(asked.id)
    assert report.status == "completed", report
    return report.commit


def restored(busy: Busy, commit: int | None, cut: CutChoice) -> Application:
    """The application as of a commit (None: the default), on the other cluster, under new names."""
    names = {name: f"{topic}.r{next(_numbers)}" for name, topic in busy.application.names.items()}
    request = RestoreRequest(
        selection=parse_selection(list(busy.application.names.values())),
        renames=parse_renames([f"{topic}={names[name]}" for name, topic in busy.application.names.items()]),
        commit=commit,
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
        cut=cut,
    )
    prepared = prepare_restore(busy.groups.site.backup, busy.groups.target.admin, request)
    assert run_restore(prepared, cluster=busy.groups.target, runner=busy.groups.site.spark).verified
    return busy.application.at(busy.groups.target.bootstrap, names)


def assert_goes_on(application: Application) -> None:
    assert audit(application).faults == ()
    drain(application)
    assert audit(application, is_drained=True).faults == ()


@pytest.mark.parametrize(
    "spark", [InlineRunner, pytest.param(shared_spark, marks=pytest.mark.soak)], indirect=True, ids=["inline", "spark"]
)
@pytest.mark.soak
def test_the_application_goes_on_from_each_cut_and_breaks_at_ends_as_copied(busy: Busy) -> None:
    for commit in busy.commits[: RESTORES - 1]:
        assert not busy.cut(commit).refused
        assert_goes_on(restored(busy, commit, CutChoice.CONSISTENT))
    assert_goes_on(restored(busy, None, CutChoice.AUTO))
    faults = (audit(restored(busy, commit, CutChoice.AS_COPIED)).faults for commit in busy.commits)
    assert any(faults), "ends as they were copied broke nothing: the application tests nothing"


@pytest.mark.soak
def test_how_many_commits_break_the_application_as_copied(busy: Busy) -> None:
    broken = [commit for commit in busy.commits if audit(restored(busy, commit, CutChoice.AS_COPIED)).faults]
    print(f"{len(broken)} of {len(busy.commits)} commits broke it")  # noqa: T201  # shown with -rP
    assert broken


@pytest.mark.parametrize(
    "restores",
    [
        3,
        pytest.param(SOAK, marks=[pytest.mark.soak, pytest.mark.timeout(60 + 60 * SOAK)]),
    ],
)
def test_one_that_deletes_what_it_has_read_goes_on_also_where_a_round_was_stopped(
    groups: Groups, restores: int
) -> None:
    """Of each three commits a run makes one, a round the next, and a run that is stopped amid a round the last: there
    the default is restored, while it is the newest."""
    names = make_topics(groups.source)
    application = Application(bootstrap=groups.source.bootstrap, names=names, family=names[ORDERS], deletes=True)
    busy, faults, refused = Busy(groups=groups, application=application, commits=()), dict[str, tuple[str, ...]](), 0
    for turn in range(restores):
        with running(application, seed=turn):
            moved = groups.source.end(names[RECEIPTS]) + 20  # its groups have committed by then
            wait_until(partial(lambda moved: groups.source.end(names[RECEIPTS]) > moved, moved))
            commits = [back_up(groups, names, is_new=not turn), groups.follower().work().state.seq]
            assert groups.stopped_amid().incomplete
        assert audit(application).faults == (), "the application itself is wrong: restores of it prove nothing"
        for commit in (*commits, None):
            try:
                at = restored(busy, commit, CutChoice.AUTO if commit is None else CutChoice.CONSISTENT)
            except NoConsistentCut:  # it could not be reached, which the commit says
                refused += 1
                continue
            found = audit(at).faults
            drain(at)
            which = f"the default of turn {turn}" if commit is None else f"commit {commit}"
            faults[which] = (*found, *audit(at, is_drained=True).faults)
            groups.target.admin.delete_topics(list(at.names.values()))
        if len(faults) >= restores:
            break
    exact = sum(not each for each in faults.values())
    print(f"{exact} of {len(faults)} exact, {refused} commits without a cut")  # noqa: T201  # shown with -rP
    assert exact == len(faults) >= restores, {which: found for which, found in faults.items() if found}
