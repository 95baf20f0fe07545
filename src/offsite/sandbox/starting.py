"""Several launches at once, waited for together: all serve, or none is left."""

from __future__ import annotations

from collections.abc import Sequence

from offsite.model.clock import Clock
from offsite.sandbox import process
from offsite.sandbox.launch import Launched, begin_again

START_LIMIT_S = 90.0  # takes 2-4 s on an idle machine; with all cores busy it may take ten times that
KILL_LIMIT_S = 5.0  # a killed process is gone at once; the kernel may need a moment to free its memory
POLL_S = 0.05
TOO_EARLY_S = 1.0  # between two launches of a broker whose earlier self is not given up yet


def await_all(launched: Sequence[Launched], *, clock: Clock, brokers: Sequence[int]) -> bool:
    """Return when each serves and knows all of `brokers`. False: one lost its port, and all are stopped.

    Raises `SandboxFailed` with the last lines of the one that did not start; all are stopped then too.
    """
    ready = False
    try:
        failed = _first_failure(launched, clock, brokers)
        ready = failed is None
    finally:
        if not ready:
            stop_all(launched, clock)
    if failed is not None and not failed.lost_its_port:
        raise failed.failure()
    return ready


def stop_all(launched: Sequence[Launched], clock: Clock) -> None:
    for each in launched:
        process.stop(each.state.process, clock=clock, patience_s=KILL_LIMIT_S)


def _first_failure(launched: Sequence[Launched], clock: Clock, brokers: Sequence[int]) -> Launched | None:
    deadline_s = clock.monotonic_s() + START_LIMIT_S
    waiting = list(launched)
    while waiting:
        for each in launched:
            if not each.is_running() and not _launched_again(each, clock):
                return each
        waiting = [each for each in waiting if not each.serves(brokers)]
        if waiting and clock.monotonic_s() > deadline_s:
            return waiting[0]
        if waiting:
            clock.sleep(POLL_S)
    return None


def _launched_again(ended: Launched, clock: Clock) -> bool:
    if not ended.came_too_early:
        return False
    clock.sleep(TOO_EARLY_S)
    again = begin_again(ended.node, ended.state.command)
    ended.state, ended.log_start_bytes = again.state, again.log_start_bytes
    return True
