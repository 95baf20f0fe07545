"""The process of a command: its signals, and its standard streams in any initial state. Imports nothing slow."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from offsite.model.uninterrupted import interrupt

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C. In general the code is 128 plus the number of the signal, as in shells."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

RAISED_AGAIN_S = 0.01

_Handler = Callable[[int, FrameType | None], None]

EXIT_UNREAD = 141
"""Exit code of a command without a reader of the result (`| head`): 128 plus the number of SIGPIPE, like common
programs."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CLOSED = ((_STDIN, os.O_RDONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_WRONLY))
"""How a closed stream is opened on /dev/null. A closed stdout is opened for reading, so every write fails."""


class Interruption:
    """The signal that ended the process, if any.

    SIGINT (Ctrl-C), SIGTERM and SIGHUP all end a command like Ctrl-C, with the whole clean-up. During the command a
    signal becomes `KeyboardInterrupt`; before and after, a signal ends the process at once, since nothing needs a
    clean-up. A signal ignored at the start of the process (nohup, a background job of a shell) stays ignored. During
    the clean-up, only another Ctrl-C interrupts. Inside an import or a finaliser, Python would lose an exception, and
    the signal too: the exception is then raised a moment later.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._tell_lost = sys.unraisablehook
        self._handled = [signum for signum in _ENDING if signal.getsignal(signum) is not signal.SIG_IGN]

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def end_at_once(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._handle(lambda number, _: os._exit(128 + number))

    def ignore(self) -> None:
        """Ignore all signals from here on: the final message must be written."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum in self._handled:
            signal.signal(signum, signal.SIG_IGN)

    def raise_in_command(self) -> None:
        global _interruption  # noqa: PLW0603  # signals belong to the process, and so does what they did
        _interruption = self
        signal.signal(signal.SIGALRM, self._raise)
        sys.unraisablehook = self._catch_lost
        self._handle(self._interrupt)

    def tell(self) -> None:
        """Print on stderr which signal ended the command, except for Ctrl-C: the person at the keyboard knows."""
        if self.signal not in {None, signal.SIGINT}:
            with suppress(OSError, ValueError):  # the terminal may be gone
                print(f"interrupted by {self.signal.name}", file=sys.stderr, flush=True)  # noqa: T201

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number != signal.SIGINT:
            return
        self.signal = self.signal or signal.Signals(number)
        self._raise(number, frame)

    def _raise(self, _: int, frame: FrameType | None) -> None:
        if self._is_lost_in(frame):
            self._raise_later()
        else:
            interrupt()

    def _catch_lost(self, lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            self._raise_later()
        else:
            self._tell_lost(lost)

    def _is_lost_in(self, frame: FrameType | None) -> bool:
        """Whether Python would lose an exception: amid an import, and in the hook that is told of lost exceptions."""
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code is self._catch_lost.__code__:
                return True
            frame = frame.f_back
        return False

    def _raise_later(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, RAISED_AGAIN_S)

    def _handle(self, handler: _Handler) -> None:
        for signum in self._handled:
            signal.signal(signum, handler)


_interruption: Interruption | None = None


def interrupted_exit_code() -> int:
    """The exit code of a command that is being interrupted: that of the signal, and of Ctrl-C where no signal came."""
    if _interruption is None or _interruption.signal is None:
        return EXIT_INTERRUPTED
    return _interruption.exit_code


@contextmanager
def outcome_stands() -> Iterator[None]:
    """A block after the end of the work: a signal in it leaves the exit code as it was."""
    before = None if _interruption is None else _interruption.signal
    try:
        yield
    finally:
        if _interruption is not None:
            _interruption.signal = before


def open_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that handle failed writes. Must run before any file is
    opened.

    Closed streams are opened, because a file of a store could get the number of a closed stream, and a library would
    write messages into the file. An unwritable result ends the command.
    """
    for number, mode in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # without a name; takes the lowest free number
    if sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115  # open for the life of the process
    if sys.stdout is sys.__stdout__:  # otherwise a program has replaced the stream
        sys.stdout = _text(_Results(), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(), sys.stderr)


def check_written() -> None:
    """Raise if a part of the result was not written, even if the error was swallowed."""
    sys.stdout.flush()
    results = _results()
    if results is not None and results.failure is not None:
        raise results.failure


def end_streams() -> None:
    """Flush as far as possible: the end of the command is already decided."""
    with suppress(BaseException):
        sys.stdout.flush()
    results = _results()
    if results is not None:
        results.is_over = True


class _Results(io.FileIO):
    """Stdout. A failed write raises `OutputNotWritten`, or `SystemExit` without a reader."""

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
    """Stderr. Unwritable messages are dropped: a backup continues without a reader of messages."""

    def __init__(self) -> None:
        super().__init__(_STDERR, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return _written(self, data)
        except OSError:
            return memoryview(data).nbytes


def _written(file: io.FileIO, data: ReadableBuffer) -> int:
    """Write, and return the number of written bytes; waits for a full, non-blocking pipe."""
    while (size := io.FileIO.write(file, data)) is None:
        select.select([], [file], [])
    return size


def _failure(error: OSError) -> BaseException:
    if error.errno == errno.EPIPE:
        return SystemExit(EXIT_UNREAD)
    from offsite.model.errors import OutputNotWritten

    if error.errno == errno.EBADF:
        why, hint = "it is closed", "to discard the result, send it to /dev/null"
    else:
        why, hint = str(error.strerror), "send it to a place with free space"
    return OutputNotWritten(
        f"the result cannot be written to standard output: {why}", hint=f"{hint}; finished work is kept"
    )


def _results() -> _Results | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Results) else None


def _text(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    """Wrap `raw` with Python's encoding, without encoding errors."""
    errors = getattr(before, "errors", "strict")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", "utf-8"),
        errors="backslashreplace" if errors == "strict" else errors,
        line_buffering=raw.isatty() or raw.fileno() == _STDERR,
        write_through=getattr(before, "write_through", False),
    )
