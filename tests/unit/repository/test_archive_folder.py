from __future__ import annotations

from pathlib import Path

from offsite.archives.files import AppendableFiles
from offsite.repository.archive_folder import ArchiveFolder


def folder(path: Path) -> AppendableFiles:
    return ArchiveFolder(root=path / "made" / "on" / "demand")


def test_a_file_is_replaced_as_a_whole_and_carries_the_time_of_its_last_message(tmp_path: Path) -> None:
    files = folder(tmp_path)
    files.put("orders/a", b"old and longer", last_message_ms=1_000)
    files.put("orders/a", b"new", last_message_ms=1_700_000_000_123)
    assert files.get("orders/a") == b"new"
    assert (Path(files.url) / "orders/a").stat().st_mtime_ns == 1_700_000_000_123_000_000


def test_bytes_are_appended_and_cut(tmp_path: Path) -> None:
    files = folder(tmp_path)
    files.append("a", b"123")
    files.append("a", b"456")
    files.truncate("a", 4)
    files.append("a", b"x")
    assert files.get("a") == b"1234x"
    assert files.get_range("a", 3, 10) == b"4x"


def test_what_a_crash_left_half_written_is_not_listed(tmp_path: Path) -> None:
    files = folder(tmp_path)
    files.put("t/b", b"1")
    (Path(files.url) / "t/a~offsite").write_bytes(b"half")
    assert [(each.key, each.size_bytes) for each in files.list("t/")] == [("t/b", 1)]
    files.delete("t/b")
    files.delete("t/b")
    assert files.get("t/b") is None
    assert not list(files.list())
