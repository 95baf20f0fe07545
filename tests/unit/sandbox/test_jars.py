from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offsite.model.errors import DamagedJar, JarsNotFetched
from offsite.sandbox.jars import cache_folder, ensure_jars, ignore_progress, sources
from offsite.sandbox.java import find_java
from offsite.sandbox.versions import Jar, kafka_jars, verify


@pytest.fixture(scope="module")
def real_jars() -> Path:
    """The user's cache, filled by the first test run on this machine."""
    return ensure_jars(cache_folder(), sources(find_java()), ignore_progress)


class CopySource:
    """Delivers the jars from a folder; `spoil` changes one of them on the way, `missing` leaves it out."""

    name = "a folder"

    def __init__(self, folder: Path, *, spoil: str = "", missing: str = "") -> None:
        self._folder = folder
        self._spoil = spoil
        self._missing = missing
        self.downloads = 0

    def download(self, jars: tuple[Jar, ...], folder: Path) -> None:
        self.downloads += 1
        for jar in jars:
            if jar.artifact != self._missing:
                shutil.copy(self._folder / jar.file_name, folder)
            if jar.artifact == self._spoil:
                flip_a_bit(folder / jar.file_name)


class DeadSource:
    name = "a dead line"

    def download(self, jars: tuple[Jar, ...], folder: Path) -> None:
        raise JarsNotFetched(f"no route for {len(jars)} jars to {folder}")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_list_names_each_jar_once_with_a_whole_hash() -> None:
    jars = kafka_jars()
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert {len(jar.sha256) for jar in jars} == {64}
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {"4.1.1"}


def test_jars_are_fetched_once_and_then_found(real_jars: Path, tmp_path: Path) -> None:
    source, lines = CopySource(real_jars), list[str]()
    for _ in range(2):
        folder = ensure_jars(tmp_path / "jars", (source,), lines.append)
    verify(folder, kafka_jars())
    assert source.downloads == 1
    assert len(lines) == 1


def test_of_two_at_once_one_fetches_and_the_other_waits(real_jars: Path, tmp_path: Path) -> None:
    source = CopySource(real_jars)
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda _: ensure_jars(tmp_path / "jars", (source,), ignore_progress), range(2)))
    assert source.downloads == 1


def test_a_changed_bit_in_the_cache_is_found_and_the_hint_names_the_folder(real_jars: Path, tmp_path: Path) -> None:
    folder = ensure_jars(tmp_path / "jars", (CopySource(real_jars),), ignore_progress)
    damaged = folder / kafka_jars()[0].file_name
    flip_a_bit(damaged)
    with pytest.raises(DamagedJar, match=damaged.name) as found:
        ensure_jars(folder, (CopySource(real_jars),), ignore_progress)
    assert str(folder) in found.value.hint


@pytest.mark.parametrize("fault", ["spoil", "missing"])
def test_a_bad_download_never_becomes_the_cache(real_jars: Path, tmp_path: Path, fault: str) -> None:
    source = CopySource(real_jars, **{fault: "kafka-clients"})
    with pytest.raises(DamagedJar, match="kafka-clients"):
        ensure_jars(tmp_path / "jars", (source,), ignore_progress)
    assert [path.name for path in tmp_path.iterdir()] == ["jars.lock"]


def test_the_second_source_is_tried_when_the_first_fails(real_jars: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    ensure_jars(tmp_path / "jars", (DeadSource(), CopySource(real_jars)), lines.append)
    assert any("no route" in line for line in lines)


def test_no_source_at_all_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(JarsNotFetched) as failed:
        ensure_jars(tmp_path / "jars", (), ignore_progress)
    assert failed.value.hint


def test_the_leftovers_of_a_crash_are_removed(real_jars: Path, tmp_path: Path) -> None:
    (tmp_path / ".jars-crashed").mkdir()
    ensure_jars(tmp_path / "jars", (CopySource(real_jars),), ignore_progress)
    assert not (tmp_path / ".jars-crashed").exists()


def test_the_cache_is_below_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "offsite" / "jars" / "kafka-4.1.1"


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(JarsNotFetched, match="cannot be put into") as caught:
        ensure_jars(cache_folder(), (), ignore_progress)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(JarsNotFetched, match="no home folder") as caught:
        cache_folder()
    assert "XDG_CACHE_HOME" in caught.value.hint
