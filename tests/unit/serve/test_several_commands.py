"""The commands with a file of several repositories."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.model.errors import BadOption
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import Site


@pytest.fixture
def file(tmp_path: Path, site: Site) -> Path:
    """A sound repository, an empty one, and one that is not there."""
    Repository.init(open_folder(tmp_path / "empty"))
    places = {"shop": site.repository.store.url, "empty": str(tmp_path / "empty"), "gone": str(tmp_path / "gone")}
    text = "".join(f"  {name}:\n    repo: {place}\n" for name, place in places.items())
    (file := tmp_path / "serve.yaml").write_text(f"repositories:\n{text}")
    return file


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env=environment)


def test_status_tells_all_repositories_of_a_file_the_worst_first(file: Path) -> None:
    result = run("status", "--config", str(file), OFFSITE_REPO="/nowhere")
    assert result.exit_code == 3, result.output
    lines = result.output.splitlines()
    assert lines[0] == "ATTENTION  2 of 3 repositories need attention: gone, empty."
    assert re.findall(r"│ (gone|empty|shop) ", result.output) == ["gone", "empty", "shop"]
    assert "empty: There is no backup yet." in lines
    assert "gone: not read: OFF-1001: " in result.output


def test_status_of_several_is_json_too(file: Path) -> None:
    status = json.loads(run("status", "--config", str(file), "-o", "json").stdout)
    assert status["safe"] is False
    rows = {row["repository"]: row for row in status["repositories"]}
    verdicts = [rows[name]["verdict"] for name in ("shop", "empty", "gone")]
    assert verdicts == ["SAFE, never proven", "ATTENTION", "UNREAD"]


def test_a_safe_file_ends_with_0(file: Path, site: Site) -> None:
    file.write_text(f"repositories: {{shop: {{repo: {site.repository.store.url}}}}}")
    result = run("status", "--config", str(file))
    assert (result.exit_code, result.output.splitlines()[0]) == (
        0,
        "SAFE, never proven  Safe, not all proven. 1 repository. Never verified nor drilled here: shop.",
    )


def refused(*arguments: str, **environment: str) -> BadOption:
    error = run(*arguments, **environment).exception
    assert isinstance(error, BadOption)
    return error


@pytest.mark.parametrize("command", ["status", "serve"])
def test_the_options_of_one_repository_do_not_go_with_a_file(file: Path, command: str) -> None:
    error = refused(command, "--config", str(file), "--repo", "/srv/backups")
    assert error.message == "--repo and --config do not go together"


@pytest.mark.parametrize("command", ["status", "serve"])
def test_without_a_repository_a_command_says_how_to_name_one(command: str) -> None:
    error = refused(command, OFFSITE_REPO="")
    assert (error.message, "--config" in error.hint) == ("no repository is named", True)


@pytest.mark.parametrize("command", ["status", "serve"])
def test_a_mistake_in_the_file_starts_nothing(file: Path, command: str) -> None:
    file.write_text(file.read_text() + "    bootsrap: broker:9092\n")
    error = refused(command, "--config", str(file))
    assert f"{file}, line 8: repositories.gone.bootsrap: there is no such key" in error.message
