"""A repository of a backup with a schema registry opens for ever; and an earlier version, which would let the registry
go with its next commit, refuses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.model.schema_registry import SubjectVersion
from offsite.repository.fold import fold
from offsite.repository.json_form import FORMAT_REGISTRY, FORMAT_RETENTION, parse_json_object
from offsite.repository.repository import Repository
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot
from offsite.repository.state import BackupState
from offsite.upkeep.verification.run import verify_deep
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import BACKUP, Site
from tests.golden.make_format_4 import FIRST, SECOND, VALUES
from tests.inline_runner import InlineRunner

GOLDEN = Path(__file__).parent / "format-4"


def test_the_golden_repository_is_whole(repository: Repository) -> None:
    result = verify_deep(repository.backup(BACKUP), InlineRunner())
    assert (result.ok, result.commits, result.head_commit) == (True, 2, 2)


def test_its_state_is_what_its_commits_made(repository: Repository) -> None:
    backup = repository.backup(BACKUP)
    state = backup.state()
    assert fold(BackupState(backup=BACKUP), backup.log.read(after=0)) == state
    assert state.registry is not None
    snapshot = get_registry_snapshot(repository.store, state.registry)
    assert [(schema.id, schema.is_gone) for schema in snapshot.schemas] == [(1, False), (2, True), (3, False)]
    assert [snapshot.by_id["", schema_id].text for schema_id in (1, 3)] == [FIRST, SECOND]
    assert snapshot.versions == (
        SubjectVersion(subject="orders-value", version=1, id=1, is_deleted=True),
        SubjectVersion(subject="orders-value", version=2, id=3),
    )


@pytest.mark.parametrize("name", ["commits/00000000000000000001.json", "commits/00000000000000000002.json"])
def test_an_earlier_version_refuses_what_it_would_let_go(name: str) -> None:
    data = (GOLDEN / "backups" / BACKUP / name).read_bytes()
    assert json.loads(data)["format"] == FORMAT_REGISTRY
    with pytest.raises(FormatTooNew):
        parse_json_object(data, source=name, damaged=DamagedObject, newest=FORMAT_RETENTION)


def test_its_records_come_back(repository: Repository) -> None:
    with serving("source") as source, serving("target") as target:
        site = Site(source=source, target=target, repository=repository)
        assert site.restore().verified
        assert target.values("orders") == VALUES
