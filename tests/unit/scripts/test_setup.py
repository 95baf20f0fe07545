"""The shell scripts of `make`: what a person without Python or Java reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A path folder with the shell's own tools and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sed", "head"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(path)}
    command = ["/bin/sh", str(SCRIPTS / script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_no_java_is_one_line_that_says_what_to_install(tools: Path) -> None:
    done = run("check-java.sh", tools)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "install Java 17 or newer" in done.stderr


@pytest.mark.parametrize(
    ("version", "code"), [("1.8.0_402", 1), ("11.0.2", 1), ("17.0.15", 0), ("21", 0), ("25-ea", 0)]
)
def test_java_17_is_the_oldest_that_passes(tools: Path, version: str, code: int) -> None:
    fake(tools, "java", f"echo 'openjdk version \"{version}\" 2024-01-16' >&2")
    assert run("check-java.sh", tools).returncode == code


def test_no_python_is_one_line_that_says_what_to_install(tools: Path) -> None:
    done = run("find-python.sh", tools)
    assert done.returncode == 1
    assert done.stderr == "error: no Python 3.11 or newer was found: install one and run make again\n"


def test_a_python_that_does_not_run_is_passed_over(tools: Path) -> None:
    fake(tools, "python3.13", "exit 127")
    fake(tools, "python3.12", "exit 0")
    assert run("find-python.sh", tools).stdout == "python3.12\n"


def test_a_python_without_venv_is_named(tools: Path) -> None:
    fake(tools, "python3.12", 'case "$2" in *venv*) exit 1 ;; esac')
    done = run("find-python.sh", tools)
    assert done.returncode == 1
    assert "python3.12: install its venv module" in done.stderr
