"""The driver's side of the worker template: a Python process that prepares to be Spark's daemon (see `daemon.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from offsite.engine.settings import MAX_SOCKET_PATH_BYTES, WORKER_ENVIRONMENT
from offsite.model.untrusted.own_python import OWN_PYTHON


class WorkerTemplate:
    """The template's process, started at once, in the background. Never required: without the template, Spark's daemon
    does the imports itself."""

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        path = str(self.socket_in(folder))
        if len(path.encode()) <= MAX_SOCKET_PATH_BYTES:
            self._process = subprocess.Popen(
                [*OWN_PYTHON, "-m", "offsite.engine.local.daemon", "template", path, *modules],
                env={**os.environ, **WORKER_ENVIRONMENT},
                stdin=subprocess.PIPE,  # never written to: the end of stdin tells the template that the driver is gone
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in the terminal is for the driver, and the driver ends the rest
            )

    @staticmethod
    def socket_in(folder: Path) -> Path:
        return folder / "template"

    def hang_up(self) -> None:
        """Tell the template and its workers to end. A worker with a task deletes unfinished files first."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGHUP)

    def close(self) -> None:
        """Kill the template and its workers: the whole process group. May be called twice."""
        if self._process is not None:
            with self._process:  # closes the pipe and waits
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process = None
