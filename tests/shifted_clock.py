"""A folder whose clock stands where a test puts it: a repository gets days of history within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from offsite.stores.posix_store import PosixStore
from tests.virtual_time import VirtualClock


@contextmanager
def shifted_clock(begin_ms: int) -> Iterator[VirtualClock]:
    """The clock of every folder of this process. It begins at `begin_ms`, and moves when it is told to."""
    clock = VirtualClock(epoch_ms=begin_ms)
    with mock.patch.object(PosixStore, "now_ms", side_effect=clock.now_ms):
        yield clock
