"""Whether a source's logs are still those that were backed up.

After an unclean leader election a log is cut back and written anew, and soon it is as long as before. Its leader epochs
give it away (KIP-101): what leaders up to the last one we saw wrote no longer reaches as far as what we have of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import TopicPartition
from offsite.log.stats import MAX_LEADER_EPOCHS
from offsite.model.errors import SourceTruncated
from offsite.pipeline.plan import PartitionBounds
from offsite.repository.commit import PartitionId
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState


def check_lineage(admin: ClusterAdmin, base: BackupState, bounds: Sequence[PartitionBounds]) -> None:
    """Ask about partitions that have news, one request per broker. Raises `SourceTruncated`, which names them all."""
    last = dict(_last_segments(base, bounds))
    ends = admin.epoch_ends({key: max(segment.leader_epochs) for key, segment in last.items()})
    lost = [key for key, end in sorted(ends.items()) if 0 <= end <= last[key].last_offset]
    if lost:
        told = ", ".join(f"{key} from offset {ends[key]} to {last[key].last_offset}" for key in lost)
        raise SourceTruncated(
            f"the source no longer has what is already backed up of {told}: it was cut back and written anew",
            hint="the source lost records (unclean leader election?): keep this backup and start a new one",
        )


def _last_segments(base: BackupState, bounds: Sequence[PartitionBounds]) -> Iterator[tuple[TopicPartition, Segment]]:
    """The last segment of each partition that has news, where the source still holds something of it."""
    for each in bounds:
        known = PartitionId(topic=each.topic, topic_id=each.topic_id, partition=each.partition)
        position, found = base.positions.get(known), base.segments.get(known)
        segment = found.last if found and position and position.end < each.end else None
        if segment and segment.last_offset >= each.log_start and 0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS:
            yield TopicPartition(topic=each.topic, partition=each.partition), segment
