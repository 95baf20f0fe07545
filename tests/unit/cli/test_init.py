"""`offsite init`: where, as an argument, as the option of every other command, or as their variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.model.errors import BadOption


def init(*arguments: str, variable: Path | None = None) -> Result:
    return CliRunner().invoke(app, ["init", *arguments], env={"OFFSITE_REPO": variable and str(variable)})


def made(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/offsite.json"))


@pytest.mark.parametrize("form", [("{}",), ("--repo", "{}"), ("--repo={}",), ("{}", "--repo", "{}")])
def test_a_place_is_named_in_each_way(tmp_path: Path, form: tuple[str, ...]) -> None:
    done = init(*(each.format(tmp_path / "here") for each in form))

    assert (done.exit_code, made(tmp_path)) == (0, ["here"]), done.output


def test_the_variable_counts_where_nothing_is_typed(tmp_path: Path) -> None:
    assert init(variable=tmp_path / "told").exit_code == 0
    assert init(str(tmp_path / "typed"), variable=tmp_path / "other").exit_code == 0
    assert init("--repo", str(tmp_path / "option"), variable=tmp_path / "other").exit_code == 0
    assert made(tmp_path) == ["option", "told", "typed"]


def test_two_places_and_none_are_refused(tmp_path: Path) -> None:
    two = init(str(tmp_path / "a"), "--repo", str(tmp_path / "b"))
    assert isinstance(two.exception, BadOption)
    assert "both name the repository" in two.exception.message
    assert isinstance(init().exception, BadOption)
    assert made(tmp_path) == []
