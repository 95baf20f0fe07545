"""The options of every command. `--verbose` and `--log-file`: destination and form of a command's journal.
`--allow-http`: see `stores.open_store`.

A line is `2026-01-31T01:02:03.456Z INFO event field=value … why="…"`; a traceback follows its line, indented. stdout is
never touched, and the error document stays the last line of stderr: log output ends before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from offsite.cli.log_file import LogFile
from offsite.cli.output import exit_on_damage, note
from offsite.model.errors import BadOption, OffsiteError, UserError
from offsite.model.journal import failed, noted, safe_line, safe_trace
from offsite.model.units import format_time
from offsite.model.untrusted.text import printable
from offsite.model.version import __version__

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show decisions on stderr, and tracebacks of failures.")]
LogFileOption = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        metavar="FILE",
        envvar="OFFSITE_LOG_FILE",
        show_envvar=True,
        help="Append the same lines to this file; at 10 MiB the file becomes FILE.1. Up to 4 old files are kept.",
    ),
]

AllowHttp = Annotated[
    bool,
    typer.Option(
        "--allow-http",
        help="Allow a store without TLS over the network, although others can read credentials and records on the way.",
    ),
]

_ROOT = logging.getLogger("offsite")
_TELLS_WHO = "offsite serve"
"""The command whose journal names readers of records and authors of changes: without a log file, the journal goes to
stderr."""


def log_everywhere(app: typer.Typer, path: str = "offsite") -> None:
    """Give every command of `app` the options, and log its run under its name."""
    for command in app.registered_commands:
        if command.callback is not None:
            name = command.name or command.callback.__name__
            command.callback = _logged(command.callback, f"{path} {name}")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            log_everywhere(group.typer_instance, f"{path} {group.name}")


@contextmanager
def log_command(command: str, *, verbose: bool, log_file: Path | None) -> Iterator[None]:
    """A context whose journal goes to stderr and to the log file, as the options say. Warnings always go to stderr.
    Raises `BadOption`."""
    verbose = verbose or (command == _TELLS_WHO and log_file is None)
    handlers = [_Terminal(verbose=verbose), *([_opened(log_file)] if log_file is not None else [])]
    logging.getLogger().addHandler(_OTHERS)
    level_before = _ROOT.level
    _ROOT.setLevel(logging.INFO if verbose or log_file is not None else logging.WARNING)
    for handler in handlers:
        handler.setFormatter(_Form())
        _ROOT.addHandler(handler)
    try:
        with _log_outcome(command), exit_on_damage():
            yield
    finally:
        for handler in handlers:
            _ROOT.removeHandler(handler)
        _ROOT.setLevel(level_before)


class _Form(logging.Formatter):
    """Formats a record as a line, in UTC; lines of a traceback are indented."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{format_time(int(record.created * 1000))} {record.levelname} {printable(record.getMessage())}"
        trace = (record.exc_text or "").splitlines()
        return "\n".join([line, *(f"    {printable(trace_line)}" for trace_line in trace)])


class _Terminal(logging.Handler):
    """Writes to the current stderr, since a progress bar replaces stderr."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__(logging.INFO if verbose else logging.WARNING)
        if not verbose:  # a command tells its errors itself
            self.addFilter(lambda record: record.levelno == logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads stderr any more
            note(self.format(record))


class _Others(logging.Handler):
    """Shows warnings of libraries like Python without logging; except Py4J's report of a lost JVM, a traceback printed
    for every interrupted command."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(lambda record: not record.name.startswith(_ROOT.name) and "py4j" not in record.pathname)

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            note(self.format(record))


_OTHERS = _Others()


@contextmanager
def _log_outcome(command: str) -> Iterator[None]:
    """Log the begin and the end of a command. Arguments are not logged: names of places may be private."""
    began_s = time.monotonic()
    noted("began", command=command, version=__version__, pid=os.getpid())
    try:
        yield
    except typer.Exit as end:
        noted("ended", exit_code=end.exit_code, took_s=time.monotonic() - began_s)
        raise
    except SystemExit as end:  # nobody reads its result any more
        noted("ended", exit_code=end.code, took_s=time.monotonic() - began_s)
        raise
    except OffsiteError as error:
        trace = "" if isinstance(error, UserError) else safe_trace(error)  # a wrong option is nowhere in the code
        failed("ended", exit_code=error.exit_code, error=error.id, why=error.message, trace=trace)
        raise
    except BaseException as error:
        failed("ended", why=safe_line(error), trace=safe_trace(error))
        raise
    noted("ended", exit_code=0, took_s=time.monotonic() - began_s)


def _opened(path: Path) -> LogFile:
    try:
        return LogFile(path)
    except OSError as error:
        raise BadOption(
            f"cannot write the log file {path}: {error.strerror}", hint="name another one with --log-file"
        ) from error


def _logged(command: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(
        *,
        verbose: bool,
        log_file: Path | None,
        allow_http: bool,
        **arguments: Any,  # noqa: ANN401  # whatever typer parsed
    ) -> None:
        if allow_http:
            from offsite.stores.open_store import ALLOW_HTTP

            os.environ[ALLOW_HTTP] = "1"  # of what is begun from here, too
        with log_command(name, verbose=verbose, log_file=log_file):
            command(**arguments)

    command_parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in _parameters_of(command)
    ]
    added = [
        _parameter("verbose", Verbose, default=False),
        _parameter("log_file", LogFileOption, default=None),
        _parameter("allow_http", AllowHttp, default=False),
    ]
    run.__signature__ = inspect.Signature([*command_parameters, *added])  # type: ignore[attr-defined]  # read by inspect
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*command_parameters, *added)}
    del run.__wrapped__  # its parameters are not all of the command's
    return run


def _parameters_of(command: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


def _parameter(name: str, annotation: object, *, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
