"""Commands are listed without being imported: lists must say what the commands say."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from offsite.cli.app import LazyCommand, LazyGroup, app

GROUP: Any = typer.main.get_command(app)
WHOLE = 10_000
"""A line so long that no help is cut."""


@pytest.mark.parametrize("name", GROUP.commands)
def test_a_list_says_of_a_command_what_the_command_says(name: str) -> None:
    listed, command = GROUP.get_command(None, name), GROUP.commands[name]

    assert (listed.name, listed.hidden) == (command.name, command.hidden)
    assert listed.help == command.get_short_help_str(WHOLE)
    assert listed.get_short_help_str() == command.get_short_help_str()


def test_the_help_lists_each_command_once_below_its_heading_with_a_whole_sentence_in_a_line() -> None:
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output.splitlines()

    shown = [line for section in GROUP.sections for line in (f"{section.heading}:", *map(_line, section.commands))]
    assert [line for line in lines if line in shown] == shown
    assert sorted(command.name for section in GROUP.sections for command in section.commands) == sorted(GROUP.commands)


def test_the_help_of_a_group_cuts_no_sentence_off() -> None:
    help_text = CliRunner().invoke(app, ["backup", "--help"], env={"COLUMNS": "60"}).output

    assert "Copy new records since the last run, and commit them as one restore point." in " ".join(help_text.split())
    assert "..." not in help_text.replace("[ARGS]...", "")


def test_a_hidden_command_is_in_no_help() -> None:
    assert "agent" not in CliRunner().invoke(app, ["operator", "--help"]).output.split()


def _line(command: LazyCommand) -> str:
    return f"  {command.name:<11}  {command.help}"


def test_a_command_is_imported_once_and_has_the_options_of_the_log_once() -> None:
    again: Any = typer.main.get_command(app)

    assert isinstance(again, LazyGroup)
    assert again.commands["list"] is GROUP.commands["list"]
    assert [each.name for each in again.commands["list"].params].count("verbose") == 1


def test_a_command_that_is_not_there_is_told_with_one_that_is() -> None:
    result = CliRunner().invoke(app, ["lsit"])

    assert result.exit_code == 2
    assert "No such command 'lsit'. Did you mean 'list'?" in result.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("offsite re", ["restore", "retention"]),
        ("offsite jobs ", ["list", "show", "cancel", "forget"]),
        ("offsite operator a", ["apply"]),  # and not `agent`, which is hidden
        ("offsite list --v", ["--verbose"]),
    ],
)
def test_a_shell_completes_commands_and_their_options(words: str, offered: list[str]) -> None:
    asked = {"_OFFSITE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}

    result = CliRunner().invoke(app, [], prog_name="offsite", env=asked)

    assert result.output.split() == offered


@pytest.mark.parametrize("command", [["backup", "run"], ["restore", "plan"]])
@pytest.mark.parametrize("words", [["--topics", "Makefile", "README"], ["--topics", "orders"]])
def test_patterns_that_a_shell_made_names_of_files_of_are_to_be_quoted(command: list[str], words: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--backup", "b", "--repo", "r", "--bootstrap", "no;where", *words])

    assert ("Quote patterns" in result.output) == (len(words) > 2)
    assert ("unexpected extra argument" in result.output) == (len(words) > 2)
