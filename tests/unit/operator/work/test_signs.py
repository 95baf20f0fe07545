from __future__ import annotations

from offsite.operator.work.progress import EVERY_S, ProgressLog
from offsite.stores.wrapped_store import FAILED, OK
from tests.unit.operator.folder.home import HandClock


def test_a_job_says_once_a_minute_that_its_requests_are_answered_and_nothing_while_they_are_not() -> None:
    clock, said = HandClock(), list[str]()
    signs = ProgressLog(clock=clock, say=said.append)
    for _ in range(120):
        clock.sleep(1.0)
        signs.note("get", OK, 0.1)
    for _ in range(120):
        clock.sleep(1.0)
        signs.note("get", FAILED, 0.1)
    clock.sleep(EVERY_S)

    assert said == ["works: 60 requests were answered so far", "works: 120 requests were answered so far"]
