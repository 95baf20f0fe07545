"""A terminal without a person: what a command shows on it, and what is typed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import pytest

END_OF_INPUT, INTERRUPT = "\x04", "\x03"
PATIENCE_S = 120.0

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal of so many columns and lines: `typed` goes in, `shown` is all that came out, with control codes."""

    def __init__(self, *, columns: int = 100, lines: int = 30) -> None:
        self.columns, self.lines = columns, lines
        self._keyboard, self.end = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.shown = ""
        self._is_closed = False

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def read(self, *, wait_s: float = 0.0) -> str:
        """Take what has come out until now."""
        while not self._is_closed and select.select([self._keyboard], [], [], wait_s)[0]:
            try:
                data = os.read(self._keyboard, 65536)
            except OSError:  # nobody has the other end open
                break
            self.shown += data.decode(errors="replace")
            wait_s = 0.0
        return self.shown

    @property
    def text(self) -> str:
        """All that came out, without control codes."""
        return _CONTROL.sub("", self.read()).replace("\r\n", "\n")

    def wait_for(self, *texts: str) -> None:
        """Wait until each text has come out behind the one before."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not _in_order(texts, self.text):
            assert time.monotonic() < deadline_s, f"{texts} is not on the terminal:\n{self.text}"
            self.read(wait_s=0.1)

    def close(self) -> None:
        self.read()
        self._is_closed = True
        for number in (self.end, self._keyboard):
            with contextlib.suppress(OSError):
                os.close(number)


_SIZES = "COLUMNS", "LINES"
"""Variables that count instead of a terminal's size; the workers of a test run have them."""


@contextlib.contextmanager
def at_terminal(monkeypatch: pytest.MonkeyPatch, typed: str = "") -> Iterator[Terminal]:
    """This process reads and writes on a terminal, where `typed` was typed ahead, and then the end of the input."""
    terminal = Terminal()
    terminal.type(f"{typed}{END_OF_INPUT}")
    with contextlib.ExitStack() as opened:
        opened.callback(terminal.close)
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            stream: IO[str] = opened.enter_context(open(terminal.end, mode, closefd=False))
            monkeypatch.setattr(sys, name, stream)
        for name, size in zip(_SIZES, (terminal.columns, terminal.lines), strict=True):
            monkeypatch.setenv(name, str(size))  # the streams with the numbers 0 to 2 are not this terminal
        yield terminal
        sys.stderr.flush()
        terminal.read()
    monkeypatch.undo()


@contextlib.contextmanager
def running_at_terminal(
    arguments: Sequence[str], environment: Mapping[str, str], *, columns: int = 100, lines: int = 30
) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A process whose terminal this is: Ctrl-C typed there interrupts it."""
    terminal = Terminal(columns=columns, lines=lines)
    own_size = {name: text for name, text in environment.items() if name not in _SIZES}

    def begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        arguments,
        env=own_size,
        stdin=terminal.end,
        stdout=terminal.end,
        stderr=terminal.end,
        start_new_session=True,
        preexec_fn=begin,  # noqa: PLW1509  # signals, and the terminal of the session
    )
    try:
        yield process, terminal
    finally:
        process.kill()
        process.wait()
        terminal.close()


def _in_order(texts: Sequence[str], shown: str) -> bool:
    position = 0
    for text in texts:
        if (start := shown.find(text, position)) < 0:
            return False
        position = start + len(text)
    return True
