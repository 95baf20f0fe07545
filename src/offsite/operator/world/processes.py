"""Processes that outlive whoever begins them: begun, found again, and ended.

What is noted of a process is its id with its time of start, on this boot and in this container: another process that
has the id by now is never taken for it, and never signalled. It is noted before it does anything: a new process waits
for a word, and ends without one when whoever begins it dies in between.
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
from offsite.repository.restores.process_identity import ProcessIdentity

LOG_MAX_BYTES = 1024 * 1024
"""Of the log of a process; then it goes on in an empty one, and the full one is kept beside as `.1`."""

_WORDS_MAX = 500
_TAIL_BYTES = 64 * 1024
"""Of a log: an error that names much is far longer than the hint behind it."""

_RUN = 'read -r _ || exit 1; exec "$@" </dev/null'
_RUN_AND_TELL = 'read -r _ || exit 1; told=$1; shift; "$@" </dev/null; echo $? >"$told~" && mv "$told~" "$told"'
"""The exit code of a process is told to its parent alone, which may be gone by then: so it goes into a file."""

_children: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What is to run: arguments, which everybody on the machine can see, and the whole environment, which nobody
    else can."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def begin(launch: Launch, *, log: Path, note: Callable[[ProcessIdentity], None], told: Path | None = None) -> None:
    """Begin a process in a session of its own, whose output is added to `log`. `note` is called before it does
    anything. `told`: a file that holds its exit code when it has ended by itself. Raises `JobNotBegun`, and what `note`
    raises."""
    script = ["/bin/sh", "-c", _RUN if told is None else _RUN_AND_TELL, "offsite", *([str(told)] if told else [])]
    try:
        process = _spawned([*script, *launch.argv], launch, log)
    except OSError as error:
        raise JobNotBegun(
            f"no process could be begun: {error.strerror}", hint="look at the memory and processes of this machine"
        ) from error
    with _lock:
        _children.append(process)
    with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as go:
        note(ProcessIdentity.of_process(process.pid))
        go.write(b"go\n")


def _spawned(command: Sequence[str], launch: Launch, log: Path) -> subprocess.Popen[bytes]:
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
    """Whether a process of this machine still runs. One of an earlier boot, or of a container that was, does not."""
    mine = ProcessIdentity.mine()
    _reap()
    return is_here(identity) and not replace(identity, host=mine.host).is_gone(seen_from=mine)


def is_here(identity: ProcessIdentity) -> bool:
    """Whether it is of this boot and this container, whatever the machine was called then."""
    mine = ProcessIdentity.mine()
    is_told = bool(identity.boot) or identity.host == mine.host
    return is_told and (identity.boot, identity.namespace) == (mine.boot, mine.namespace)


def tell_to_end(identity: ProcessIdentity) -> None:
    """Ask the process; it ends what it has begun."""
    if is_alive(identity):
        with suppress(ProcessLookupError):
            os.kill(int(identity.pid), signal.SIGTERM)


def kill(identity: ProcessIdentity) -> None:
    """End the process and its group at once."""
    if is_alive(identity):
        with suppress(ProcessLookupError):
            os.killpg(int(identity.pid), signal.SIGKILL)


def bound_log(log: Path) -> None:
    """Let a log that is full go on empty. Whoever writes it adds to its end, wherever that is."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_MAX_BYTES:
            with log.open("rb+") as file:
                full = Path(f"{log}.1")
                full.touch(mode=0o600)
                full.write_bytes(file.read(2 * LOG_MAX_BYTES))
                file.truncate(0)


def last_words(log: Path) -> str:
    """What a process said last, for people: an error with its hint, else the last line."""
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
    """A child that has ended is a process until its parent has asked."""
    with _lock:
        _children[:] = [each for each in _children if each.poll() is None]
