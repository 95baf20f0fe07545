"""A completed checkpoint restored into a new processor, which then runs."""

from __future__ import annotations

from dataclasses import replace

from offsite_participant import bcs
from offsite_participant.bcs_copies import Copy, restorable
from tests.simulation.replicated_log import Record
from tests.simulation.store import Contents, Store
from tests.simulation.world import PARTITIONS, Rates, World
from tests.virtual_time import Scheduler


class NotRestorable(Exception):
    """What should be complete is not."""


def restored(store: Store, checkpoint: int, *, seed: int, incarnation: int = 1) -> World:
    """The world as of `checkpoint`, not started, with a store that begins as `store` is. Raises `NotRestorable`."""
    scheduler = Scheduler(seed, chaos=False)
    store = replace(store, scheduler=scheduler, manifests=dict(store.manifests), contents=dict(store.contents))
    world = World(scheduler, Rates(), store=store, incarnation=incarnation)
    try:
        chosen = restorable(store.manifests.values(), checkpoint=checkpoint, partitions=PARTITIONS)
    except ValueError as problem:
        raise NotRestorable(str(problem)) from problem
    for partition in world.partitions:
        copy = chosen[partition.number]
        contents = _contents(store, copy)
        base, log = contents.base, partition.log
        if base.end > copy.position:
            raise NotRestorable(f"the base snapshot ends at {base.end}, and the checkpoint is at {copy.position}")
        log.start = base.state.processed + 1
        _check(contents.records[copy.position - log.start], checkpoint)
        log.records = list(truncated(contents, copy.position))
        log.end_of_batch = log.end
        partition.snapshots, partition.restored = [base], checkpoint
    return world


def _check(record: Record, checkpoint: int) -> None:
    if not (isinstance(record, bcs.Create) and record.checkpoint == checkpoint):
        raise NotRestorable(f"where checkpoint {checkpoint} should be, there is {record}")


def truncated(contents: Contents, position: int) -> tuple[Record, ...]:
    """The records up to the checkpoint: segments are stored with what is behind it."""
    return contents.records[: position - contents.base.state.processed]


def _contents(store: Store, copy: Copy) -> Contents:
    for place, held in store.manifests.items():
        if held == copy and place in store.contents and store.contents[place].is_sound:
            return store.contents[place]
    raise NotRestorable(f"p{copy.partition}: nothing sound is stored of {_named(copy)}")


def _named(copy: Copy) -> str:
    return f"checkpoint {copy.checkpoint}, term {copy.term}"
