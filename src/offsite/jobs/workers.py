"""The job processes started by a coordinator. They outlive the coordinator: the store holds their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from offsite.engine.settings import VARIABLES
from offsite.model.errors import JobNotBegun, TooManyJobs
from offsite.model.journal import decided
from offsite.model.machine import OWN_PYTHON

JOBS_AT_ONCE = 2
"""Jobs that one coordinator runs at once: each has a Spark of its own."""

SECRET = "OFFSITE_JOB_SECRET"  # noqa: S105  # the name of a variable
"""Identifies the process of a job when the process writes its end: no other process gets the secret."""
_NOT_INHERITED = frozenset({"OFFSITE_BOOTSTRAP", "OFFSITE_KAFKA_CONFIG", SECRET}) | VARIABLES
"""Variables of the coordinator that no job inherits: otherwise another cluster would receive its credentials, or a job
would differ from the coordinator's options."""

_MODULE = "from offsite.cli.work import main; main()"


class Workers:
    """Starts workers, at most `at_once`. `environment`: repository and clusters, as the variables of the command line:
    arguments are visible to every user of the machine. `inherited`: further variables, by default the variables of this
    process."""

    def __init__(
        self, *, environment: Mapping[str, str], at_once: int = JOBS_AT_ONCE, inherited: Mapping[str, str] | None = None
    ) -> None:
        self._environment, self._at_once, self._inherited = environment, at_once, inherited
        self._lock = threading.Lock()
        self._begun: dict[str, subprocess.Popen[bytes]] = {}
        self._kept = 0

    def check_free(self) -> None:
        """Raises `TooManyJobs`. Only `room` enforces the limit for a start."""
        with self.room():
            pass

    @contextmanager
    def room(self) -> Iterator[None]:
        """Reserve room for one job in a block. Raises `TooManyJobs`."""
        with self._lock:
            if (count := len(self._living()) + self._kept) >= self._at_once:
                raise TooManyJobs(
                    f"{count} jobs run here, which is the maximum at a time",
                    hint="wait for a job to end, cancel a job, or use another coordinator",
                )
            self._kept += 1
        try:
            yield
        finally:
            with self._lock:
                self._kept -= 1

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the process of a job. The process reads the command line `arguments` from its input, hidden from other
        users of the machine. The process survives its terminal and the present process. `environment`: variables in
        addition to the common ones. Raises `JobNotBegun`."""
        command = [*OWN_PYTHON, "-c", _MODULE, job]
        mine = os.environ if self._inherited is None else self._inherited
        inherited = {name: value for name, value in mine.items() if name not in _NOT_INHERITED}
        try:
            with tempfile.TemporaryFile() as arguments_file:
                arguments_file.write(json.dumps(list(arguments)).encode())
                arguments_file.seek(0)
                process = subprocess.Popen(
                    command,
                    env={**inherited, **self._environment, **(environment or {})},
                    stdin=arguments_file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            raise JobNotBegun(
                f"no process could be started for job {job}: {error.strerror}",
                hint="use shorter arguments, or check memory and process limits on the machine of the coordinator",
            ) from error
        with self._lock:
            self._begun[job] = process

    def end(self, job: str) -> None:
        """Kill the process of a shut-out job, if the object started the process: a hanging process hears nothing, and
        would occupy its room for ever."""
        with self._lock:
            if (process := self._living().get(job)) is not None:
                decided("job_killed", why="its job was given up", job=job)
                os.killpg(process.pid, signal.SIGKILL)  # the process leads a group, and is not reaped yet

    def running(self) -> tuple[str, ...]:
        """The jobs whose processes run."""
        with self._lock:
            return tuple(self._living())

    def _living(self) -> dict[str, subprocess.Popen[bytes]]:
        self._begun = {job: process for job, process in self._begun.items() if process.poll() is None}
        return self._begun
