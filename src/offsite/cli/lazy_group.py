"""A group whose commands are known by name and a line of help, and imported on call.

Importing all commands takes longer than importing Python and typer together. Listings (help, completion, a mistyped
name) use `LazyCommand` values; calls, a command's own help, and walks through `commands` (by the generated pages) use
the real command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import TyperPath

from offsite.cli.logs import log_everywhere

_ROOM = "offsite.cli.commands"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command. `place`: `MODULE:NAME` of a function or of a `Typer` below `cli/commands`. `help`: the first sentence
    of the command's own help; a test compares the two."""

    name: str
    place: str
    help: str


class LazyGroup(TyperGroup):
    """The group made by a `Typer`; a subclass lists the commands."""

    entries: ClassVar[tuple[LazyCommand, ...]] = ()

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # whatever typer has found
        super().__init__(**settings)
        self.commands = _Commands(self.entries)  # type: ignore[assignment]  # nobody adds any

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002  # typer's signature
        return list(self.commands)  # typer looks at each of them

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002  # the same
        """Return a stand-in for lists. The stand-in cannot be called."""
        listed = next((entry for entry in self.entries if entry.name == cmd_name), None)
        return None if listed is None else TyperCommand(listed.name, help=listed.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # types of click's, wherever it lies
        """Return the real command, about to be called or completed."""
        name, listed, arguments = super().resolve_command(ctx, args)
        return name, None if listed is None else self.commands[str(listed.name)], arguments


_QUOTE = "Quote patterns, else the shell replaces them with file names: --topics '*'"


class _Command(TyperCommand):
    """A command that explains unexpected words, and refuses a URL for a local file or folder: a URL would become a
    folder `s3:` below the working folder."""

    def __init__(self, *words: Any, **settings: Any) -> None:  # noqa: ANN401  # whatever typer has found
        super().__init__(*words, **settings)
        for param in self.params:
            if isinstance(param.type, TyperPath):
                param.type.convert = _of_this_machine(param.type.convert)  # type: ignore[method-assign]  # one for each

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # types of click's, wherever it lies
        from offsite.model.selection import PATTERN_OPTIONS

        has_patterns = any(word.lstrip("-").replace("-", "_") in PATTERN_OPTIONS for word in args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's own, wherever it lies
            if has_patterns and "unexpected extra argument" in getattr(error, "message", ""):
                error.message = f"{error.message}. {_QUOTE}"  # type: ignore[attr-defined]  # it has one
            raise


def _of_this_machine(convert: Callable[..., Any]) -> Callable[..., Any]:
    def checked(value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  # types of click's, wherever it lies
        from offsite.model.errors import BadRepositoryUrl
        from offsite.model.untrusted.place import is_address, parse_local

        if isinstance(value, str) and is_address(value):
            try:
                value = parse_local(value)
            except BadRepositoryUrl as error:
                raise BadRepositoryUrl(f"{param.opts[0]}: {error.message}", hint=error.hint) from error
        return convert(value, param, ctx)

    return checked


class _Commands(Mapping[str, Any]):
    """The real commands, imported on access."""

    def __init__(self, entries: tuple[LazyCommand, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # typer's own type has changed its place
        return _imported(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@cache  # the options of the log are put to a command once
def _imported(entry: LazyCommand) -> Any:  # noqa: ANN401  # the same
    module, _, name = entry.place.partition(":")
    command = getattr(import_module(f"{_ROOM}.{module}"), name)
    holder = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    holder.callback()(_nothing)  # so that it is a group, although it has one command
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=entry.name)
    else:
        holder.command(name=entry.name)(command)
    log_everywhere(holder)
    _explain_everywhere(holder)
    return typer.main.get_command(holder).commands[entry.name]  # type: ignore[attr-defined]  # a group


def _explain_everywhere(app: typer.Typer) -> None:
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _explain_everywhere(group.typer_instance)


def _nothing() -> None:
    pass
