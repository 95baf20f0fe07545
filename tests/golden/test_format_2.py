"""A repository of a backup that followed its topics opens for ever: packs, roll-ups, a branch, catalogs in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.repository.repository import Repository
from offsite.upkeep.verification.run import verify_deep
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import BACKUP, Site
from tests.golden.make_format_2 import POINTS
from tests.inline_runner import InlineRunner

GOLDEN = Path(__file__).parent / "format-2"


def test_the_golden_repository_is_whole(repository: Repository) -> None:
    result = verify_deep(repository.backup(BACKUP), InlineRunner())
    assert (result.ok, result.commits, result.head_commit) == (True, 7, 7)


def test_its_state_is_what_its_commits_made(repository: Repository) -> None:
    state = repository.backup(BACKUP).state()
    (branch,) = state.branches
    assert (branch.partition_id.topic, branch.at, branch.end, branch.commit) == ("orders", 3, 5, 6)
    assert any(segment.whole is not None for segment in branch.segments)
    packed = {segment.pack is not None for segment in state.all_segments()}
    assert packed == {True, False}
    assert [repository.backup(BACKUP).state_at(seq).incomplete for seq in range(1, 8)] == [True] + [False] * 6


@pytest.mark.parametrize("commit", POINTS)
def test_each_restore_point_comes_back(repository: Repository, commit: int) -> None:
    with serving("source") as source, serving("target") as target:
        site = Site(source=source, target=target, repository=repository)
        assert site.restore(commit=commit).verified
        assert target.values("orders") == POINTS[commit]
