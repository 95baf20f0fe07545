"""A partition's state for whoever does not lead it, from its newest snapshot and the log behind it."""

from __future__ import annotations

from examples.stream_processor.engine import Here
from examples.stream_processor.log import read_log
from examples.stream_processor.place import Place, begun_of
from examples.stream_processor.replica import Replica
from examples.stream_processor.snapshots import Snapshot, SnapshotFolder
from examples.stream_processor.state import State


def read_replica(place: Place, here: Here, base: Snapshot | None) -> Replica:
    """Raises `KafkaException` or `ValueError` if the log does not go back to the `base`."""
    offset = base.offset if base else 0
    replica = Replica(here, base.read() if base else State(), offset=offset)
    for record, at in read_log(place, here.number, offset=offset):
        replica.take(record, at)
    return replica


def read_all(place: Place) -> dict[int, Replica]:
    """Of each partition, at slightly different moments while it is running. Raises as `read_replica`: read again."""
    partitions = begun_of(place).partitions
    found = {}
    for number in range(1, partitions + 1):
        newest = SnapshotFolder(path=place.snapshots(number)).newest()
        found[number] = read_replica(place, Here(number=number, partitions=partitions), newest)
    return found


def is_quiet(replica: Replica) -> bool:
    """Whether nothing is left to do, unless a message is on its way."""
    return replica.is_idle and not replica.state.outstanding
