"""Mistakes that others made, or that ZEP008 warns of: each one is put into the code under test, and has to be found.

Those of the cut over Kafka's own topics (a marker that is missing, what was read, the clamp of an exactly-once group)
are in `tests/unit/cut`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from offsite_participant import bcs, bcs_copies, bcs_snapshots
from offsite_participant.bcs_copies import BackupStatus, Beginning, CopyState
from tests.simulation import course, restored, world
from tests.simulation.clean_up import CleanUp
from tests.simulation.leader import Leader
from tests.simulation.partition import Partition
from tests.simulation.store import Store
from tests.simulation.upload import RunningUpload

_on_create, _orphaned, _status_of = bcs.on_create, bcs_copies.orphaned, bcs_copies.status_of


def _take_again(progress: bcs.Progress, create: bcs.Create, position: int) -> bcs.Step:
    if create.checkpoint == progress.checkpoint:
        progress = replace(progress, checkpoint=progress.checkpoint - 1)
    return _on_create(progress, create, position)


def _complete_first(self: RunningUpload) -> None:
    self._put_own(self._upload, CopyState.COMPLETED)
    self._try("put", self._put)


def _count_those_that_are_there(copies: Any, *, checkpoint: int, partitions: int) -> BackupStatus:
    found = [each for each in copies if each.checkpoint == checkpoint]
    there = len({each.partition for each in found})
    return _status_of(
        [replace(each, partitions=there) for each in found] if there else [], checkpoint=checkpoint, partitions=there
    )


def _newest_alone(copies: Any, *, newest: int, **others: int) -> Iterator[bcs_copies.Copy]:
    found = _orphaned(copies, newest=newest, **others)
    yield from (each for each in found if each.checkpoint == newest)


def _message_first(self: Leader, command: object, checkpoint: int) -> None:
    if self.is_alive and self.partition.effect(self, "append command"):
        forced = bcs.on_message(self.state.progress, checkpoint)
        self.partition.log.append(self.term, [command, *forced])  # type: ignore[list-item]


def _write_failed(self: CleanUp, created: bcs.Created) -> None:
    self._put_own(created, CopyState.FAILED)
    self.begin()


def _by_processed(span: bcs_snapshots.SnapshotSpan, *, before: int) -> bool:
    return span.processed < before


def _unfinished_ones_too(copies: Any) -> Iterator[bcs_copies.Copy]:
    return (copy for copy in copies if copy.state is not CopyState.COMPLETED)


BUGS: dict[str, tuple[tuple[object, str, Callable[..., object]], ...]] = {
    "no pin before the upload": (
        (Partition, "pin", lambda *_, **__: None),
        (Partition, "pinned", lambda self, *_: self.snapshots[-1]),
    ),
    "a base snapshot by the last command in it alone": ((bcs_snapshots, "is_base", _by_processed),),
    "a snapshot is kept that may have seen more than the checkpoint": (
        (bcs_snapshots, "doubtful", lambda *_: None),
        (bcs_snapshots, "is_base", _by_processed),
    ),
    "what is in progress is cleaned up": ((bcs_copies, "disposable", _unfinished_ones_too),),
    "an id is used again": (
        (bcs, "on_create", _take_again),
        (bcs_copies, "beginning", lambda *_, **__: Beginning.COPY),
    ),
    "restored without truncation": ((restored, "truncated", lambda contents, _: contents.records),),
    "complete before it is durable": ((RunningUpload, "_create", _complete_first),),
    "taken again after a restore": ((bcs_copies, "beginning", lambda *_, **__: Beginning.COPY),),
    "a new leader forgets what is under way": ((bcs_copies, "orphaned", lambda *_, **__: iter(())),),
    "a new leader fails the newest alone": ((bcs_copies, "orphaned", _newest_alone),),
    "nobody tells that a copy was never begun": ((bcs_copies, "never_begun", lambda *_, **__: iter(())),),
    "the leader does not look again after its copy is in progress": (
        (RunningUpload, "_begun", lambda self: self._try("put", self._put)),
    ),
    "what was never begun is failed by what was seen before": ((CleanUp, "_place_own", _write_failed),),
    "partitions without a copy are not missed": (
        (bcs_copies, "status_of", _count_those_that_are_there),
        (world, "status_of", _count_those_that_are_there),
    ),
    "messages are not stamped": (
        (Leader, "_send", lambda self, to, command: self.partition.send(to, command, 0) if self.is_alive else None),
    ),
    "no checkpoint before the message": ((bcs, "on_message", lambda *_: ()),),
    "the message before its checkpoint": ((Leader, "receive", _message_first),),
    "what was stored is not read back": ((Store, "verify", lambda *_: True),),
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
        return next((seed for seed in range(seeds) if _fails(seed)), None)


def _fails(seed: int) -> bool:
    try:
        return bool(course.play(seed).faults)
    except (ValueError, LookupError, AssertionError):  # the code under test has noticed it
        return True
