from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from offsite.engine.task_attempt import interrupted_by_hangup


def test_a_hangup_interrupts_a_task_so_that_it_can_put_things_away() -> None:
    before = signal.getsignal(signal.SIGHUP)
    put_away: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        be_hung_up(put_away)
    assert put_away == ["it"]
    assert signal.getsignal(signal.SIGHUP) is before


def be_hung_up(put_away: list[str]) -> None:
    with interrupted_by_hangup():
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(10)
        finally:
            put_away.append("it")


def test_in_a_thread_nothing_is_changed() -> None:
    seen = []

    def run() -> None:
        with interrupted_by_hangup():
            seen.append(signal.getsignal(signal.SIGHUP))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGHUP)]


def test_a_second_hangup_does_not_interrupt_the_deleting() -> None:
    """Driver and daemon may both send it."""
    deleted = False
    with interrupted_by_hangup():
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            deleted = True
    assert deleted
