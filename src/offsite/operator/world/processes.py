"""Processes with a longer life than their starter: start, find again, end.

The record of a process has its id, start time, boot and container: another process with a reused id is never taken for
the recorded process, and never signalled. The record is written before the process does anything: a new process waits
for a word on its input, and exits without the word after the death of its starter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from offsite.model.errors import JobNotBegun
from offsite.repository.restores.lease import ProcessIdentity

LOG_MAX_BYTES = 1024 * 1024
"""Size limit of the log of a process. A full log is copied to `.1`, and the log continues empty."""

_WORDS_MAX = 500
_TAIL_BYTES = 64 * 1024
"""Bytes read from the end of a log: an error with many names is far longer than the hint after it."""

_RUN = 'read -r _ || exit 1; exec "$@" </dev/null'
_RUN_AND_TELL = 'read -r _ || exit 1; told=$1; shift; "$@" </dev/null; echo $? >"$told~" && mv "$told~" "$told"'
"""The exit code of a process goes to its parent only, which may be gone by then: so the shell writes the exit code into
a file."""

_children: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLaunch:
    """A command to run: arguments, visible to every user of the machine, and the whole environment, visible to no other
    user."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def begin(
    launch: ProcessLaunch, *, log: Path, note: Callable[[ProcessIdentity], None], exit_code_file: Path | None = None
) -> None:
    """Start a process in a session of its own; its output is appended to `log`. `note` is called before the process
    does anything. `exit_code_file`: holds the exit code after the process ended by itself. Raises `JobNotBegun`, and
    the errors of `note`."""
    script = [
        "/bin/sh",
        "-c",
        _RUN if exit_code_file is None else _RUN_AND_TELL,
        "offsite",
        *([str(exit_code_file)] if exit_code_file else []),
    ]
    try:
        process = _spawned([*script, *launch.argv], launch, log)
    except OSError as error:
        raise JobNotBegun(
            f"no process could be started: {error.strerror}", hint="check memory and process limits of this machine"
        ) from error
    with _lock:
        _children.append(process)
    with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as go:
        note(ProcessIdentity.of_process(process.pid))
        go.write(b"go\n")


def _spawned(command: Sequence[str], launch: ProcessLaunch, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            env=dict(launch.environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether a process of the local machine still runs. False for a process of an earlier boot or of a former
    container."""
    mine = ProcessIdentity.current()
    _reap()
    return is_here(identity) and not replace(identity, host=mine.host).is_gone(seen_from=mine)


def is_here(identity: ProcessIdentity) -> bool:
    """Whether the process belongs to this boot and this container, under any name of the machine."""
    mine = ProcessIdentity.current()
    is_told = bool(identity.boot) or identity.host == mine.host
    return is_told and (identity.boot, identity.namespace) == (mine.boot, mine.namespace)


def terminate(identity: ProcessIdentity) -> None:
    """Send SIGTERM. The process ends its children."""
    if is_alive(identity):
        with suppress(ProcessLookupError):
            os.kill(int(identity.pid), signal.SIGTERM)


def kill(identity: ProcessIdentity) -> None:
    """End the process and its process group at once."""
    if is_alive(identity):
        with suppress(ProcessLookupError):
            os.killpg(int(identity.pid), signal.SIGKILL)


def bound_log(log: Path) -> None:
    """Empty a log that is full. The writer appends at the end of the file, so the writer continues at the new end."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_MAX_BYTES:
            with log.open("rb+") as file:
                full = Path(f"{log}.1")
                full.touch(mode=0o600)
                full.write_bytes(file.read(2 * LOG_MAX_BYTES))
                file.truncate(0)


def last_words(log: Path) -> str:
    """Return the last message of a process, for people: an error with its hint, or else the last line."""
    lines = _tail(log)
    at = next((number for number in reversed(range(len(lines))) if lines[number].startswith("error[")), None)
    return (
        "; ".join(map(str.strip, lines[at:]))[:_WORDS_MAX]
        if at is not None
        else lines[-1][:_WORDS_MAX]
        if lines
        else ""
    )


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace").strip().splitlines()
    except OSError:
        return []


def _reap() -> None:
    """Reap ended children: an ended child remains a process until its parent polls."""
    with _lock:
        _children[:] = [process for process in _children if process.poll() is None]
