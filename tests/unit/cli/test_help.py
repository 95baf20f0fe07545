from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from offsite.cli.app import app


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app), "offsite"))
PARAMETERS = {
    f"{path} {parameter.opts[0]}": parameter
    for path, command in COMMANDS.items()
    if not hasattr(command, "commands")
    for parameter in command.params
}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_says_what_it_does_in_a_sentence(path: str) -> None:
    summary = (COMMANDS[path].help or "").strip().split("\n\n")[0]

    assert summary[:1].isupper()
    assert summary.endswith(".")


def test_every_option_says_what_it_is_for() -> None:
    texts = {path: getattr(parameter, "help", None) or "" for path, parameter in PARAMETERS.items()}

    assert [path for path, text in texts.items() if not text.endswith((".", "]."))] == []


@pytest.mark.parametrize("name", ["--repo", "--bootstrap", "--kafka-config", "--spark-master", "--backup", "--output"])
def test_an_option_means_the_same_in_every_command(name: str) -> None:
    shared = [parameter for parameter in PARAMETERS.values() if name in parameter.opts]

    assert len({(each.help, each.envvar, tuple(each.opts)) for each in shared}) == 1
