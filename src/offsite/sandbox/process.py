"""The sandbox's processes: identity, remembered state, and the end together with their owner.

A process is identified by its pid together with its start time, so that a recycled pid is never mistaken. The state of
the broker of one folder between two commands is in `sandbox.json`, which holds no secret.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import SandboxFailed
from offsite.model.machine import OWN_PYTHON

POLL_S = 0.02  # short against a broker's 0.4 s shutdown, long against the cost of a look
FILE_NAME = "sandbox.json"
GOODBYE_LIMIT_S = 60  # more than a broker may take to stop, by force included


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """The identity of a process. `started`: the kernel's own text for the start; only equality means anything."""

    pid: int
    started: str

    def is_running(self) -> bool:
        return identify(self.pid) == self

    def send(self, signal_number: signal.Signals) -> None:
        """Deliver the signal if the process is still the same; a missing process is no error."""
        if self.is_running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a live process; None for a missing process, or unreaped remains."""
    _reap(pid)
    started = _started_by_proc(pid) if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    return ProcessId(pid=pid, started=started) if started else None


def stop(process: ProcessId, *, clock: Clock, patience_s: float) -> bool:
    """SIGTERM, wait up to `patience_s`, then SIGKILL. Returns when the process is gone: True if gone without force."""
    process.send(signal.SIGTERM)
    process.send(signal.SIGCONT)  # a suspended process hears nothing else
    if wait_until_gone(process, clock=clock, limit_s=patience_s):
        return True
    process.send(signal.SIGKILL)
    wait_until_gone(process, clock=clock, limit_s=patience_s)
    return False


def wait_until_gone(process: ProcessId, *, clock: Clock, limit_s: float) -> bool:
    deadline_s = clock.monotonic_s() + limit_s
    while process.is_running():
        if clock.monotonic_s() > deadline_s:
            return False
        clock.sleep(POLL_S)
    return True


def _reap(pid: int) -> None:
    """Collect the status of an ended child. Without this a child stays a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _started_by_proc(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    state, start_ticks = fields[0], fields[19]
    return "" if state in "ZX" else start_ticks


def _started_by_ps(pid: int) -> str:
    answer = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The remembered state of the broker of one folder: ports by listener name, process, and start command.

    The process may be long gone.
    """

    ports: Mapping[str, int]
    process: ProcessId
    command: tuple[str, ...] = ()


def read_state(folder: Path) -> NodeState | None:
    """Return the last written state, or None in a folder that never had a broker. Raises SandboxFailed for an
    unreadable state."""
    path = folder / FILE_NAME
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        command = tuple(fields["command"]) if "command" in fields else ()
        return NodeState(ports=fields["ports"], process=ProcessId(**fields["process"]), command=command)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SandboxFailed(f"{path} is not a sandbox's state", hint=f"delete {path}") from error


def write_state(folder: Path, state: NodeState) -> None:
    """Replace the state at once: a reader sees the old or the new state."""
    arriving = folder / f".{FILE_NAME}"
    arriving.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
    arriving.replace(folder / FILE_NAME)


class Guard:
    """The owner's side of the pipe that ends an owned sandbox with its owner, however the owner ends.

    An owned sandbox ends with its owner. A small separate process has a pipe as standard input that only the owner
    holds open. The kernel closes the pipe with the owner, even after SIGKILL; the process then stops the broker and
    ends.
    """

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*OWN_PYTHON, "-m", "offsite.sandbox.end_with_owner", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the owner, who then closes the pipe
        )

    def release(self) -> None:
        """Close the pipe and wait: afterwards the broker is stopped and no process is left."""
        self._process.communicate(timeout=GOODBYE_LIMIT_S)
