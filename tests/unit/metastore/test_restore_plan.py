"""What a restore would do, and which files it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from offsite.metastore.backup_file import BackupFile, sidecar_of
from offsite.metastore.folder import BackupName, NameForm
from offsite.metastore.restore_plan import ExistingTopic, MetastoreRestorePlan, plan_restore
from offsite.metastore.source import CommandSource
from offsite.model.errors import BackupFileDamaged
from tests.unit.metastore.commands import HEADER, command

KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with BackupFile.create(tmp_path, BackupName(topic=HEADER.topic, made_ms=1, form=NameForm.KLIP), HEADER) as file:
        file.append([command(1), command(2)])
    return file.path


def planned(file: Path, existing: ExistingTopic | None = None) -> MetastoreRestorePlan:
    source = cast("CommandSource", SimpleNamespace(topic=HEADER.topic))
    return plan_restore(source, file, existing=existing, brokers=1, skip_incompatible=False)


def there(*, undecided: bool = False, **configs: str) -> ExistingTopic:
    settings = {**KEPT, **{name.replace("_", "."): value for name, value in configs.items()}}
    return ExistingTopic(records=[command(1), command(2)], configs=settings, replication_factor=1, undecided=undecided)


def test_a_topic_that_is_gone_gets_the_settings_that_its_file_tells(tmp_path: Path) -> None:
    header = replace(HEADER, configs={"min.insync.replicas": "2", "retention.ms": "60000"})
    with BackupFile.create(tmp_path, BackupName(topic=HEADER.topic, made_ms=1, form=NameForm.KLIP), header) as file:
        file.append([command(1)])
    assert planned(file.path).configs == {**KEPT, "min.insync.replicas": "2"}
    assert planned(file.path, there(segment_ms="1000")).configs == {**KEPT, "segment.ms": "1000"}


def test_a_line_that_a_crash_tore_does_not_hinder_a_restore(made: Path) -> None:
    made.write_bytes(made.read_bytes() + b'"stream/')
    assert (planned(made).commands, planned(made).torn_bytes) == (2, 8)
    sidecar_of(made).unlink()
    with pytest.raises(BackupFileDamaged, match="torn"):
        planned(made)


def test_nothing_is_to_be_done_where_the_topic_holds_all_and_keeps_it(made: Path) -> None:
    assert planned(made, there()).changes_nothing
    mended = planned(made, there(retention_ms="60000"))
    assert (mended.is_there_already, mended.lacking) == (True, {"retention.ms": "-1"})
    assert not planned(made, there(undecided=True)).is_there_already, "more may come after an open transaction"
