"""Whether a topic can come back at its own offsets, and at what cost. Pure: what a backup knows of its segments in, a
verdict for each topic out, with the figures for each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.copy.replay_way import ReplayWay
from offsite.copy.restore.plan import PartitionRestore
from offsite.copy.restore.preserve.pieces import first_offset, log_start
from offsite.copy.restore.target_topic import TargetTopic
from offsite.copy.slow_transaction import SlowTransaction
from offsite.kafka.transactions.replay import TIMEOUTS_MS
from offsite.model.time import format_duration

AUTO_EXTRA_MAX_S = 120.0
"""Additional seconds that `auto` lets a topic take to keep its offsets."""
PARTITIONS_AT_ONCE = 4
"""Partitions that are assumed to be written at the same time: few, so that estimates are not too low."""

DIRECT_NEEDS = "the right ClusterAction on the cluster"

TRANSACTION_OPEN_MAX_S = TIMEOUTS_MS[0] / 1000
"""Seconds for which a replayed transaction may stay open before the brokers end it."""

HEAD_OFFSETS_PER_S = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedPartition:
    """One partition and what its offsets cost: `head_offsets` below its first batch, `gap_offsets` without a record in
    it (as far as segments tell), `outcomes` of transactions to replay, both by `way`. `slow`: one of them would stay
    open longer than brokers let it."""

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
        """Additional seconds that the partition takes to keep its offsets, at most."""
        head_s = self.head_offsets / HEAD_OFFSETS_PER_S
        return head_s + self.outcomes * self.way.outcome_s + self.gap_offsets * self.way.gap_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsVerdict:
    """A topic's verdict. `reason` says why it is not preserved. `partitions` are all that hold or held anything, also
    when only the cost speaks against it; none where it is out of the question."""

    source: str
    target: str
    preserve: bool
    reason: str
    partitions: tuple[PreservedPartition, ...]

    @property
    def extra_s(self) -> float:
        """Additional seconds that the topic takes to keep its offsets, with a few partitions at the same time."""
        each = [partition.extra_s for partition in self.partitions]
        return max(max(each, default=0.0), sum(each) / PARTITIONS_AT_ONCE)


def preserved_partition(chain: PartitionRestore, *, way: ReplayWay, target_end: int = 0) -> PreservedPartition:
    """The figures of one partition, into a target that ends at `target_end`."""
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
    """Reason why the offsets of these cannot be kept in `target` (None: it will be made); empty when they can."""
    for each in partitions:
        name, number = f"partition {each.chain.source.partition}", each.chain.target.partition
        if target is not None and target.ends[number] > (start := log_start(each.chain)):
            return f"{name} of the target ends at {target.ends[number]:,} already, the source begins at {start:,}"
        if each.gap_offsets > each.way.gaps_max:
            count = f"{each.gap_offsets:,}"
            return f"{name} has {count} offsets without records, too many to fill without {DIRECT_NEEDS}"
    return ""


def too_slow(partitions: Sequence[PreservedPartition]) -> str:
    """Description of a transaction that can hardly be replayed before brokers end it; empty when there is none. An
    estimate."""
    slow = [(each.slow.open_s, each.chain.source.partition, each.slow) for each in partitions if each.slow is not None]
    if not slow:
        return ""
    open_s, partition, found = max(slow, key=lambda each: each[0])
    takes, limit = format_duration(open_s), format_duration(TRANSACTION_OPEN_MAX_S)
    return (
        f"partition {partition} has a transaction at offsets {found.start:,} to {found.end:,} that takes about {takes}"
        f" to write, and brokers end what is open for {limit}"
    )
