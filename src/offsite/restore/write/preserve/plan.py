"""Whether a topic can come back at its own offsets, and the cost. Pure: the backup's facts about segments in, a verdict
per topic out, with figures per partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.kafka.transaction_replay import TIMEOUTS_MS
from offsite.model.units import format_duration
from offsite.restore.write.plan import PartitionRestore
from offsite.restore.write.preserve.pieces import first_offset, log_start
from offsite.restore.write.replay_way import ReplayWay
from offsite.restore.write.slow_transaction import SlowTransaction
from offsite.restore.write.target_topic import TargetTopic

AUTO_EXTRA_MAX_S = 120.0
"""Additional seconds that `auto` accepts for the offsets of a topic."""
PARTITIONS_AT_ONCE = 4
"""Partitions assumed to be written at the same time: few, to avoid low estimates."""

DIRECT_NEEDS = "the right ClusterAction on the cluster"

TRANSACTION_OPEN_MAX_S = TIMEOUTS_MS[0] / 1000
"""Seconds for which a replayed transaction may stay open before brokers end the transaction."""

HEAD_OFFSETS_PER_S = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedPartition:
    """One partition and the cost of its offsets: `head_offsets` below its first batch, `gap_offsets` without a record
    inside (as far as segments tell), `outcomes` of transactions to replay; gaps and outcomes by `way`. `slow`: a
    transaction that would stay open longer than brokers allow."""

    chain: PartitionRestore
    head_offsets: int
    gap_offsets: int
    outcomes: int
    way: ReplayWay
    slow: SlowTransaction | None = None

    @property
    def needs_transactions(self) -> bool:
        """Only brokers that replay transactions can make this log: some of its offsets are control records."""
        return self.outcomes > 0 or (self.gap_offsets > 0 and not self.way.direct)

    @property
    def extra_s(self) -> float:
        """Most additional seconds for the offsets of the partition."""
        head_s = self.head_offsets / HEAD_OFFSETS_PER_S
        return head_s + self.outcomes * self.way.outcome_s + self.gap_offsets * self.way.gap_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsVerdict:
    """A topic's verdict. `reason`: why offsets are not preserved. `partitions` are all partitions with present or
    former data, also when only the cost is against preserving; empty when preserving is impossible."""

    source: str
    target: str
    preserve: bool
    reason: str
    partitions: tuple[PreservedPartition, ...]

    @property
    def extra_s(self) -> float:
        """Additional seconds for the offsets of the topic, with a few partitions at the same time."""
        extras_s = [partition.extra_s for partition in self.partitions]
        return max(max(extras_s, default=0.0), sum(extras_s) / PARTITIONS_AT_ONCE)


def preserved_partition(chain: PartitionRestore, *, way: ReplayWay, target_end: int = 0) -> PreservedPartition:
    """The figures of one partition, for a target that ends at `target_end`."""
    records = sum(segment.records for segment in chain.segments)
    outcomes = sum(segment.control_batches for segment in chain.segments)
    first = first_offset(chain, target_end=target_end)
    gaps = max(chain.end - first - records - outcomes, 0)
    return PreservedPartition(
        chain=chain,
        head_offsets=max(first - target_end, 0),
        gap_offsets=gaps,
        outcomes=outcomes,
        way=way,
    )


def obstacle(partitions: Sequence[PreservedPartition], target: TargetTopic | None) -> str:
    """Why the offsets of `partitions` cannot be kept in `target` (None: the target will be made); empty when
    possible."""
    for partition in partitions:
        name, number = f"partition {partition.chain.source.partition}", partition.chain.target.partition
        if target is not None and target.ends[number] > (start := log_start(partition.chain)):
            return (
                f"{name} of the target already ends at offset {target.ends[number]:,}, but the source begins at "
                f"{start:,}"
            )
        if partition.gap_offsets > partition.way.gaps_max:
            count = f"{partition.gap_offsets:,}"
            return f"{name} has {count} offsets without records, too many to fill without {DIRECT_NEEDS}"
    return ""


def describe_slow_transaction(partitions: Sequence[PreservedPartition]) -> str:
    """Description of a transaction that can hardly be replayed before brokers end it; empty without one. An
    estimate."""
    slow = [
        (preserved.slow.open_s, preserved.chain.source.partition, preserved.slow)
        for preserved in partitions
        if preserved.slow is not None
    ]
    if not slow:
        return ""
    open_s, partition, worst = max(slow, key=lambda candidate: candidate[0])
    takes, limit = format_duration(open_s), format_duration(TRANSACTION_OPEN_MAX_S)
    return (
        f"partition {partition} has a transaction at offsets {worst.start:,} to {worst.end:,} that takes about "
        f"{takes} to write; brokers abort transactions that are open for {limit}"
    )
