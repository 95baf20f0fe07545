from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.backup_file import BackupFile, load, sidecar_of
from offsite.metastore.folder import BackupName, NameForm, exposure_warning, list_backups, locked, make_folder
from offsite.metastore.reading import UNKNOWN, FileProblem, read_backup
from offsite.metastore.stored_command import encode_entry, entry_of, first_chain
from offsite.model.errors import BackupFileChanged, BackupFileDamaged, BackupFileInUse, StoreFull, StoreUnavailable
from tests.unit.metastore.commands import HEADER, command, commands

NAME = BackupName(topic=HEADER.topic, made_ms=5000, form=NameForm.KLIP)
NULL = Record(7, 1, CREATE_TIME, b'"a"', None)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A file with three commands, the second of which has no line."""
    with BackupFile.create(tmp_path, NAME, HEADER) as file:
        file.append([command(1), NULL])
        file.append([command(2)])
    return file.path


def records(path: Path) -> list[Record]:
    return [each.record for each in load(path).commands]


def described(given: list[Record]) -> tuple[bytes, bytes]:
    """A file and its sidecar."""
    chain, lines, entries = first_chain(HEADER.encode()), b"", HEADER.encode() + b"\n"
    for record in given:
        entry = entry_of(record, chain)
        chain = entry.chain
        lines += entry.line.text + b"\n" if entry.line else b""
        entries += encode_entry(entry) + b"\n"
    return lines, entries


@given(commands())
def test_what_was_written_is_read(given: list[Record]) -> None:
    lines, entries = described(given)
    read = read_backup(lines, entries)
    assert [each.record for each in read.commands] == given
    assert read.problems == []
    assert read.header == HEADER
    assert (read.torn_bytes, read.torn_sidecar_bytes) == (0, 0)


def test_lines_are_in_the_file_and_the_rest_beside_it(made: Path) -> None:
    assert made.name == f"{HEADER.topic}_5.bak"
    assert [line.partition(b":")[0] for line in made.read_bytes().splitlines()] == [command(1).key, command(2).key]
    assert records(made) == [command(1), NULL, command(2)]
    assert [(each.number, each.line) for each in load(made).commands] == [(1, 1), (2, 0), (3, 2)]
    assert [each.stat().st_mode & 0o777 for each in (made, sidecar_of(made))] == [0o600, 0o600]


def test_a_name_that_is_taken_is_not_taken_again(made: Path) -> None:
    with BackupFile.create(made.parent, NAME, HEADER) as file:
        assert file.path.name == f"{HEADER.topic}_6.bak"


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_cut_off_and_written_again(made: Path, cut: int) -> None:
    """As a crash leaves it: the entry comes after its line."""
    whole, entries = made.read_bytes(), sidecar_of(made).read_bytes()
    made.write_bytes(whole[:-cut])
    sidecar_of(made).write_bytes(b"".join(entries.splitlines(keepends=True)[:-1]))
    opened = BackupFile.open(made, HEADER)
    with opened.file as file:
        assert [each.split()[2] for each in opened.repairs] == ["bytes"]
        assert [each.record for each in opened.read.commands] == [command(1), NULL]
        file.append([command(2)])
    assert (made.read_bytes(), sidecar_of(made).read_bytes()) == (whole, entries)


def test_a_file_that_somebody_cut_in_a_line_goes_on_too(made: Path) -> None:
    whole, entries = made.read_bytes(), sidecar_of(made).read_bytes()
    made.write_bytes(whole[:-3])
    opened = BackupFile.open(made, HEADER)
    with opened.file as file:
        assert [each.record for each in opened.read.commands] == [command(1), NULL]
        assert len(opened.repairs) == 2
        file.append([command(2)])
    assert (made.read_bytes(), sidecar_of(made).read_bytes()) == (whole, entries)
    (kept,) = made.parent.glob("*.cut-*")
    assert entries.endswith(kept.read_bytes())


def test_a_copy_that_a_crash_or_an_earlier_cut_left_does_not_stand_in_the_way(made: Path) -> None:
    whole, entries = made.read_bytes(), sidecar_of(made).read_bytes()
    for _ in range(3):
        made.write_bytes(whole[:-3])
        with BackupFile.open(made, HEADER).file as file:
            file.append([command(2)])
        assert (made.read_bytes(), sidecar_of(made).read_bytes()) == (whole, entries)
    assert len(list(made.parent.glob("*.cut-*"))) == 3


def test_a_line_that_lacks_its_break_alone_is_whole(made: Path) -> None:
    """A topic may have lost the command since: cutting it off would lose it for good."""
    whole, entries = made.read_bytes(), sidecar_of(made).read_bytes()
    made.write_bytes(whole[:-1])
    opened = BackupFile.open(made, HEADER)
    opened.file.close()
    assert [each.record for each in opened.read.commands] == [command(1), NULL, command(2)]
    assert (made.read_bytes(), sidecar_of(made).read_bytes()) == (whole, entries)


@pytest.mark.parametrize("cut", [1, 2])
def test_what_may_be_a_whole_command_of_a_file_without_entries_is_kept(made: Path, cut: int) -> None:
    whole = made.read_bytes()
    sidecar_of(made).unlink()
    made.write_bytes(whole[:-cut])
    BackupFile.open(made, HEADER).file.close()
    kept = [file.read_bytes() for file in made.parent.glob("*.cut-*")]
    assert len(kept) == (0 if cut == 1 else 1), "a whole line stays in the file"
    assert made.read_bytes() + b"".join(kept) == (whole if cut == 1 else whole[:-cut])


def test_a_link_is_neither_cut_nor_copied(made: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other").write_bytes(b"theirs")
    made.unlink()
    sidecar_of(made).unlink()
    made.symlink_to(other)
    with pytest.raises(StoreUnavailable):
        BackupFile.open(made, HEADER)
    assert (other.read_bytes(), list(tmp_path.glob("*.cut-*"))) == (b"theirs", [])


def test_a_topic_whose_name_is_too_long_for_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="too long"):
        BackupFile.create(tmp_path, BackupName(topic="x" * 249, made_ms=1, form=NameForm.KLIP), HEADER)


def test_a_damaged_file_is_left_as_it_is(made: Path) -> None:
    with BackupFile.open(made, HEADER).file as file:
        file.append([command(3)])
    made.write_bytes(cut := made.read_bytes()[:-100])
    entries = sidecar_of(made).read_bytes()
    BackupFile.open(made, HEADER).file.close()
    assert (made.read_bytes(), sidecar_of(made).read_bytes()) == (cut, entries)


def test_lines_without_entries_are_described_later(made: Path) -> None:
    entries = sidecar_of(made).read_bytes()
    sidecar_of(made).write_bytes(b"".join(entries.splitlines(keepends=True)[:2]))
    opened = BackupFile.open(made, HEADER)
    with opened.file as file:
        assert [each.described for each in opened.read.commands] == [True, False]
        file.describe([NULL, command(2)])
    assert sidecar_of(made).read_bytes() == entries


def test_a_file_of_ksqldb_is_read_without_a_sidecar_and_gets_one(made: Path) -> None:
    sidecar_of(made).unlink()
    read = load(made)
    assert [(each.record.key, each.record.offset) for each in read.commands] == [
        (command(1).key, UNKNOWN),
        (command(2).key, UNKNOWN),
    ]
    with BackupFile.open(made, HEADER).file as file:
        file.describe([command(1), NULL, command(2)])
    assert records(made) == [command(1), NULL, command(2)]


def test_each_damaged_byte_names_its_line_and_hides_no_other(made: Path) -> None:
    whole, entries = made.read_bytes(), sidecar_of(made).read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        read = read_backup(bytes(damaged), entries)
        line = whole[:position].count(b"\n") + 1
        assert {each.line for each in read.problems} & {0, line}, (position, read.problems)
    for position in range(len(HEADER.encode()) + 1, len(entries)):
        damaged = bytearray(entries)
        damaged[position] ^= 1
        assert read_backup(whole, bytes(damaged)).problems or entries[position] == ord("\n"), position


def test_a_damaged_line_is_the_only_one_that_is_told(made: Path) -> None:
    damaged = made.read_bytes().replace(b"S1", b"S9")
    (problem,) = read_backup(damaged, sidecar_of(made).read_bytes()).problems
    assert problem == FileProblem(1, "command 1 differs from the written command")


def test_a_sidecar_of_a_newer_format_is_refused(made: Path) -> None:
    sidecar_of(made).write_bytes(sidecar_of(made).read_bytes().replace(b'"format":1', b'"format":2', 1))
    with pytest.raises(BackupFileDamaged, match="format 2"):
        load(made)


def test_a_full_disk_leaves_whole_lines_and_the_next_append_goes_on(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, whole = os.write, made.read_bytes()
    with BackupFile.open(made, HEADER).file as file:
        with monkeypatch.context() as full:

            def half(opened: int, data: bytes | memoryview) -> int:
                if len(data) < 20:
                    raise OSError(errno.ENOSPC, "no space")
                return write(opened, data[:-10])

            full.setattr(os, "write", half)
            with pytest.raises(StoreFull):
                file.append([command(3)])
        assert made.read_bytes() == whole
        file.append([command(3)])
    assert records(made)[-1] == command(3)
    assert load(made).problems == []


def test_a_file_that_another_changes_is_not_written_any_more(made: Path) -> None:
    with BackupFile.open(made, HEADER).file as file:
        (other := made.with_suffix(".dirty")).write_bytes(made.read_bytes())
        other.rename(made)
        with pytest.raises(BackupFileChanged):
            file.append([command(3)])


def test_one_process_at_a_time_writes_the_files_of_a_topic(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    with locked(tmp_path, "t"), locked(tmp_path, "u"), pytest.raises(BackupFileInUse), locked(tmp_path, "T"):
        pass
    with locked(tmp_path, "t"):
        pass


def test_a_place_that_others_can_read_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert "chmod go=" in exposure_warning(tmp_path)
    tmp_path.chmod(0o700)
    assert exposure_warning(tmp_path) == ""


def test_a_folder_that_is_not_there_holds_no_backups(tmp_path: Path) -> None:
    assert list_backups(tmp_path / "none", "t") == []
