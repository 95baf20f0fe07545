"""The command line: the commands, known by name and a sentence of help and imported on call, and errors as exit codes.

Importing this module must stay cheap (`offsite --help` in under 250 ms; `tests/integration/cli/test_start.py` counts).
Importing all commands takes longer than importing Python and typer together. Listings (help, completion, a mistyped
name) use `LazyCommand` values; calls, a command's own help, and walks through `commands` (by the generated pages) use
the real command, which imports what it uses when called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import TyperPath

from offsite.cli.logs import log_everywhere
from offsite.cli.output import OutputFormat, emit_error
from offsite.cli.process import check_written
from offsite.model.errors import BadOption, BadRepositoryUrl, OffsiteError

_ROOM = "offsite.cli.commands"

_WHOLE = 10_000
"""Characters of a sentence that is not cut off."""

_QUOTE = "Quote patterns, else the shell replaces them with file names: --topics '*'"


class CommandGroup(TyperGroup):
    """A group whose help lists its commands with whole sentences: typer cuts a sentence off at the end of the line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # types of click's, wherever it lies
        sections = {heading: self._summaries(ctx, names) for heading, names in self.headings(ctx).items()}
        width = max((len(name) for summaries in sections.values() for name in summaries), default=0)
        for heading, summaries in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in summaries.items()])

    def headings(self, ctx: Any) -> Mapping[str, Iterable[str]]:  # noqa: ANN401  # the same
        """The names of the commands, by the heading above them in the help."""
        return {"Commands": self.list_commands(ctx)}

    def _summaries(self, ctx: Any, names: Iterable[str]) -> dict[str, str]:  # noqa: ANN401  # the same
        commands = ((name, self.get_command(ctx, name)) for name in names)
        return {
            name: command.get_short_help_str(_WHOLE)
            for name, command in commands
            if command is not None and not command.hidden
        }


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command. `place`: `MODULE:NAME` of a function or of a `Typer` below `cli/commands`. `help`: the first sentence
    of the command's own help; a test compares the two."""

    name: str
    place: str
    help: str


@dataclass(frozen=True, slots=True)
class Section:
    """Commands for one purpose: below one heading of the help and of the reference."""

    heading: str
    commands: tuple[LazyCommand, ...]


