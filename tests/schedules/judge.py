"""What became of a backup, compared with what the source holds: to the byte, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from offsite.log.range import PartitionId, TopicPartition
from offsite.repository.backup import Backup
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.state import BackupState
from tests.schedules.raw_log import RawBatch, RawLog, raw_batch
from tests.schedules.world import World


def problems_of_backup(world: World, backup: Backup, *, whole: bool) -> list[str]:
    """What is wrong, in words; nothing if all is as promised. `whole`: every partition must be there to its end."""
    state = backup.state()
    found = {TopicPartition(topic=each.topic, partition=each.partition): each for each in state.positions}
    return [
        f"{key}: {problem}"
        for key, partition_id in found.items()
        for problem in _problems(world.logs[key], backup, state, partition_id, whole=whole)
    ]


def _problems(
    log: RawLog, backup: Backup, state: BackupState, partition_id: PartitionId, *, whole: bool
) -> Iterator[str]:
    position = state.positions[partition_id].end
    if position > log.end or (whole and position < log.end):
        yield f"it stands at {position}, the log ends at {log.end}"
    stored = list(_stored(backup, state, partition_id))
    holes = [(hole.start, hole.end) for hole in state.holes if hole.partition_id == partition_id]
    yield from _strange(log, stored)
    there = {each.start for each in stored}
    for batch in log.batches.values():
        in_hole = any(start < batch.end and max(batch.start, log.log_start) < end for start, end in holes)
        if in_hole:
            yield f"[{batch.start}, {batch.end}) is called a hole"
        elif batch.start not in there and max(batch.start, log.log_start) < position:
            yield f"LOST [{batch.start}, {batch.end}), and nothing says so (it stands at {position})"


def _strange(log: RawLog, stored: list[RawBatch]) -> Iterator[str]:
    for start, times in Counter(each.start for each in stored).items():
        if times > 1:
            yield f"[{start}, …) is there {times} times"
    for each in stored:
        if log.batches.get(each.start) != each:
            yield f"[{each.start}, {each.end}) is not what the source holds"


def _stored(backup: Backup, state: BackupState, partition_id: PartitionId) -> Iterator[RawBatch]:
    for segment in state.segments.get(partition_id, ()):
        for chunk in SegmentReader(store=backup.store, segment=segment).chunks():
            for header in chunk.batches:
                yield raw_batch(header, chunk.data)
