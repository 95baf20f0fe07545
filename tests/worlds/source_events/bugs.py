"""Mistakes put into the code under test, each of which the schedules of source events have to find.

There are no consumer groups in this world: the clamp of an exactly-once group is in `tests/unit/cut`. More mistakes of
retention are in `tests/worlds/source_events/test_histories.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock
from zlib import crc32

from offsite.kafka.evidence import BatchWindow, batch_window
from offsite.log.range import LogRange
from offsite.repository.backup import Backup
from offsite.repository.fold import StateBuilder
from offsite.repository.segments.segment import Segment
from offsite.stores.store import PutResult
from offsite.upkeep import roll_up
from offsite.upkeep.retention import plan
from offsite.upkeep.roll_up import RollUp
from tests import memory_store
from tests.memory_store import MemoryStore
from tests.worlds.source_events import source
from tests.worlds.source_events.course import play

_close, _put, _rolled_up = memory_store._Writer.close, MemoryStore.put_if_absent, roll_up._rolled_up


def _acknowledged_first(self: Any) -> PutResult:
    """One object of ten was told to be there, and its writer died before it was."""
    return PutResult.CREATED if crc32(self._key.encode()) % 10 == 0 else _close(self)


def _overwritten(self: MemoryStore, key: str, data: Any) -> PutResult:
    if "/commits/" not in key:
        return _put(self, key, data)
    self.put_overwrite(key, data if isinstance(data, bytes) else b"".join(data))
    return PutResult.CREATED


def _without_the_newest(given: RollUp, *others: Any) -> Segment:
    """What the last commit brought is left out, and removed with the rest."""
    return _rolled_up(replace(given, segments=given.segments[:-1]), *others)


def _past_nothing(records: memoryview, log_range: LogRange, position: int, **named: Any) -> BatchWindow:
    found = batch_window(records, log_range, position, **named)
    return (
        found if len(records) else replace(found, next_offset=log_range.end, gap_start=position, gap_end=log_range.end)
    )


BUGS: dict[str, tuple[tuple[object, str, Callable[..., object]], ...]] = {
    "commit before segments are durable": (
        (Backup, "_check_stored", lambda *_: None),
        (memory_store._Writer, "close", _acknowledged_first),
    ),
    "retention drops a point that is held": (
        (plan, "choose_pinned", lambda *_, **__: []),
        (StateBuilder, "_pin", lambda *_: None),  # which would refuse the commit
    ),
    "a roll-up loses a commit": ((roll_up, "_rolled_up", _without_the_newest),),
    "a commit replaces another one": ((MemoryStore, "put_if_absent", _overwritten),),
    "a position moves on an empty answer": ((source, "batch_window", _past_nothing),),
}


@contextmanager
def with_bug(name: str) -> Iterator[None]:
    patches = [mock.patch.object(place, attribute, made) for place, attribute, made in BUGS[name]]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()


def found_within(name: str, seeds: int) -> int | None:
    """The first seed that finds the mistake; None if none of so many does."""
    with with_bug(name):
        return next((seed for seed in range(seeds) if play(seed).faults), None)
