"""Backups of a real Kafka Streams application while it runs, restored to a second cluster, where it goes on: counts and
windows come out as if nothing had happened.

Streams deletes what it has committed of its repartition topic, with a purge each second amid every backup: offsets of
its group may lie below the log that was copied. The ends as they were copied have to break it in the same run: else the
other restores prove nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from offsite.engine.runner import Runner
from offsite.kafka.cluster import connect
from offsite.model.options import CutChoice, OffsetsMode
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from tests.fetched_tools import NoTool
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups
from tests.integration.kafka.cluster import wait_until
from tests.streams.counts import PASSED, Counts, clear, clear_topics, drain, faults_of, orders_coming_in, running

SOAK = int(os.environ.get("OFFSITE_STREAMS_RESTORES", "10"))
"""Commits of each kind."""
COMMITS_APART = 500
"""Orders between two commits."""


@pytest.fixture
def spark() -> Runner:
    """None: where ends are taken and groups stand is decided before any task runs."""
    return InlineRunner()


class Busy:
    """The application at work on the source, and commits that are made meanwhile."""

    def __init__(self, groups: Groups, counts: Counts) -> None:
        self._groups, self.counts = groups, counts
        self._follower = groups.follower(counts.pattern)

    def one_shot(self) -> int:
        self._wait_for_orders()
        return self._groups.back_up(self.counts.pattern).commit

    def followed(self) -> int:
        self._wait_for_orders()
        result = self._follower.work().result
        assert result is not None, "nothing was new"
        self._follower.forget()  # one-shot runs commit in between
        return result.commit

    def _wait_for_orders(self) -> None:
        passed = self._ends(PASSED) + COMMITS_APART
        wait_until(lambda: self._ends(PASSED) >= passed, limit_s=60, every_s=0.1)

    def _ends(self, name: str) -> int:
        return sum(self._groups.source.end(self.counts.topic(name), number) for number in range(3))


@pytest.fixture
def busy(groups: Groups, request: pytest.FixtureRequest) -> Iterator[Busy]:
    counts = Counts.made(groups.source, purge_ms=request.param)
    with ExitStack() as stack:
        try:
            stack.enter_context(running(counts))
        except NoTool as error:
            pytest.skip(str(error))
        stack.enter_context(orders_coming_in(counts))
        yield Busy(groups, counts)
    clear_topics(groups.source, counts)


def faults_after(groups: Groups, counts: Counts, commit: int, cut: CutChoice) -> tuple[str, ...]:
    """What is wrong when the application has gone on from a commit on the other cluster, and has done all."""
    request = RestoreRequest(
        selection=parse_selection([counts.pattern]),
        commit=commit,
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
        cut=cut,
    )
    prepared = prepare_restore(groups.site.backup, groups.target.admin, request)
    assert run_restore(prepared, cluster=connect(groups.target.bootstrap, None), runner=groups.site.spark).verified
    there = counts.at(groups.target.bootstrap)
    drain(there)
    faults = faults_of(there)
    clear(groups.target, there)
    return faults


@pytest.mark.soak
@pytest.mark.timeout(180)
@pytest.mark.parametrize("busy", [1000], indirect=True)
def test_a_streams_application_goes_on_from_a_run_and_from_a_round(groups: Groups, busy: Busy) -> None:
    for commit in (busy.one_shot(), busy.followed()):
        assert faults_after(groups, busy.counts, commit, CutChoice.CONSISTENT) == ()


@pytest.mark.soak
@pytest.mark.timeout(300 + 120 * SOAK)
@pytest.mark.parametrize("busy", [1000, None], indirect=True, ids=["purged-each-second", "purged-by-default"])
def test_a_streams_application_goes_on_from_every_commit(groups: Groups, busy: Busy) -> None:
    commits = [commit for _ in range(SOAK) for commit in (busy.one_shot(), busy.followed())]
    faults = {commit: faults_after(groups, busy.counts, commit, CutChoice.CONSISTENT) for commit in commits}
    exact = sum(not each for each in faults.values())
    print(f"{exact} of {len(faults)} exact")  # noqa: T201  # shown with -rP
    assert exact == len(faults), {commit: found for commit, found in faults.items() if found}
    as_copied = (faults_after(groups, busy.counts, commit, CutChoice.AS_COPIED) for commit in commits)
    assert any(as_copied), "ends as they were copied broke nothing: the application tests nothing"
