"""A process that offsite starts for a while: with a limit of time and of output, in a group of its own that is gone
when `run_child` returns.

Nothing that the process does holds the caller up longer than the limit and a few seconds: not an output without end,
not an input that nobody reads, not a child that keeps the output open.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from time import monotonic, sleep
from typing import IO

SHOWN_BYTES = 16 << 10
"""Output that is kept: a screen or two."""
OUTPUT_MAX_BYTES = 16 << 20
"""Output that is read and dropped, before the process counts as one that prints without end."""
TERM_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
_REAPED_S = 1.0
_LOOK_EVERY_S = 0.02
_READ_BYTES = 64 << 10
_SECRET_WORDS = (
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "TOKEN",
    "CREDENTIAL",
    "_KEY",
    "APIKEY",
    "_PASS",
    "_PWD",
    "CONNECTION_STRING",
    "SAS_",
)


class ChildEnd(Enum):
    """How the process ended: itself, or killed at the limit of its time or of its output."""

    ITSELF = "itself"
    TIME = "time"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """`exit_code`: negative for a signal; None where it was killed, or did not die. `output`: its first bytes;
    `left_out_bytes`: how many more it printed."""

    end: ChildEnd
    exit_code: int | None
    output: bytes
    left_out_bytes: int = 0


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without offsite's own variables, and without all whose names say that they hold a secret:
    what a process prints of its environment tells nothing."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("OFFSITE_") and not any(word in name.upper() for word in _SECRET_WORDS)
    }


def run_child(
    command: Sequence[str], *, given: bytes, environment: Mapping[str, str], left_s: Callable[[], float]
) -> ChildResult:
    """Run `command`, with `given` as its standard input, until it ends or `left_s` (seconds, asked again and again) is
    used up. Its output and its errors are read together. At the end its whole group is killed: what shall live longer
    begins a session of its own. Raises `OSError` where it cannot be started."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
    )
    pipes = _Pipes(process, given)
    try:
        end = _attend(process, pipes, left_s)
    finally:
        _end_group(process)
        pipes.close()
    return ChildResult(
        end=end,
        exit_code=process.returncode if end is ChildEnd.ITSELF else None,
        output=bytes(pipes.output),
        left_out_bytes=pipes.printed_bytes - len(pipes.output),
    )


class _Pipes:
    """The ends of the pipes to a process; nothing waits for the process."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        self._stdin, self._stdout = _opened(process.stdin), _opened(process.stdout)
        self._given = memoryview(given)
        self.output, self.printed_bytes = bytearray(), 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdin, selectors.EVENT_WRITE, self._write)
        self._selector.register(self._stdout, selectors.EVENT_READ, self._read)

    def move(self, *, within_s: float) -> None:
        """Write and read what is possible within the time."""
        for key, _ in self._selector.select(within_s):
            key.data()

    def drain(self) -> None:
        """Read what was printed before the end, and wait for nothing: a child may keep the pipe open."""
        while self._stdout in self._selector.get_map() and self._read() and self.printed_bytes <= OUTPUT_MAX_BYTES:
            pass

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()

    def _write(self) -> None:
        try:
            self._given = self._given[os.write(self._stdin.fileno(), self._given) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it
            self._given = memoryview(b"")
        if not self._given:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _read(self) -> bool:
        try:
            data = os.read(self._stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(self._stdout)
        self.printed_bytes += len(data)
        self.output += data[: SHOWN_BYTES - len(self.output)]
        return bool(data)


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101  # it was asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _attend(process: subprocess.Popen[bytes], pipes: _Pipes, left_s: Callable[[], float]) -> ChildEnd:
    while not _has_ended(process):
        if left_s() <= 0:
            return ChildEnd.TIME
        if pipes.printed_bytes > OUTPUT_MAX_BYTES:
            return ChildEnd.OUTPUT
        pipes.move(within_s=_LOOK_EVERY_S)
    pipes.drain()
    return ChildEnd.ITSELF


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended. It is not reaped: until then its number is that of its group, and of nobody
    else's."""
    if sys.platform == "darwin":  # without waitid before Python 3.13: reaped, and its number may be another's soon
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and all of its group: SIGTERM first where it has not ended, SIGKILL for the rest."""
    if not _has_ended(process):
        _signal_group(process, signal.SIGTERM)
        last_s = monotonic() + TERM_S
        while monotonic() < last_s and not _has_ended(process):
            sleep(_LOOK_EVERY_S)
    _signal_group(process, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # it hangs in the kernel, as on a dead file system
        process.wait(_REAPED_S)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; of what became another user's, the rest
        os.killpg(process.pid, number)
