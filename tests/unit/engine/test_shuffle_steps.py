"""The steps of a shuffle in a worker of another offsite: nothing of what travelled is opened there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.engine.meter import ProgressAddress, ProgressReceiver
from offsite.engine.shuffle import FindStep, SendStep
from offsite.model.errors import ExecutorDiffers
from offsite.model.version import __version__

NO_PICKLE = b"not to be opened"


@pytest.fixture
def datagrams() -> Iterator[ProgressAddress]:
    receiver = ProgressReceiver("127.0.0.1")
    yield receiver.address
    receiver.close()


def never() -> Iterator[tuple[int, bytes]]:
    """What was found before: to look at it is to open it."""
    pytest.fail("it was opened")
    yield 0, b""


def test_another_offsite_finds_nothing(datagrams: ProgressAddress) -> None:
    finding = FindStep(version="0.0.1", job=1, functions=NO_PICKLE, datagrams=datagrams, rates=None, max_attempts=1)
    with pytest.raises(ExecutorDiffers, match=rf"has offsite {__version__}, and this one is 0\.0\.1"):
        list(finding(never()))


def test_another_offsite_sends_nothing() -> None:
    sending = SendStep(version="0.0.1", function=NO_PICKLE, buckets=1)
    with pytest.raises(ExecutorDiffers, match=rf"has offsite {__version__}, and this one is 0\.0\.1"):
        list(sending({0: 0}, never()))
