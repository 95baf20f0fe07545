"""Whether a source's logs are still those that were backed up.

After an unclean leader election a log is cut back and written anew, and soon it is as long as before. Its leader epochs
give it away (KIP-101), and nothing else does: what leaders up to the one that we read from wrote no longer reaches as
far as what we have of it. What happens while a range is read, its reader sees in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import TopicPartition
from offsite.log.stats import MAX_LEADER_EPOCHS
from offsite.model.errors import OffsiteError, SourceTruncated
from offsite.pipeline.plan import PartitionBounds, SickPartition
from offsite.repository.commit import NO_EPOCH, PartitionId
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState

Known = tuple[int, int]
"""A leader epoch, and how far we have what leaders up to it wrote."""


def cut_back(admin: ClusterAdmin, base: BackupState, bounds: Sequence[PartitionBounds]) -> list[SickPartition]:
    """Those partitions of `bounds` whose log no longer is the one that `base` has. Asks one request per broker."""
    known = {TopicPartition(topic=b.topic, partition=b.partition): found for b in bounds if (found := _known(base, b))}
    lost = _lost(admin, known)
    hint = "keep this backup, and back the topic up under a new name: offsite backup run --backup NEW --topics TOPIC"
    return [_sick(key, _told(key, known[key], end), hint) for key, end in sorted(lost.items())]


def _lost(admin: ClusterAdmin, known: Mapping[TopicPartition, Known]) -> dict[TopicPartition, int]:
    """Partition → where its epochs end now, for those that end too early or are not known to the leader any more."""
    ends = admin.epoch_ends({key: epoch for key, (epoch, _) in known.items()}) if known else {}
    return {key: end for key, end in ends.items() if end < known[key][1]}


def _told(key: TopicPartition, known: Known, end: int) -> str:
    epoch, reached = known
    now = f"ends at {end} now" if end >= 0 else "is not known to its leader any more"
    return f"{key} was cut back and written anew: what leaders up to epoch {epoch} wrote reached to {reached} and {now}"


def _sick(key: TopicPartition, told: str, hint: str) -> SickPartition:
    error: OffsiteError = SourceTruncated(told, hint=hint)
    return SickPartition(topic=key.topic, partition=key.partition, error=error)


def _known(base: BackupState, bounds: PartitionBounds) -> Known | None:
    """What to ask about a partition: nothing when it is new, or when the log has deleted all that we have of it."""
    known = PartitionId(topic=bounds.topic, topic_id=bounds.topic_id, partition=bounds.partition)
    position = base.positions.get(known)
    if position is None or position.end <= bounds.log_start:
        return None
    if position.leader_epoch != NO_EPOCH:
        return position.leader_epoch, position.end
    found = base.segments.get(known)
    segment = found.last if found else None
    return _of_segment(segment) if segment and segment.last_offset >= bounds.log_start else None


def _of_segment(segment: Segment) -> Known | None:
    """As far as commits of earlier versions tell."""
    if not 0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS:
        return None
    return max(segment.leader_epochs), segment.last_offset + 1
