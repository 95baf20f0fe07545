"""The standard streams of a command, whatever it was begun with: closed ones are opened, and a result that cannot be
written ends the command.

Without this a file of a store could get the number of a closed stream, to which a library writes its messages. Imports
nothing that takes time.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_UNREAD = 141
"""Exit code of a command whose result nobody reads any longer (`| head`): 128 plus the number of SIGPIPE, by which
other programs end there."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CLOSED = ((_STDIN, os.O_RDONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_WRONLY))
"""How a closed stream is opened on /dev/null. A closed stdout is opened in the wrong way: each write to it fails."""


def open_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that know what to do when they cannot be written. Must come
    before anything else opens a file."""
    for number, mode in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # it takes no name; lowest free number
    if sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115  # open as long as we live
    if sys.stdout is sys.__stdout__:  # else a program has put its own there
        sys.stdout = _text(_Results(), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(), sys.stderr)


def check_written() -> None:
    """Raise if a part of the result was not written, whoever has passed over that."""
    sys.stdout.flush()
    results = _results()
    if results is not None and results.failure is not None:
        raise results.failure


def end_streams() -> None:
    """Let what is still to be written go where it can go: the end of the command is decided."""
    with suppress(BaseException):
        sys.stdout.flush()
    results = _results()
    if results is not None:
        results.is_over = True


class _Results(io.FileIO):
    """Stdout. A write that fails raises `OutputNotWritten`, or `SystemExit` where nobody reads any more."""

    def __init__(self) -> None:
        super().__init__(_STDOUT, "w", closefd=False)
        self.failure: BaseException | None = None
        self.is_over = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self.is_over:
            return memoryview(data).nbytes
        try:
            return _written(self, data)
        except OSError as error:
            self.failure = _failure(error)
            raise self.failure from error


class _Messages(io.FileIO):
    """Stderr. What cannot be written is dropped: a backup is not given up because nobody hears of it."""

    def __init__(self) -> None:
        super().__init__(_STDERR, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return _written(self, data)
        except OSError:
            return memoryview(data).nbytes


def _written(file: io.FileIO, data: ReadableBuffer) -> int:
    """The bytes that were written; waits where a pipe is full that somebody else has told not to wait."""
    while (size := io.FileIO.write(file, data)) is None:
        select.select([], [file], [])
    return size


def _failure(error: OSError) -> BaseException:
    if error.errno == errno.EPIPE:
        return SystemExit(EXIT_UNREAD)
    from offsite.model.errors import OutputNotWritten

    if error.errno == errno.EBADF:
        why, hint = "it is closed", "where nobody is to read it, send it to /dev/null"
    else:
        why, hint = str(error.strerror), "send it to where there is room"
    return OutputNotWritten(
        f"the result cannot be written to standard output: {why}", hint=f"{hint}; what was done by then stays done"
    )


def _results() -> _Results | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Results) else None


def _text(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    """`raw` with the encoding that Python has chosen, but that no character is an error."""
    errors = getattr(before, "errors", "strict")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", "utf-8"),
        errors="backslashreplace" if errors == "strict" else errors,
        line_buffering=raw.isatty() or raw.fileno() == _STDERR,
        write_through=getattr(before, "write_through", False),
    )
