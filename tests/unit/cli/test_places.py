"""Every option that takes a folder or a URL refuses what may not stand in a URL, by name and before anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.models import TyperPath
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import BadRepositoryUrl, OffsiteError

PLACES = {"repo", "path", "archive", "state", "staging", "place", "records", "location"}
BAD = (
    "s3://bucket/a#b?endpoint=http://127.0.0.1:1",
    "s3://user:secret@bucket/a",
    "s3://bucket/a?secret_access_key=secret",
    "s3://bucket//a",
    '"s3://bucket/a"',
    "s3:/bucket/a",
    "file:a",
    "a\r",
)


def parameters(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from parameters(below, (*path, name))
        return
    for param in command.params:
        yield path, command, param


def is_place(param: Any) -> bool:
    text = getattr(param, "help", None) or ""
    return param.name in PLACES or ("URL" in text and "Spark" not in text)


EVERY = tuple(parameters(typer.main.get_command(app)))
ALL = tuple(each for each in EVERY if is_place(each[2]))
LOCAL = {each[2].name: each for each in EVERY if isinstance(each[2].type, TyperPath) or each[2].name == "location"}


def arguments(path: tuple[str, ...], command: Any, place: Any, value: str) -> list[str]:
    argv = list(path)
    for param in command.params:
        if param is place or param.required or param.name == "repo":
            text = value if param is place else "parquet" if param.name == "format" else "1"
            argv += [param.opts[0], text] if param.param_type_name == "option" else [text]
    return argv


def error_of(argv: list[str]) -> BaseException | None:
    return CliRunner().invoke(app, argv).exception


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("path", "command", "place"), ALL, ids=[f"{' '.join(path)} {place.opts[0]}" for path, _, place in ALL]
)
def test_every_place_is_refused_before_anything_is_done(
    path: tuple[str, ...], command: Any, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = error_of(arguments(path, command, place, BAD[0]))
    assert isinstance(error, BadRepositoryUrl), error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "command", [("init",), ("list", "--repo"), ("archive", "inspect", "--format", "parquet"), ("operator", "expire")]
)
def test_each_bad_part_is_refused_and_no_secret_is_repeated(
    command: tuple[str, ...], bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ["--uid", "11111111-2222", "--place"] if command[0] == "operator" else []
    error = error_of([*command, *more, bad])
    assert isinstance(error, OffsiteError)
    assert error.id == "OFF-0205"
    assert "secret" not in error.message.replace("secret_access_key", "")
    assert error.hint
    assert list(tmp_path.iterdir()) == [], "no folder is made"


@pytest.mark.parametrize("name", LOCAL)
def test_what_is_of_this_machine_is_no_url(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, command, param = LOCAL[name]
    for address in ("s3://bucket/a", "https://host/a", "file://host/a", "gs://bucket/a?endpoint=https://h"):
        error = error_of(arguments(path, command, param, address))
        assert isinstance(error, BadRepositoryUrl), (address, error)
        assert "endpoint" not in error.message
        assert "this machine" in (error.hint or "")
    assert list(tmp_path.iterdir()) == [], "no folder is made"


@pytest.mark.parametrize("command", ["backup --topic t --location", "status --location", "verify", "restore"])
def test_no_file_of_a_metastore_is_looked_for_in_a_bucket(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for bad in (*BAD[:2], "s3://bucket/ms"):
        error = error_of(["metastore", *command.split(), bad])
        assert isinstance(error, BadRepositoryUrl), error
        assert "secret" not in error.message
    assert list(tmp_path.iterdir()) == []


def test_a_url_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    for place in (f"file://{tmp_path}/a:b", f"{tmp_path}/a:b"):
        assert CliRunner().invoke(app, ["metastore", "status", "--location", place]).exit_code == 3