class LazyGroup(CommandGroup):
    """The group made by a `Typer`; a subclass lists the commands."""

    sections: ClassVar[tuple[Section, ...]] = ()

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # whatever typer has found
        super().__init__(**settings)
        self._entries = {command.name: command for section in self.sections for command in section.commands}
        self.commands = _ImportedCommands(self._entries)  # type: ignore[assignment]  # nobody adds any

    def headings(self, ctx: object) -> Mapping[str, Iterable[str]]:  # noqa: ARG002  # those of any context
        return {section.heading: [command.name for command in section.commands] for section in self.sections}

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002  # typer's signature
        return list(self.commands)  # typer looks at each of them

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002  # the same
        """Return a stand-in for lists. The stand-in cannot be called."""
        listed = self._entries.get(cmd_name)
        return None if listed is None else TyperCommand(listed.name, help=listed.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # types of click's, wherever it lies
        """Return the real command, about to be called or completed."""
        name, listed, arguments = super().resolve_command(ctx, args)
        return name, None if listed is None else self.commands[str(listed.name)], arguments


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
        from offsite.model.untrusted.place import is_address, parse_local

        if isinstance(value, str) and is_address(value):
            try:
                value = parse_local(value)
            except BadRepositoryUrl as error:
                raise BadRepositoryUrl(f"{param.opts[0]}: {error.message}", hint=error.hint) from error
        return convert(value, param, ctx)

    return checked


class _ImportedCommands(Mapping[str, Any]):
    """The real commands, imported on access."""

    def __init__(self, entries: Mapping[str, LazyCommand]) -> None:
        self._entries = entries

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
        group.cls = CommandGroup
        if group.typer_instance is not None:
            _explain_everywhere(group.typer_instance)


def _nothing() -> None:
    pass


class _Commands(LazyGroup):
    """All commands, in the order of the help. A sentence fits into a line of 80 columns."""

    sections = (
        Section(
            "Back up",
            (
                LazyCommand("init", "repository:init", "Create a new repository in an empty folder or prefix."),
                LazyCommand("backup", "backup:app", "Back up topics into the repository."),
                LazyCommand("checkpoint", "checkpoint:app", "Take checkpoints: restore points with ordered ids."),
                LazyCommand("generations", "generations:app", "Back up compacted topics in turn, by two instances."),
            ),
        ),
        Section(
            "Restore",
            (
                LazyCommand("restore", "restore:app", "Restore topics into a cluster."),
                LazyCommand("groups", "groups:app", "Set consumer groups to their offsets in a backup."),
            ),
        ),
        Section(
            "Look and check",
            (
                LazyCommand("status", "repository:status", "Am I safe? All backups on one screen."),
                LazyCommand("list", "repository:list_", "List the backups of the repository."),
                LazyCommand("show", "repository:show", "Show what a backup holds: topics, offsets, restore points."),
                LazyCommand("cat", "records:cat", "Show records of a backup in the order of their offsets."),
                LazyCommand("search", "records:search", "Find records by key, value, header and time."),
                LazyCommand("verify", "verify:verify", "Check a backup, and with --against a cluster."),
                LazyCommand(
                    "doctor", "doctor:doctor", "Check for common problems of brokers, stores and this machine."
                ),
            ),
        ),
        Section(
            "Upkeep",
            (
                LazyCommand("retention", "retention:app", "Delete restore points by rules, and show what was deleted."),
                LazyCommand("compact", "compact:app", "Keep the latest record of each key of compacted topics."),
                LazyCommand("collect", "collect:app", "Delete replaced objects, and leftovers of killed runs."),
            ),
        ),
        Section(
            "Other tools",
            (
                LazyCommand("import", "import_:import_", "Import an archive of another tool as a normal backup."),
                LazyCommand("export", "export:export", "Write topics into an archive of another format."),
                LazyCommand("archive", "archive:app", "Inspect archives of other tools, and delete old files."),
                LazyCommand("metastore", "metastore:app", "Back up and restore the command topic of ksqlDB."),
            ),
        ),
        Section(
            "Run it",
            (
                LazyCommand("demo", "sandbox:demo", "Watch a backup and a restore on a real Kafka."),
                LazyCommand("sandbox", "sandbox:app", "Start and stop a real Kafka on this machine."),
                LazyCommand("serve", "serve:serve", "Serve backups over HTTP: an API, and pages for a browser."),
                LazyCommand("tokens", "serve:tokens", "Manage tokens: who may do what on a coordinator."),
                LazyCommand("notify", "notify:app", "Try out who is told by --notify."),
                LazyCommand("jobs", "jobs:app", "Show the jobs of coordinators, and cancel them."),
                LazyCommand("operator", "operator:app", "Run backups as declared in a folder of YAML files."),
                LazyCommand("spark", "spark:app", "Bring offsite to the executors of a Spark cluster."),
            ),
        ),
    )


app = typer.Typer(
    name="offsite",
    cls=_Commands,
    help="Hot, consistent, verifiable backup and restore for Apache Kafka.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _all() -> None:
    """Typer takes the callback as a sign of subcommands, although typer knows of none."""


def run() -> None:
    """Run the command line; exits with the code of the final error (see `model.errors`)."""
    try:
        try:
            app()
        except SystemExit:  # the normal end
            check_written()
            raise
        except FileNotFoundError:
            _check_working_folder()
            raise
    except OffsiteError as error:
        emit_error(error, output=_output_format(sys.argv))
        sys.exit(error.exit_code)


def _check_working_folder() -> None:
    """Raise `BadOption` when the working folder was deleted: relative names lead nowhere then."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise BadOption(
            "the working folder was deleted", hint="cd to an existing folder, or give full paths"
        ) from error


def _output_format(arguments: list[str]) -> OutputFormat:
    """Return the `-o` of a failed command line, read without a parser: errors must be printable before parsing ends."""
    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option in {"-o", "--output"} and value in set(OutputFormat):
            return OutputFormat(value)
    return OutputFormat.TABLE
