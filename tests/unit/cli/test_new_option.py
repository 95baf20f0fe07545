"""Walks `docs/change/option.md`: an option declared beside its command is in the help and on the reference page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer
from typer.testing import CliRunner

from offsite.cli.options import takes
from tests.unit.cli.test_new_restore_option import generator


class Echo(StrEnum):
    NO = "no"
    TWICE = "twice"
    DEFAULT = NO


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoOptions:
    echo: Annotated[Echo, typer.Option("--echo", help="Whether an echo comes back.")] = Echo.DEFAULT


def command(heard: list[Echo]) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    def call(options: EchoOptions) -> None:
        """Call into the woods."""
        heard.append(options.echo)

    app.command()(takes(EchoOptions)(call))
    return app


def test_the_command_has_it_with_its_default_and_refuses_other_values() -> None:
    heard: list[Echo] = []
    app = command(heard)
    assert "Whether an echo comes back." in " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--echo", "twice"]).exit_code == 0
    assert heard == [Echo.NO, Echo.TWICE]
    assert CliRunner().invoke(app, ["--echo", "thrice"]).exit_code == 2


def test_the_reference_page_has_it() -> None:
    page = "\n".join(generator()._commands(typer.main.get_command(command([])), "offsite call"))
    assert "| `--echo` |  | Whether an echo comes back. `no`, `twice`; default: `no`. |" in page
