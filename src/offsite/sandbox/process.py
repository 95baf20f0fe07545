"""Processes by identity: a pid together with its start time, so that a recycled pid is never taken for ours."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.model.clock import Clock

POLL_S = 0.02  # short against a broker's 0.4 s shutdown, long against the cost of a look


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """`started` is the kernel's own text for the start; only equality means anything."""

    pid: int
    started: str

    def is_running(self) -> bool:
        return identify(self.pid) == self

    def send(self, signal_number: signal.Signals) -> None:
        """Deliver the signal if the process is still the one meant; a process that is gone is no error."""
        if self.is_running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)


def identify(pid: int) -> ProcessId | None:
    """The identity of a live process; None when there is none, or only its unreaped remains."""
    _reap(pid)
    started = _started_by_proc(pid) if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    return ProcessId(pid=pid, started=started) if started else None


def stop(process: ProcessId, *, clock: Clock, patience_s: float) -> bool:
    """SIGTERM, wait up to `patience_s`, then SIGKILL. Returns when it is gone: True if it went without force."""
    process.send(signal.SIGTERM)
    process.send(signal.SIGCONT)  # one that was stopped hears nothing else
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
    """A child of ours that has ended stays a zombie until someone asks for its status."""
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
