"""The recipe of the image: what it names is there, and it fits the project and the manifests. Nothing is built here."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from offsite.cli.app import app
from offsite.model.version import __version__
from offsite.operator.kubernetes.agents import TEMPORARY_FOLDER, USER_ID

ROOT = Path(__file__).parents[3]
RECIPE = ROOT / "deploy" / "image" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("operator", "kubernetes", "msk", "oauth")
PINNED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE))


def steps(word: str) -> list[str]:
    """What follows `word`, of each step that begins with it."""
    text = RECIPE.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.removeprefix(word).strip() for line in text.splitlines() if line.startswith(f"{word} ")]


def test_it_copies_what_there_is_and_the_builder_is_sent_no_more() -> None:
    words = [each for step in steps("COPY") if "--from" not in step for each in shlex.split(step)[:-1]]
    copied = [each for each in words if not each.startswith("--")]
    assert copied
    assert all((ROOT / each).exists() for each in copied)
    sent = (RECIPE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert sent[0] == "*"
    assert {each.partition("/")[0] for each in copied} == {
        each[1:].partition("/")[0] for each in sent if each.startswith("!")
    }


def test_both_stages_have_a_python_that_the_project_takes() -> None:
    images = [step.split()[0] for step in steps("FROM")]
    assert images == ["${BASE}"] * 2, "an environment works where it was made"
    (base,) = steps("ARG")
    version = base.removeprefix("BASE=python:").partition("-")[0]
    assert version in SpecifierSet(PROJECT["requires-python"])


def test_it_has_the_java_that_is_asked_for() -> None:
    oldest = re.search(r"^oldest=(\d+)", (ROOT / "scripts" / "check-java.sh").read_text(), re.MULTILINE)
    assert oldest is not None
    assert f"openjdk-{oldest[1]}-jre-headless" in RECIPE.read_text()


@pytest.mark.parametrize(
    "wanted",
    [*PROJECT["dependencies"], *(each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra])],
)
def test_what_the_project_needs_is_pinned_as_it_asks(wanted: str) -> None:
    requirement = Requirement(wanted)
    assert PINNED[requirement.name] in requirement.specifier


def test_pins_are_those_that_tests_ran_with() -> None:
    tested = (ROOT / "requirements" / "dev.txt").read_text()
    known = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", tested, re.MULTILINE))
    assert {name: version for name, version in PINNED.items() if known.get(name, version) != version} == {}


def test_everything_is_checked_by_its_hash() -> None:
    installs = [each for step in steps("RUN") for each in step.split("&&") if "pip install" in each]
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_its_user_is_that_of_the_pods_and_has_a_name() -> None:
    (user,) = steps("USER")
    assert user == f"{USER_ID}:{USER_ID}"
    assert (
        f"useradd --uid {USER_ID} --gid {USER_ID} --no-create-home --home-dir {TEMPORARY_FOLDER}" in RECIPE.read_text()
    )


def test_it_runs_a_command_that_there_is() -> None:
    (command,) = steps("CMD")
    program, group, name, *options = json.loads(command)
    assert program in PROJECT["scripts"]
    found = typer.main.get_command(app).commands[group].commands[name]  # type: ignore[attr-defined]
    assert set(options) <= {each for option in found.params for each in option.opts}


def test_it_names_the_version_that_is_built() -> None:
    assert f"--tag offsite:{__version__} ." in RECIPE.read_text()
