"""The process of a job: `work JOB`, started by a coordinator, with a command line as JSON on standard input. Runs the
command, and reports the end.

The repository is `OFFSITE_REPO`, as for the command. Nothing is printed: output and messages of the command are stored
with the job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from offsite.cli.process import Interruption, open_streams
from offsite.jobs.workers import SECRET

if TYPE_CHECKING:
    from offsite.jobs.work import JobWork

_STDOUT, _STDERR = 1, 2


def main() -> None:
    open_streams()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # how it is cancelled, also where its coordinator ignores it
    interruption = Interruption()
    interruption.end_at_once()
    job, arguments, secret = sys.argv[1], json.load(sys.stdin), os.environ.pop(SECRET, "")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    from offsite.cli.wiring import open_repository
    from offsite.jobs.work import work_on
    from offsite.model.clock import SystemClock

    def end() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with (
        _into_files() as (printed, messages),
        work_on(
            open_repository(os.environ["OFFSITE_REPO"]).store, job, cancel=end, clock=SystemClock(), secret=secret
        ) as work,
    ):
        if work.is_over:
            return
        exit_code = _interruptible(interruption, work, [*arguments, "-o", "json"])
        work.record_end(exit_code=exit_code, result=_text(printed), said=_text(messages))


def _interruptible(interruption: Interruption, work: JobWork, arguments: list[str]) -> int:
    """Run the command, and return the exit code; a signal ends the command as usual, and nothing afterwards."""
    from offsite.cli.progress import report_progress_to

    try:
        try:
            interruption.raise_in_command()
            with report_progress_to(work.report_progress, on_topics=work.report_topics):
                return _carried_out(arguments)
        finally:
            interruption.ignore()
    except KeyboardInterrupt:
        return interruption.exit_code


def _carried_out(arguments: list[str]) -> int:
    """Run the command line `arguments`, and return the exit code."""
    from offsite.cli.app import run

    sys.argv = ["offsite", *arguments]
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except Exception as error:  # noqa: BLE001  # a mistake of ours ends the job, and is told
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


@contextmanager
def _into_files() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A context in which the process and its children print into files, read at the end."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as messages:
        for stream, file in ((_STDOUT, printed), (_STDERR, messages)):
            os.dup2(file.fileno(), stream)
        yield printed, messages


def _text(file: IO[bytes]) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    file.seek(0)
    return file.read().decode(errors="replace")
