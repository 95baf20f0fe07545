"""The command line: assembles the commands and turns errors into exit codes.

Importing this module must stay cheap (`offsite --help` in under 250 ms): commands are imported when called, and import
their services then (`tests/unit/cli/test_start.py` counts).
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from offsite.cli.lazy_group import LazyCommand, LazyGroup
from offsite.cli.output import OutputFormat, emit_error
from offsite.cli.streams import check_written
from offsite.model.errors import BadOption, OffsiteError


class _Commands(LazyGroup):
    """All commands, in the order of the help."""

    entries = (
        LazyCommand(
            "demo",
            "local.demo:demo",
            "Start a real Kafka, write difficult data, back it up, delete it, restore it, and compare record by "
            "record.",
        ),
        LazyCommand(
            "doctor",
            "coordinator.doctor:doctor",
            "Check for common problems: Java, Spark, brokers, permissions, clocks, the store, this machine.",
        ),
        LazyCommand("init", "repository:init", "Create a new repository in an empty folder or prefix."),
        LazyCommand("list", "repository:list_", "List the backups of the repository."),
        LazyCommand("show", "repository:show", "Show what a backup holds: topics, offsets, holes, restore points."),
        LazyCommand(
            "status",
            "repository:status",
            "Am I safe? One screen; exit code 3 when something needs attention, 13 when something is damaged or gone.",
        ),
        LazyCommand("verify", "verify:verify", "Check a backup, and with --against a cluster."),
        LazyCommand("cat", "records:cat", "Show records of a backup, partition by partition in the order of offsets."),
        LazyCommand("search", "records:search", "Find records by key, value, header and time."),
        LazyCommand(
            "export",
            "export:export",
            "Write topics into an archive of another format, from a restore point or directly from a cluster.",
        ),
        LazyCommand(
            "import",
            "import_:import_",
            "Import an archive as a normal backup: records at their offsets, groups, and a list of missing parts.",
        ),
        LazyCommand("serve", "coordinator.serve:serve", "Serve backups over HTTP: an API, and pages for a browser."),
        LazyCommand("backup", "backup:app", "Back up topics into the repository."),
        LazyCommand("checkpoint", "checkpoint:app", "Take checkpoints: restore points with ordered ids."),
        LazyCommand("restore", "restore:app", "Restore topics into a cluster."),
        LazyCommand("groups", "groups:app", "Set consumer groups to their offsets in a backup."),
        LazyCommand("compact", "compact:app", "Keep the latest record of each key of compacted topics."),
        LazyCommand("collect", "collect:app", "Delete objects that a roll-up replaced, and leftovers of killed runs."),
        LazyCommand(
            "retention", "retention:app", "Keep restore points by rules, and delete data that no restore point needs."
        ),
        LazyCommand(
            "generations", "generations:app", "Back up compacted topics in generations, by two instances in turn."
        ),
        LazyCommand(
            "metastore", "local.metastore:app", "Back up the command topic of ksqlDB to local files, and restore it."
        ),
        LazyCommand("archive", "archive:app", "Inspect archives of other tools, and delete old files."),
        LazyCommand("tokens", "coordinator.serve:tokens", "Manage tokens: who may do what on a coordinator."),
        LazyCommand("jobs", "coordinator.jobs:app", "Show the jobs of coordinators, and cancel them."),
        LazyCommand("operator", "operator:app", "Run backups as declared in a folder of YAML files."),
        LazyCommand("spark", "local.spark:app", "Bring offsite to the executors of a Spark cluster."),
        LazyCommand(
            "sandbox", "local.sandbox:app", "Start and stop a real Kafka on this machine, of one broker or several."
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
