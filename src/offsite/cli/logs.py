"""The options of every command. `--verbose` and `--log-file`: destination and form of a command's journal.
`--allow-http`: see `stores.open_store`.

A line is `2026-01-31T01:02:03.456Z INFO event field=value … why="…"`; a traceback follows its line, indented. stdout is
never touched, and the error document stays the last line of stderr: log output ends before.

Several commands may share a log file with a promised maximum size. Every line is written completely, under a lock, into
the file with the name at the moment: a rotation (by a run, or by a tool of the system) loses no line.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import inspect
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from offsite.cli.output import exit_on_damage, note
from offsite.model.errors import BadOption, OffsiteError, UserError
from offsite.model.journal import failed, noted, safe_line, safe_trace
from offsite.model.units import format_time
from offsite.model.untrusted.text import printable
from offsite.model.version import __version__

MAX_BYTES = 10 << 20
"""Size of a log file at rotation: some 60,000 lines, opened at once by any editor."""

KEPT_FILES = 4
"""Older files beside the current file, named FILE.1 (the newest) to FILE.4: 50 MiB together with the current file."""

_PRIVATE = 0o600
"""Mode of a new file: a log names topics, groups and places. After a file with another mode, set by a person, the next
file has the same mode."""

_REOPENINGS = 10

_ROOT = logging.getLogger("offsite")
_TELLS_WHO = "offsite serve"
"""The command whose journal names readers of records and authors of changes: without a log file, the journal goes to
stderr."""


class LogFile(logging.Handler):
    """A log handler that appends to the file `path`. A failed write is reported once on stderr and stops no command."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept_files: int = KEPT_FILES) -> None:
        """Raises `OSError` when the file cannot be written."""
        super().__init__()
        self._path = path.resolve()
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self._is_broken = False
        self._mode = _mode_of(self._path)
        os.close(self._open())

    def emit(self, record: logging.LogRecord) -> None:
        data = f"{self.format(record)}\n".encode(errors="backslashreplace")
        try:
            self._append(data)
        except OSError as error:
            if not self._is_broken:
                note(f"warning: log lines are lost: cannot write {self._path}: {error.strerror}")
            self._is_broken = True

    def _append(self, data: bytes) -> None:
        for _ in range(_REOPENINGS):
            fd = self._open()
            try:
                if self._is_current(fd) and not self._turned_over(fd, len(data)):
                    _write_all(fd, data)
                    return
            finally:
                os.close(fd)
        raise OSError(0, "other processes rotate it all the time")

    def _open(self) -> int:
        """Open the file, locked until closed; without a lock where the file system has none."""
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        return fd

    def _is_current(self, fd: int) -> bool:
        """Whether the locked file still has the name."""
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def _turned_over(self, fd: int, more_bytes: int) -> bool:
        """Rename a full file. Pipes and terminals are never full."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size or status.st_size + more_bytes <= self._max_bytes:
            return False
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._kept_files + 1))]
        for older, newer in reversed(list(zip(names[1:], names[:-1], strict=True))):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        return True


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _PRIVATE


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


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

    added = [
        keyword_parameter("verbose", Verbose, default=False),
        keyword_parameter("log_file", LogFileOption, default=None),
        keyword_parameter("allow_http", AllowHttp, default=False),
    ]
    return with_parameters(run, [*keyword_parameters(command), *added])


def with_parameters(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Give `run`, which wraps a command, other parameters than the command's."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]  # its parameters are not those of `run`
    return run


def keyword_parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    """The parameters of a command, all by keyword."""
    own_parameters = inspect.signature(command, eval_str=True).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own_parameters]


def keyword_parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    """A parameter that typer makes an option of."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
