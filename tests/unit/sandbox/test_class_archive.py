from __future__ import annotations

from pathlib import Path

from offsite.sandbox.java import Java, Jvm, archive_flags, discard_archives, keep_archives

NAME = "broker-abc.jsa"


def jvm_with(jars: Path) -> Jvm:
    jars.mkdir()
    return Jvm(java=Java(launcher=Path("java"), major=17, build="abc"), jars=jars)


def test_the_first_broker_makes_an_archive_and_later_ones_start_from_it(tmp_path: Path) -> None:
    jvm = jvm_with(tmp_path / "jars")
    assert f"-XX:ArchiveClassesAtExit={tmp_path / NAME}" in archive_flags(jvm, tmp_path)
    (tmp_path / NAME).write_bytes(b"classes")
    keep_archives(tmp_path, jvm.jars)
    assert f"-XX:SharedArchiveFile={jvm.jars / NAME}" in archive_flags(jvm, tmp_path)
    assert [path.name for path in jvm.jars.iterdir()] == [NAME]
    assert not (tmp_path / NAME).exists()


def test_an_archive_that_may_be_torn_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"cla")
    discard_archives(tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_cache_the_archive_is_let_go(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"classes")
    keep_archives(tmp_path, tmp_path / "jars")
    assert not list(tmp_path.iterdir())
