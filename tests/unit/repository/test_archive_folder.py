from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.archives.files import AppendableFiles, Files
from offsite.model.errors import DamagedArchive
from offsite.stores.archive_files import ArchiveBucket, ArchiveFolder
from offsite.stores.object_store import CloudStore


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


def test_what_crashes_left_half_written_goes_when_an_export_begins(tmp_path: Path) -> None:
    files = ArchiveFolder(root=tmp_path)
    files.put("t/b", b"1")
    for name in ("a~offsite", "a~offsite-0123456789abcdef", "mine~", "mine~offsite-not"):
        (tmp_path / "t" / name).write_bytes(b"half")
    with files.exclusive():
        assert sorted(each.name for each in (tmp_path / "t").iterdir()) == ["b", "mine~", "mine~offsite-not"]


def test_a_write_follows_no_link_that_lies_where_its_temporary_file_would(tmp_path: Path) -> None:
    victim, root = tmp_path / "victim", tmp_path / "archive"
    victim.write_bytes(b"precious")
    root.mkdir()
    (root / "a~offsite").symlink_to(victim)
    ArchiveFolder(root=root).put("a", b"records")
    assert victim.read_bytes() == b"precious"
    assert (root / "a").read_bytes() == b"records"
    assert not (root / "a").is_symlink()


WAYS: list[Callable[[AppendableFiles], object]] = [
    lambda files: files.get("t/a"),
    lambda files: files.get_range("t/a", 0, 10),
    lambda files: files.put("t/a", b"x"),
    lambda files: files.append("t/a", b"x"),
    lambda files: files.truncate("t/a", 1),
    lambda files: list(files.list()),
    lambda files: list(files.list("t/")),
]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_a_link_instead_of_a_file_or_a_folder_is_refused_and_not_followed(tmp_path: Path, way: int) -> None:
    (victim := tmp_path / "victim").mkdir()
    (victim / "a").write_bytes(b"precious")
    for number, (link, target) in enumerate({"t/a": victim / "a", "t": victim}.items()):
        root = tmp_path / f"archive-{number}"
        (root / link).parent.mkdir(parents=True)
        (root / link).symlink_to(target)
        with pytest.raises(DamagedArchive, match=f"{root / link} is a symbolic link") as caught:
            WAYS[way](ArchiveFolder(root=root))
        assert "name the target as the archive" in caught.value.hint
    assert (victim / "a").read_bytes() == b"precious"
    assert [each.name for each in victim.iterdir()] == ["a"]


def test_deleting_takes_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive/a").symlink_to(tmp_path / "victim")
    (tmp_path / "archive/t").symlink_to(tmp_path)
    ArchiveFolder(root=tmp_path / "archive").delete("a")
    with pytest.raises(DamagedArchive):
        ArchiveFolder(root=tmp_path / "archive").delete("t/victim")
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, way: int) -> None:
    (tmp_path / "t").mkdir()
    os.mkfifo(tmp_path / "t/a")
    with pytest.raises(DamagedArchive, match=f"{tmp_path}/t/a is a pipe"):
        WAYS[way](ArchiveFolder(root=tmp_path))


def test_a_link_to_a_device_that_never_ends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/dev/zero")
    with pytest.raises(DamagedArchive, match="a is a symbolic link"):
        ArchiveFolder(root=tmp_path).get("a")


def test_the_archive_itself_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files = ArchiveFolder(root=tmp_path / "link")
    files.put("t/a", b"x")
    assert [info.key for info in files.list()] == ["t/a"]
    assert files.get("t/a") == b"x"


@pytest.mark.parametrize(
    ("root_mode", "modes"), [(None, (0o700, 0o600)), (0o755, (0o755, 0o644)), (0o750, (0o750, 0o640))]
)
def test_what_is_made_may_be_read_by_those_who_may_read_the_archive(
    tmp_path: Path, root_mode: int | None, modes: tuple[int, int]
) -> None:
    root = tmp_path / "archive"
    if root_mode is not None:
        root.mkdir(root_mode)
    files = ArchiveFolder(root=root)
    files.put("t/a", b"x")
    files.append("t/b", b"x")
    found = [stat.S_IMODE((root / name).stat().st_mode) for name in ("t", "t/a", "t/b")]
    assert found == [modes[0], modes[1], modes[1]]


@pytest.mark.parametrize("key", ["../outside", "/etc/passwd", "a//b", "a~b", "nul\0", ""])
def test_a_name_that_leads_elsewhere_is_damage_of_the_archive(tmp_path: Path, key: str) -> None:
    places: list[Files] = [ArchiveFolder(root=tmp_path), ArchiveBucket(store=CloudStore(url="memory:///names"))]
    for files in places:
        with pytest.raises(DamagedArchive, match="is not the name of a file in"):
            files.get(key)
        with pytest.raises(DamagedArchive, match="is not the name of a file in"):
            files.get_range(key, 0, 1)
