"""Walks `docs/change/restore-option.md`: an option declared in one place is in the commands, in Python and in docs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

import offsite
from offsite.cli.commands.export import ExportOptions
from offsite.cli.commands.restore_source import RestoreOptions, RestoreRunOptions
from offsite.cli.options import takes
from offsite.model.options import Option, declared_options, with_defaults
from offsite.model.selection import parse_selection
from offsite.restore.options import PointWords, RestoreWords, parse_restore
from offsite.restore.request import RestoreRequest, encode_request

GENERATE = Path(__file__).parents[3] / "docs" / "generate.py"


class Echo(StrEnum):
    NO = "no"
    TWICE = "twice"
    DEFAULT = NO


ECHO = Annotated[Literal["no", "twice"], Option("Whether an echo comes back.", Echo.DEFAULT)]


@pytest.fixture(autouse=True)
def declared_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setitem(RestoreWords.__annotations__, "echo", ECHO)
        declared_options.cache_clear()
        yield
    declared_options.cache_clear()


def command(group: type, heard: list[Mapping[str, object]]) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    def restore(options):  # noqa: ANN001, ANN202  # of any group
        """Restore."""
        heard.append(options.words)

    app.command()(takes(group)(restore))
    return app


@pytest.mark.parametrize("group", [RestoreOptions, RestoreRunOptions])
def test_the_commands_have_it(group: type) -> None:
    heard: list[Mapping[str, object]] = []
    app = command(group, heard)
    shown = CliRunner().invoke(app, ["--help"])
    assert "Whether an echo comes back." in " ".join(shown.output.split())
    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--echo", "twice"]).exit_code == 0
    assert [words["echo"] for words in heard] == [Echo.NO, Echo.TWICE]
    assert CliRunner().invoke(app, ["--echo", "thrice"]).exit_code == 2


def test_a_command_that_restores_nothing_does_not_have_it() -> None:
    assert "--echo" not in CliRunner().invoke(command(ExportOptions, []), ["--help"]).output


def test_python_has_it_as_text_with_the_same_default() -> None:
    assert with_defaults(RestoreWords, {})["echo"] == Echo.NO  # type: ignore[typeddict-item]
    assert with_defaults(RestoreWords, {"echo": None})["echo"] == Echo.NO  # type: ignore[typeddict-item, typeddict-unknown-key]
    assert with_defaults(RestoreWords, {"echo": "twice"})["echo"] == Echo.TWICE  # type: ignore[typeddict-item, typeddict-unknown-key]
    assert "Unpack[RestoreWords]" in str(offsite.Backup.restore.__annotations__)


def test_the_reference_pages_have_it() -> None:
    pages = generator()
    assert "| `echo` | `Literal['no', 'twice']` |" in pages.python_page()
    page = "\n".join(pages._commands(typer.main.get_command(command(RestoreOptions, [])), "offsite restore"))
    assert "| `--echo` |  | Whether an echo comes back. `no`, `twice`; default: `no`. |" in page


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", GENERATE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoRequest(RestoreRequest):
    twice: bool = False


def test_a_restore_that_an_earlier_version_began_is_still_found() -> None:
    everything = parse_selection(["*"])
    assert encode_request(EchoRequest(selection=everything)) == encode_request(RestoreRequest(selection=everything))
    assert ("twice", "True") in encode_request(EchoRequest(selection=everything, twice=True))


def test_what_is_left_out_and_what_is_none_have_the_default_of_the_commands() -> None:
    nothing = dict.fromkeys(RestoreWords.__annotations__)
    assert parse_restore(nothing) == parse_restore({})  # type: ignore[typeddict-item, arg-type]
    assert {*PointWords.__annotations__} < {*RestoreWords.__annotations__}
