"""The verdicts over a folder of backup files."""

from __future__ import annotations

from pathlib import Path

from offsite.metastore.backup_file import BackupFile
from offsite.metastore.folder import BackupName, NameForm
from offsite.metastore.status import metastore_status
from tests.unit.metastore.commands import HEADER, command


def made(folder: Path) -> Path:
    with BackupFile.create(folder, BackupName(topic=HEADER.topic, made_ms=1000, form=NameForm.KLIP), HEADER) as file:
        file.append([command(1)])
    return file.path


def test_what_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "link_5.bak").symlink_to(tmp_path / "none")
    (tmp_path / "folder_5.bak").mkdir()
    (tmp_path / f"{HEADER.topic}_0009.bak").write_bytes(b"no name of ours")
    found = metastore_status(tmp_path)
    assert {each.topic: each.safe for each in found.backups} == {HEADER.topic: True, "link": False, "folder": False}
