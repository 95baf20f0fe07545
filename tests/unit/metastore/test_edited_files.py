"""What editors and copies change around commands: a mark before the first line, line breaks, the last one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.metastore.backup_file import BackupFile, load, sidecar_of
from offsite.metastore.comparison import verify_file
from offsite.metastore.folder import BackupName, NameForm
from offsite.metastore.reading import read_backup
from tests.unit.metastore.commands import HEADER, command

MARK = b"\xef\xbb\xbf"
LINES = b"".join(command(number).key + b":" + command(number).value + b"\n" for number in (1, 2))  # type: ignore[operator]
EDITED = {
    "a mark": MARK + LINES,
    "breaks of Windows": LINES.replace(b"\n", b"\r\n"),
    "both": MARK + LINES.replace(b"\n", b"\r\n"),
    "no last break": LINES[:-1],
    "all of it": MARK + LINES.replace(b"\n", b"\r\n")[:-2],
}


@pytest.mark.parametrize("edited", EDITED)
def test_commands_of_a_file_of_ksqldb_are_what_they_were(tmp_path: Path, edited: str) -> None:
    (tmp_path / "file").write_bytes(EDITED[edited])

    read = load(tmp_path / "file")
    assert [(each.record.key, each.record.value) for each in read.commands] == [
        (command(number).key, command(number).value) for number in (1, 2)
    ]
    assert [each.text for each in read.commands] == LINES.splitlines()
    assert (read.problems, read.torn_bytes, read.lines) == ([], 0, 2)
    assert verify_file(tmp_path / "file").ok


@pytest.mark.parametrize("edited", ["a mark", "breaks of Windows", "both"])
def test_with_a_sidecar_the_same_commands_are_whole(tmp_path: Path, edited: str) -> None:
    with BackupFile.create(tmp_path, BackupName(topic=HEADER.topic, made_ms=1, form=NameForm.KLIP), HEADER) as file:
        file.append([command(1), command(2)])
    file.path.write_bytes(EDITED[edited])

    assert [each.record for each in load(file.path).commands] == [command(1), command(2)]
    assert load(file.path).problems == []
    file.path.write_bytes(EDITED[edited].replace(b"{", b"{ ", 1))
    assert [each.what for each in load(file.path).problems][:1] == ["command 1 differs from the written command"]


@pytest.mark.parametrize("cut", range(2, len(LINES) // 2))
def test_a_last_line_of_which_something_may_be_missing_is_torn(cut: int) -> None:
    read = read_backup(LINES[:-cut], None)

    assert (len(read.commands), read.torn_bytes > 0, read.lacks_break) == (1, True, False)


@pytest.mark.parametrize("last", [b'"a":1', b'"a":"b"', b'"a":[]', b'"a":', b'"a"', b"a"])
def test_a_last_line_whose_value_is_no_object_may_be_a_beginning(last: bytes) -> None:
    assert read_backup(LINES + last, None).torn_bytes == len(last)


@pytest.mark.parametrize("edited", ["no last break", "all of it"])
def test_a_last_line_gets_its_break_before_a_command_is_added(tmp_path: Path, edited: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(EDITED[edited])

    opened = BackupFile.open(path, HEADER)
    assert opened.repairs == ("gave its last line the line break that was missing",)
    with opened.file as file:
        file.describe([command(1), command(2)])
        file.append([command(3)])
    assert [each.record for each in load(path).commands] == [command(1), command(2), command(3)]
    assert load(path).problems == []
    assert sidecar_of(path).exists()
    assert not list(tmp_path.glob("*.cut-*"))
