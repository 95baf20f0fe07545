"""Backups of an exactly-once application while it runs, restored to a second cluster, where it goes on."""

from __future__ import annotations

import itertools
import os
import random
import time
from dataclasses import dataclass

import pytest

from offsite.model.choices import OffsetsMode
from offsite.model.selections.rename import parse_renames
from offsite.model.selections.selection import ALL_GROUPS, parse_selection
from offsite.services.restore.planned import prepare_restore
from offsite.services.restore.request import RestoreRequest
from offsite.services.restore.run import run_restore
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.transfers import ORDERS, Application, audit, drain, make_topics, running
from tests.integration.kafka.cluster import wait_until

RESTORES = int(os.environ.get("OFFSITE_CUT_RESTORES", "4"))
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Commits that were made while the application ran."""

    groups: Groups
    application: Application
    commits: tuple[int, ...]


@pytest.fixture
def busy(groups: Groups) -> Busy:
    names = make_topics(groups.source)
    application = Application(bootstrap=groups.source.bootstrap, names=names, family=names[ORDERS])
    chance = random.Random(3)
    with running(application):
        wait_until(lambda: groups.source.end(names[ORDERS]) > 100)
        commits = []
        for _ in range(RESTORES):
            commits.append(groups.back_up(*([] if commits else names.values())).commit)
            time.sleep(chance.uniform(0, 0.3))  # backups at all moments of a transaction
    return Busy(groups=groups, application=application, commits=tuple(commits))


def restored(busy: Busy, commit: int) -> Application:
    """The application as of a commit, on the other cluster, under new names."""
    names = {name: f"{topic}.r{next(_numbers)}" for name, topic in busy.application.names.items()}
    renames = [f"{topic}={names[name]}" for name, topic in busy.application.names.items()]
    request = RestoreRequest(
        selection=parse_selection(list(busy.application.names.values())),
        renames=parse_renames(renames),
        commit=commit,
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
    )
    prepared = prepare_restore(busy.groups.site.backup, busy.groups.target.admin, request)
    result = run_restore(prepared, cluster=busy.groups.target, runner=busy.groups.site.spark)
    assert result.verified
    return busy.application.at(busy.groups.target.bootstrap, names)


def test_raw(busy: Busy) -> None:
    bad = 0
    from offsite.repository.snapshots.commit_cut import get_commit_cut
    b = busy.groups.site.backup
    for commit in busy.commits:
        st = b.state_at(commit)
        print(st.cut and get_commit_cut(b.store, st.cut))
    for commit in busy.commits[:0]:
        app = restored(busy, commit)
        found = audit(app)
        print(commit, found)
        bad += bool(found.faults)
        drain(app)
        print(audit(app, is_drained=True))
    print(bad)
