"""A stream processor as it was at a checkpoint, under a new name: new topics, a new folder, its own part of the store.

Order: verify all copies, make the topics (they must not exist), write base snapshots and logs, and last of all the
object without which nobody leads. A restore that dies on the way leaves something that cannot start: take another name.
"""

from __future__ import annotations

from dataclasses import replace

from examples.stream_processor.backup import check_files
from examples.stream_processor.copies import CopyStore
from examples.stream_processor.log import LogWriter
from examples.stream_processor.place import Begun, Place, begin, create_topics
from examples.stream_processor.records import Record
from examples.stream_processor.snapshots import Snapshot, SnapshotFolder
from offsite_participant.bcs_copies import restorable

BATCH = 1000


def restore(source: Place, checkpoint: int, target: Place, *, replicas: int) -> None:
    """Restore `checkpoint` of `source`, of which nothing but the store is needed. Everything behind the checkpoint's
    record is cut off. Raises `ValueError`: the checkpoint is not completed, a copy is damaged, or the target exists."""
    store = CopyStore(source)
    partitions = store.begun.partitions
    if target.folder.joinpath(target.name).exists():
        raise ValueError(f"{target.name} exists already in {target.folder}")
    copies = restorable([each.copy for each in store.copies(checkpoint)], checkpoint=checkpoint, partitions=partitions)
    parts = {number: check_files(copy, store.read(copy)) for number, copy in copies.items()}
    create_topics(target, partitions, replicas=replicas)
    for number, (base, log) in parts.items():
        _write(target, number, base, log)
    begin(target, Begun(partitions=partitions, parent=source.name, checkpoint=checkpoint))


def _write(target: Place, number: int, base: Snapshot | None, log: list[Record]) -> None:
    if base:
        SnapshotFolder(path=target.snapshots(number)).save(replace(base, offset=0))
    writer = LogWriter(target, number)
    for begin_at in range(0, len(log), BATCH):
        writer.append(log[begin_at : begin_at + BATCH])
