"""A participant that was stopped for longer than its lease: the checkpoint went on without it, and it must not spoil
it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from offsite_participant.control import ControlState
from offsite_participant.number import Form
from tests.integration.participant.site import CLIENTS, LIMIT_S, Site

LEASE_MS = 1_500


@pytest.mark.parametrize("client", CLIENTS)
def test_who_wakes_up_after_its_lease_writes_nothing_of_before(site: Site, client: str) -> None:
    with writer(site, client) as process:
        lines = _lines(process)
        assert "0" in lines  # a busy machine may cost it a lease or two before
        os.kill(process.pid, signal.SIGSTOP)
        site.open(9, Form.ACKS)
        _wait_for_lapse(site, 9)
        end = sum(1 for _ in site.read(site.paid))
        os.kill(process.pid, signal.SIGCONT)
        assert "9" in lines
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0
    stamps = site.paid_numbers()
    assert set(stamps[:end]) == {0}
    assert set(stamps[end:]) == {9}


def _wait_for_lapse(site: Site, checkpoint: int) -> None:
    """As whoever opens a checkpoint does: a lease counts from when its last beat was read."""
    state, start_s = ControlState(), time.monotonic()
    for record in site.said():
        state = state.after(record, read_at_ms=0)
    assert state.missing(checkpoint, now_ms=0)
    while state.missing(checkpoint, now_ms=int((time.monotonic() - start_s) * 1000)):
        time.sleep(0.02)


@contextmanager
def writer(site: Site, client: str) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("stoppable.py")
    command = [sys.executable, str(script), client, site.bootstrap, site.name, str(LEASE_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    output: IO[str] | None = process.stdout
    assert output is not None
    return (line.strip() for line in output)
