"""The command line: puts the commands together and turns errors into exit codes.

Importing this module must stay cheap (`offsite --help` in under 300 ms): commands import their services when called.
"""

from __future__ import annotations

import sys

import typer

from offsite.cli.commands import (
    archive,
    backup,
    checkpoint,
    collect,
    compact,
    export,
    generations,
    groups,
    import_,
    operator,
    records,
    repository,
    restore,
    retention,
    verify,
)
from offsite.cli.commands.coordinator import doctor, jobs, operator_work, serve
from offsite.cli.commands.local import demo, metastore, sandbox
from offsite.cli.logs import log_everywhere
from offsite.cli.output import OutputFormat, emit_error
from offsite.model.errors import OffsiteError

app = typer.Typer(
    name="offsite",
    help="Hot, consistent, verifiable backup and restore for Apache Kafka.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(demo.demo)
app.command()(doctor.doctor)
app.command()(repository.init)
app.add_typer(backup.app, name="backup")
app.command(name="list")(repository.list_)
app.command()(repository.show)
app.command()(repository.status)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(restore.app, name="restore")
app.add_typer(groups.app, name="groups")
app.command()(verify.verify)
app.add_typer(compact.app, name="compact")
app.add_typer(collect.app, name="collect")
app.add_typer(retention.app, name="retention")
app.add_typer(generations.app, name="generations")
app.add_typer(metastore.app, name="metastore")
app.command()(records.cat)
app.command()(records.search)
app.command()(export.export)
app.command(name="import")(import_.import_)
app.add_typer(archive.app, name="archive")
app.command()(serve.serve)
app.add_typer(serve.tokens, name="tokens")
app.add_typer(jobs.app, name="jobs")
operator_work.register(operator.app)
app.add_typer(operator.app, name="operator")
app.add_typer(sandbox.app, name="sandbox")
log_everywhere(app)


def run() -> None:
    """Run the command line; exits with the code of the error that ended it (see `model.errors`)."""
    try:
        app()
    except OffsiteError as error:
        emit_error(error, output=_output_format(sys.argv))
        sys.exit(error.exit_code)


def _output_format(arguments: list[str]) -> OutputFormat:
    """The `-o` of a command line that failed, read without a parser: errors must be printable before parsing ends."""
    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option in {"-o", "--output"} and value in set(OutputFormat):
            return OutputFormat(value)
    return OutputFormat.TABLE
