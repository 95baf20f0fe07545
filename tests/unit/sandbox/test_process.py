from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from offsite.model.clock import SystemClock
from offsite.sandbox import process
from offsite.sandbox.process import ProcessId

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


@pytest.fixture
def stubborn() -> Iterator[ProcessId]:
    """A process that does not listen to SIGTERM."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        identity = process.identify(child.pid)
        assert identity is not None
        yield identity
        child.kill()


def test_a_process_is_itself() -> None:
    me = process.identify(os.getpid())
    assert me is not None
    assert me.is_running()


def test_a_recycled_pid_is_another_process_and_gets_no_signal(stubborn: ProcessId) -> None:
    earlier = ProcessId(pid=stubborn.pid, started="long ago")
    assert not earlier.is_running()
    process.stop(earlier, clock=SystemClock(), patience_s=1)
    assert stubborn.is_running()


def test_a_process_that_does_not_listen_is_killed(stubborn: ProcessId) -> None:
    process.stop(stubborn, clock=SystemClock(), patience_s=0.1)
    assert not stubborn.is_running()


def test_stopping_what_is_gone_does_nothing(stubborn: ProcessId) -> None:
    for _ in range(2):
        process.stop(stubborn, clock=SystemClock(), patience_s=0.1)
    assert process.identify(stubborn.pid) is None
