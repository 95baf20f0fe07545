"""A repository of a backup that lets go opens for ever: a pin on its island, expired ranges, a compacted topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.overview.contents import show_backup
from offsite.repository.commit import FOR_EVER, Pin
from offsite.repository.fold import fold
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.upkeep.verification.run import verify_deep
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import BACKUP, Site
from tests.golden.make_format_3 import LATEST, POINTS
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import offsite

GOLDEN = Path(__file__).parent / "format-3"


def test_the_golden_repository_is_whole(repository: Repository) -> None:
    result = verify_deep(repository.backup(BACKUP), InlineRunner())
    assert (result.ok, result.commits, result.head_commit) == (True, 6, 10)


def test_its_state_is_what_its_commits_made(repository: Repository) -> None:
    backup = repository.backup(BACKUP)
    state = backup.state()
    assert {known.topic: spans for known, spans in state.expired.items()} == {"orders": ((3, 5),)}
    assert {known.topic: spans for known, spans in state.compacted.items()} == {"prices": ((0, 10),)}
    assert state.pins == (Pin(seq=2, reason="end of the month", until_ms=FOR_EVER),)
    assert [line.seq for line in state.history] == [2, 6, 7, 8, 9, 10]
    (branch,) = state.branches
    assert (branch.at, branch.end, branch.expired, tuple(branch.segments)) == (4, 5, ((4, 5),), ())
    assert show_backup(backup).branches == (), "nothing of it is held"
    assert fold(BackupState(backup=BACKUP), backup.log.read(after=0)) == state


def test_what_is_shown_of_holes_says_of_which_point(repository: Repository) -> None:
    shown = offsite("show", BACKUP, "-o", "table", "--repo", repository.store.url.removeprefix("file://"))
    assert "holes as of commit 10; offsite status also counts holes of pinned restore points" in " ".join(
        shown.stdout.split()
    )


@pytest.mark.parametrize("commit", POINTS)
def test_each_restore_point_comes_back(repository: Repository, commit: int) -> None:
    with serving("source") as source, serving("target") as target:
        site = Site(source=source, target=target, repository=repository)
        assert site.restore(commit=commit).verified
        assert target.values("orders") == POINTS[commit]
        assert target.values("prices") == LATEST[commit]
