from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from offsite.engine.executor_archive import (
    MANIFEST,
    ExecutorArchiveManifest,
    archive_settings,
    manifest_json,
    own_manifest,
    read_manifest,
)
from offsite.model.errors import BadOption, BadSparkArchive


def archive(folder: Path, manifest: ExecutorArchiveManifest, name: str = "offsite.pex") -> Path:
    file = folder / name
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(MANIFEST, manifest_json(manifest))
    return file


def test_a_file_is_shipped_under_its_name_and_run_from_the_executors_folder(tmp_path: Path) -> None:
    file = archive(tmp_path, own_manifest())
    found = archive_settings(str(file))
    assert found.python == "./offsite.pex"
    assert found.settings["spark.files"] == file.as_uri()
    assert found.settings["spark.executorEnv.PEX_ROOT"].startswith("./")
    assert found.settings["spark.executorEnv.PYTHONSAFEPATH"] == "1"
    assert archive_settings(file.as_uri()) == found


def test_a_relative_name_is_one_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = archive(tmp_path, own_manifest())
    monkeypatch.chdir(tmp_path)
    assert archive_settings("offsite.pex") == archive_settings(str(file))


@pytest.mark.parametrize("url", ["hdfs://nn:8020/apps/o.pex", "s3a://bucket/o.pex", "https://host/a/o.pex?sig=1"])
def test_a_url_is_left_to_the_executors(url: str) -> None:
    found = archive_settings(f"{url}#sha256={'ab' * 32}")
    assert found.settings["spark.files"].split(",")[0] == url
    assert found.settings["spark.executorEnv.OFFSITE_ARCHIVE"] == "./o.pex"
    with pytest.raises(BadOption, match="without a check of its contents"):
        archive_settings(url)


@pytest.mark.parametrize("is_same", [True, False])
def test_what_came_from_a_url_runs_only_where_it_is_what_was_told(tmp_path: Path, is_same: bool) -> None:
    (tmp_path / "o.pex").write_text("#!/bin/sh\necho ran $1\n")
    (tmp_path / "o.pex").chmod(0o755)
    digest = hashlib.sha256((tmp_path / "o.pex").read_bytes()).hexdigest() if is_same else "ab" * 32
    found = archive_settings(f"https://host/o.pex#sha256={digest}")
    script = Path(url2pathname(urlsplit(found.settings["spark.files"].split(",")[1]).path))
    shutil.copy(script, tmp_path)
    prefix = "spark.executorEnv."
    told = {name.removeprefix(prefix): value for name, value in found.settings.items() if name.startswith(prefix)}
    done = subprocess.run(
        [found.python, "-m"], cwd=tmp_path, env={**os.environ, **told}, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == ((0, "ran -m\n") if is_same else (97, "")), done.stderr


def test_a_path_on_each_executor_is_shipped_by_nobody() -> None:
    found = archive_settings("local:///opt/offsite/offsite.pex")
    assert "spark.files" not in found.settings
    assert found.python == "/opt/offsite/offsite.pex"


@pytest.mark.parametrize("url", ["hdfs://nn/apps/", "hdfs://nn/a,b.pex", "hdfs://nn/a b"])
def test_a_name_that_spark_would_take_for_something_else_is_refused(url: str) -> None:
    with pytest.raises(BadOption, match="under this name"):
        archive_settings(url)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"offsite": "0.0.1"}, r"is an archive of offsite 0\.0\.1, but this is offsite "),
        ({"python": "3.99"}, r"is an archive for Python 3\.99, but this is Python "),
        ({"format": 9}, "is an archive of format 9"),
    ],
)
def test_an_archive_of_another_offsite_or_python_is_refused(tmp_path: Path, change: dict[str, str], told: str) -> None:
    file = archive(tmp_path, replace(own_manifest(), **change))  # type: ignore[arg-type]  # the field's own type
    with pytest.raises(BadSparkArchive, match=told) as raised:
        archive_settings(str(file))
    assert "offsite spark pack" in raised.value.hint or "pack again" in raised.value.hint


def test_what_is_no_archive_of_offsite_is_refused(tmp_path: Path) -> None:
    text, other, odd = tmp_path / "text", tmp_path / "other.zip", tmp_path / "odd.zip"
    text.write_text("no zip")
    with zipfile.ZipFile(other, "w") as made:
        made.writestr("PEX-INFO", "{}")
    with zipfile.ZipFile(odd, "w") as made:
        made.writestr(MANIFEST, "[1]")
    for file in (text, other, odd):
        with pytest.raises(BadSparkArchive, match="is not an archive for executors"):
            read_manifest(file)
    with pytest.raises(BadSparkArchive, match="No such file"):
        read_manifest(tmp_path / "missing")


def encrypted(file: Path) -> None:
    """Flag 1 of the entry, in both of its headers."""
    data = bytearray(file.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + at] |= 1
    file.write_bytes(data)


def of_method_99(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for signature, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(signature) + at] = 99
    file.write_bytes(data)


def of_other_bytes(file: Path) -> None:
    """Behind the header of the entry, which has no extra field, is what no decompressor takes."""
    data = bytearray(file.read_bytes())
    start = data.index(b"PK\x03\x04") + 30 + len(MANIFEST)
    data[start : start + 8] = b"\xff" * 8
    file.write_bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("change", [encrypted, of_method_99, of_other_bytes])
def test_an_archive_whose_manifest_cannot_be_opened_is_refused(
    tmp_path: Path, change: Callable[[Path], None], method: int
) -> None:
    file = tmp_path / "offsite.pex"
    with zipfile.ZipFile(file, "w", method) as made:
        made.writestr(MANIFEST, manifest_json(own_manifest()))
    change(file)
    with pytest.raises(BadSparkArchive):
        read_manifest(file)


def test_a_manifest_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "offsite.pex"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(MANIFEST, "[" * 60_000)
    with pytest.raises(BadSparkArchive):
        read_manifest(file)
