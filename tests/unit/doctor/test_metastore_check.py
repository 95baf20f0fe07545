from __future__ import annotations

from pathlib import Path

import pytest

from offsite.doctor import stored
from offsite.doctor.check import CheckResult, CheckVerdict
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.metastore.backup_file import BackupFile, sidecar_of
from offsite.metastore.folder import BackupName, NameForm
from tests.unit.metastore.commands import HEADER, command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "files").mkdir(mode=0o700)
    return folder


def found(folder: Path) -> CheckResult:
    return stored.metastore_files(Parts(DoctorRequest(metastore=folder)))


def made(folder: Path) -> Path:
    with BackupFile.create(folder, BackupName(topic=HEADER.topic, made_ms=1, form=NameForm.KLIP), HEADER) as file:
        file.append([command(1)])
    return file.path


def test_files_that_are_whole_are_found_so(folder: Path) -> None:
    made(folder)
    assert found(folder).verdict is CheckVerdict.OK


def test_what_no_sidecar_tells_of_is_not_called_as_it_was_written(folder: Path) -> None:
    file = made(folder)
    sidecar_of(file).unlink()
    file.write_bytes(file.read_bytes().replace(b"S1", b"S2"))
    assert "cannot be verified" in found(folder).said


def test_a_folder_without_a_backup_is_no_backup(folder: Path) -> None:
    assert found(folder).verdict is CheckVerdict.WARNING
    assert found(folder / "none").verdict is CheckVerdict.FAILED


def test_a_damaged_file_is_named_with_the_command_that_tells_all(folder: Path) -> None:
    file = made(folder)
    file.write_bytes(file.read_bytes().replace(b"S1", b"S2"))
    bad = found(folder)
    assert (bad.verdict, "line 1" in bad.said) == (CheckVerdict.FAILED, True)
    assert f"metastore verify {file}" in bad.cure


def test_what_others_can_read_is_told(folder: Path) -> None:
    made(folder)
    folder.chmod(0o755)
    assert (found(folder).verdict, found(folder).cure) == (CheckVerdict.WARNING, f"chmod go= {folder}")
