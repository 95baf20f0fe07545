"""Spark in one JVM of this machine: started directly, with a Python process that prepares to be Spark's daemon (see
`daemon`), and killed at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from offsite.engine.local import pyspark_internals
from offsite.engine.local.daemon import TEMPLATE_VARIABLE, WorkerLock
from offsite.engine.local.jvm import LocalJvm, name_of_nameless
from offsite.engine.scratch import Scratch
from offsite.engine.sessions.master import task_attempts
from offsite.engine.sessions.session import ContextSession
from offsite.engine.sessions.submitted_spark import SubmittedSpark
from offsite.engine.settings import (
    MAX_SOCKET_PATH_BYTES,
    WORKER_ENVIRONMENT,
    local_settings,
    merge_settings,
    plain_settings,
    split_secrets,
)
from offsite.model.clock import Clock
from offsite.model.journal import warned
from offsite.model.machine import OWN_PYTHON

if TYPE_CHECKING:
    from pyspark import SparkContext

FAREWELL_S = 2.0
"""Time for workers to delete unfinished files, before they are killed."""


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


class LocalSession(ContextSession):
    """A JVM started directly and killed at the end: nothing in the JVM outlives its jobs. Falls back to Spark's own way
    where pyspark has changed too much."""

    def __init__(self, master: str, chosen: Mapping[str, str], *, preload: Sequence[str], clock: Clock) -> None:
        self._master, self._chosen, self._preload, self._clock = master, chosen, preload, clock
        self.max_attempts = task_attempts(master, None)
        self._scratch = Scratch()
        self._jvm: LocalJvm | None = None
        self._template: WorkerTemplate | None = None
        self._workers: WorkerLock | None = None
        self._submitted: SubmittedSpark | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        folder = self._scratch.create()
        settings = merge_settings(local_settings(master=self._master, folder=folder), self._chosen)
        try:
            return self._build_quickly(folder, settings)
        except pyspark_internals.InternalsMissing as error:
            warned("plain_start", why=f"the quick start of Spark does not work with this pyspark: {error}")
        self._kill()
        self._submitted = SubmittedSpark(folder / "spark.log")
        return self._submitted.start(plain_settings(settings), python=sys.executable)

    def _build_quickly(self, folder: Path, settings: Mapping[str, str]) -> SparkContext:
        self._workers = WorkerLock(folder)
        environment = {**WORKER_ENVIRONMENT, TEMPLATE_VARIABLE: str(WorkerTemplate.socket_in(folder))}
        self._jvm = LocalJvm(folder, settings, environment=environment, clock=self._clock)
        self._template = WorkerTemplate(folder, self._preload)
        pyspark_internals.check_parts()  # half a second of imports, while the JVM starts
        context = pyspark_internals.join_jvm(*self._jvm.gateway(), split_secrets(settings)[1], user=name_of_nameless())
        context.pythonExec = sys.executable
        return context

    def _explain(self, error: Exception) -> str:
        """Explain a failed start. The end of the JVM is the cause, a broken connection to the JVM is not."""
        return (self._jvm.exit_reason() if self._jvm is not None else "") or super()._explain(error)

    def _has_ended(self, *, surely: bool) -> bool:
        if self._workers is None:
            return True  # none was ever born
        with closing(self._workers) as workers:
            return surely and self._submitted is None and workers.all_ended()

    def _give_up_start(self) -> None:
        if self._context is None and self._jvm is not None:
            self._jvm.abandon()

    def _stop(self, *, surely: bool) -> None:
        if self._submitted is not None:
            self._submitted.stop(self._context)
            self._scratch.remove()
            return
        if self._context is not None:
            pyspark_internals.silence_shutdown(self._context)
        self._kill(surely=surely)
        self._scratch.remove()
        pyspark_internals.forget_jvm_of(self._context)

    def _kill(self, *, surely: bool = True) -> None:
        """End the JVM and the workers' parent. With `surely`, workers may delete unfinished files first."""
        if self._jvm is not None:
            if surely:
                self._jvm.abandon()
            self._jvm.close()
        if self._template is not None:
            if surely and self._workers is not None:
                self._template.hang_up()
                self._workers.all_ended(limit_s=FAREWELL_S)
            self._template.close()
