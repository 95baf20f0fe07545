"""A repository with groups of every kind opens for ever: positions of share groups, settings of groups and brokers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from offsite.groups.report import show_groups
from offsite.kafka.protocol.configs import BROKER, GROUP
from offsite.model.selection import ALL_GROUPS
from offsite.repository.repository import Repository
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.upkeep.verification.run import verify_deep
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import BACKUP, Site
from tests.golden.make_groups_2 import FORMATS, POINTS, SETTINGS
from tests.inline_runner import InlineRunner

GOLDEN = Path(__file__).parent / "groups-2"


def test_the_golden_repository_is_whole(repository: Repository) -> None:
    result = verify_deep(repository.backup(BACKUP), InlineRunner())
    assert (result.ok, result.commits, result.head_commit) == (True, 3, 3)


@pytest.mark.parametrize("commit", FORMATS)
def test_only_snapshots_with_share_groups_are_of_format_2(repository: Repository, commit: int) -> None:
    from pyarrow import parquet

    backup = repository.backup(BACKUP)
    key = backup.state_at(commit).groups
    assert key is not None
    stored = backup.store.get(key)
    assert stored is not None
    about = json.loads(parquet.read_schema(io.BytesIO(stored)).metadata[b"offsite.groups"])
    assert about["format"] == FORMATS[commit]


@pytest.mark.parametrize("commit", POINTS)
def test_its_groups_are_what_they_were(repository: Repository, commit: int) -> None:
    groups = show_groups(repository.backup(BACKUP), groups=ALL_GROUPS, commit=commit).groups
    assert {group.group for group in groups} == POINTS[commit].keys()
    for group in groups:
        made = POINTS[commit][group.group]
        assert (group.kind, group.reset) == (made.kind, made.reset)
        assert dict(group.topics[0].offsets) == dict(enumerate(made.offsets))


def test_its_settings_are_what_they_were(repository: Repository) -> None:
    backup = repository.backup(BACKUP)
    key = backup.state_at(2).metadata
    assert key is not None
    configs = get_cluster_snapshot(backup.store, key).configs
    assert {(of.kind, of.name): dict(of.configs) for of in configs} == SETTINGS


def test_positions_and_settings_come_back(repository: Repository) -> None:
    with serving("source") as source, serving("target") as target:
        target.has_share_groups = target.sets_positions = True
        site = Site(source=source, target=target, repository=repository)
        result = site.restore(commit=2, groups=["all"], metadata="all")
        assert result.groups is not None
        assert dict(result.groups.kinds) == {name: group.kind for name, group in POINTS[2].items()}
        assert target.committed("workers", "jobs") == {0: 1}
        assert target.committed("starters", "jobs") == {0: 0, 1: 2}, "one without a position begins at the first"
        assert target.committed("readers", "jobs") == {0: 1, 1: 2}
        kinds = {"brokers": BROKER, "groups": GROUP}
        assert target.set_configs == {(kinds[kind], name): configs for (kind, name), configs in SETTINGS.items()}
