"""Which topics keep the offsets of their source, and the cost: the way to fill offsets without a record, transactions
that would stay open for too long, and a verdict per topic with figures per partition. Decided once, before anything is
touched, and recorded.

A replayed transaction is open from its first batch to its marker, and all data between has to be written meanwhile:
brokers end a transaction that stays open for too long. Segments tell the amount of data, their sidecars the begin and
end of transactions; sidecars are read only of partitions that take long enough. Sidecars of older versions do not
record open transactions at their end: of a transaction that reaches over the end of such a segment only the last part
counts. The costs were measured with Kafka 4.1 on two busy cores, and serve decisions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsite.kafka.producer import CLUSTER_ACTION
from offsite.kafka.transaction_replay import TIMEOUTS_MS
from offsite.log.transactions import OpenTransaction
from offsite.model.errors import RestoreRefused
from offsite.model.journal import decided
from offsite.model.names import amount
from offsite.model.options import OffsetsMode
from offsite.model.units import format_duration
from offsite.points.point_in_time import PartitionChain, PointInTime, is_open
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.restore.request import RestoreRequest
from offsite.restore.write.pieces import first_offset, log_start
from offsite.restore.write.plan import DISKLESS, PartitionRestore, RestorePlan, TargetTopic, TopicRestore
from offsite.stores.store import Store

WRITE_BYTES_PER_S = 20_000_000
"""Write rate of one of several partitions on a busy machine or a line of 1 Gbit/s, in bytes per second."""
AUTO_EXTRA_MAX_S = 120.0
"""Additional seconds that `auto` accepts for the offsets of a topic."""
PARTITIONS_AT_ONCE = 4
"""Partitions assumed to be written at the same time: few, to avoid low estimates."""
TRANSACTION_OPEN_MAX_S = TIMEOUTS_MS[0] / 1000
"""Seconds for which a replayed transaction may stay open before brokers end the transaction."""
HEAD_OFFSETS_PER_S = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWay:
    """`direct`: this process writes outcomes into the log; otherwise every outcome is a transaction of its own, because
    the target lacks `missing`. `outcome_s`, `gap_s`: seconds for one offset of a partition; `gaps_max`: most
    offsets of a partition without a record that can be filled; `open_part`: share of the brokers' limit for open
    transactions that remains for a transaction of the source."""

    direct: bool
    outcome_s: float
    gap_s: float
    gaps_max: int
    open_part: float = 1.0
    missing: str = ""

    @property
    def filler(self) -> str:
        """The filler of gaps, in words for people."""
        return "control records" if self.direct else "empty transactions"


DIRECT = ReplayWay(direct=True, outcome_s=0.001, gap_s=0.000_05, gaps_max=2**62, open_part=0.8)
BY_COORDINATOR = ReplayWay(direct=False, outcome_s=0.015, gap_s=0.002, gaps_max=20_000, missing=CLUSTER_ACTION)
"""Gaps are filled in less than a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowTransaction:
    """A transaction with data at offsets from `start` on and its outcome before `end`: writing the offsets between
    takes about `open_s` seconds."""

    producer_id: int
    start: int
    end: int
    open_s: float


def slow_transaction(
    partition: PartitionChain, *, store: Store, open_max_s: float, way: ReplayWay
) -> SlowTransaction | None:
    """The transaction that stays open longest, if longer than `open_max_s` seconds. A transaction that is undecided at
    the end, or at a hole, counts to its last batch. Raises `DamagedObject`, and the errors of the store."""
    costs = _Costs(partition.segments, way)
    if costs.total_s <= open_max_s:
        return None
    search = _Search(costs, partition.end, open_max_s)
    holes_passed = 0
    for segment in partition.segments:
        if (holes := bisect_right(partition.hole_starts, segment.start)) > holes_passed:
            search.end_open()
            holes_passed = holes
        if segment.has_transactions:
            search.pass_over(segment, store)
    return search.finish()


class _Search:
    """Visits the sidecars in order. `_open`: transactions without a marker so far."""

    def __init__(self, costs: _Costs, end: int, open_max_s: float) -> None:
        self._costs = costs
        self._end = end
        self._open_max_s = open_max_s
        self._open: dict[int, OpenTransaction] = {}
        self._slowest: SlowTransaction | None = None

    def pass_over(self, segment: Segment, store: Store) -> None:
        index = SegmentReader(store=store, segment=segment).index()
        is_slow = self._costs.between(segment.lowest_offset, segment.end) > self._open_max_s
        for marker in index.markers:
            open_transaction = self._open.get(marker.producer_id)
            is_inside = open_transaction is None and marker.first_offset >= 0
            if is_inside and not is_slow:
                continue
            first = (
                open_transaction.first_offset if open_transaction else max(marker.first_offset, segment.lowest_offset)
            )
            if marker.offset < self._end:
                self._open.pop(marker.producer_id, None)
                self._consider(marker.producer_id, first, marker.offset + 1)
            elif 0 <= marker.first_offset < self._end:  # undecided at the end, with data up to an unknown offset
                self._open[marker.producer_id] = OpenTransaction(
                    producer_id=marker.producer_id, first_offset=first, last_offset=self._end - 1
                )
        for transaction in index.open or ():
            open_transaction = self._open.get(transaction.producer_id, transaction)
            self._open[transaction.producer_id] = replace(transaction, first_offset=open_transaction.first_offset)

    def end_open(self) -> None:
        """End all open transactions with their last batch."""
        for transaction in self._open.values():
            if transaction.first_offset < self._end:
                self._consider(
                    transaction.producer_id, transaction.first_offset, min(transaction.last_offset + 1, self._end)
                )
        self._open.clear()

    def finish(self) -> SlowTransaction | None:
        self.end_open()
        return self._slowest

    def _consider(self, producer_id: int, start: int, end: int) -> None:
        open_s = self._costs.between(start, end)
        if open_s > (self._slowest.open_s if self._slowest else self._open_max_s):
            self._slowest = SlowTransaction(producer_id=producer_id, start=start, end=end, open_s=open_s)


class _Costs:
    """The time to write from one offset to another; offsets within a segment count alike."""

    def __init__(self, segments: Sequence[Segment], way: ReplayWay) -> None:
        self._offsets: list[int] = []
        self._until_s: list[float] = []
        spent_s, at = 0.0, segments[0].lowest_offset if segments else 0
        for segment in segments:
            spent_s += max(segment.lowest_offset - at, 0) * way.gap_s
            at = segment.next_offset
            self._offsets += [segment.lowest_offset, at]
            self._until_s += [spent_s, spent_s + _segment_s(segment, way)]
            spent_s = self._until_s[-1]

    @property
    def total_s(self) -> float:
        return self._until_s[-1] if self._until_s else 0.0

    def between(self, start: int, end: int) -> float:
        return max(self._until(end) - self._until(start), 0.0)

    def _until(self, offset: int) -> float:
        after = bisect_right(self._offsets, offset)
        if after in (0, len(self._offsets)):
            return self.total_s if after else 0.0
        low, high = self._offsets[after - 1 : after + 1]
        part = (offset - low) / (high - low)
        return self._until_s[after - 1] + part * (self._until_s[after] - self._until_s[after - 1])


def _segment_s(segment: Segment, way: ReplayWay) -> float:
    gaps = segment.end - segment.lowest_offset - segment.records - segment.control_batches
    written_s = segment.raw_bytes / WRITE_BYTES_PER_S + segment.control_batches * way.outcome_s
    return written_s + max(gaps, 0) * way.gap_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedPartition:
    """One partition and the cost of its offsets: `head_offsets` below its first batch, `gap_offsets` without a record
    inside (as far as segments tell), `outcomes` of transactions to replay; gaps and outcomes by `way`. `slow`: a
    transaction that would stay open longer than brokers allow."""

    partition: PartitionRestore
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

    def with_chains(self, change: Callable[[PartitionChain], PartitionChain]) -> OffsetsVerdict:
        """The verdict with `change` of each chain in its place."""
        parts = [(kept, replace(kept.partition, chain=change(kept.partition.chain))) for kept in self.partitions]
        return replace(self, partitions=tuple(replace(kept, partition=partition) for kept, partition in parts))

    @property
    def extra_s(self) -> float:
        """Additional seconds for the offsets of the topic, with a few partitions at the same time."""
        extras_s = [partition.extra_s for partition in self.partitions]
        return max(max(extras_s, default=0.0), sum(extras_s) / PARTITIONS_AT_ONCE)


def preserved_partition(partition: PartitionRestore, *, way: ReplayWay, target_end: int = 0) -> PreservedPartition:
    """The figures of one partition, for a target that ends at `target_end`."""
    chain = partition.chain
    records = sum(segment.records for segment in chain.segments)
    outcomes = sum(segment.control_batches for segment in chain.segments)
    first = first_offset(chain, target_end=target_end)
    gaps = max(chain.end - first - records - outcomes, 0)
    return PreservedPartition(
        partition=partition,
        head_offsets=max(first - target_end, 0),
        gap_offsets=gaps,
        outcomes=outcomes,
        way=way,
    )


def obstacle(partitions: Sequence[PreservedPartition], target: TargetTopic | None) -> str:
    """Why the offsets of `partitions` cannot be kept in `target` (None: the target will be made); empty when
    possible."""
    for preserved in partitions:
        chain, number = preserved.partition.chain, preserved.partition.target.partition
        name = f"partition {chain.source.partition}"
        if target is not None and target.ends[number] > (start := log_start(chain)):
            return (
                f"{name} of the target already ends at offset {target.ends[number]:,}, but the source begins at "
                f"{start:,}"
            )
        if preserved.gap_offsets > preserved.way.gaps_max:
            gaps = amount(preserved.gap_offsets, "offset")
            return f"{name} has {gaps} without records, too many to fill without {preserved.way.missing}"
    return ""


def describe_slow_transaction(partitions: Sequence[PreservedPartition]) -> str:
    """Description of a transaction that can hardly be replayed before brokers end it; empty without one. An
    estimate."""
    slow = [
        (preserved.slow.open_s, preserved.partition.chain.source.partition, preserved.slow)
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


def find_diskless(existing: Iterable[TargetTopic], settings: Iterable[TargetTopicSettings]) -> frozenset[str]:
    """The target topics that take no transactions (KIP-1150): `existing` ones, and those that are going to be made so.
    Of a setting that the target refuses, `settings` has nothing: the topic is made without it."""
    made = {made.topic for made in settings if made.create and dict(made.configs).get(DISKLESS) == "true"}
    return frozenset(made | {target.topic for target in existing if target.diskless})


FindSlow = Callable[[PartitionChain], SlowTransaction | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRules:
    """What decides which topics keep their offsets: the `point` and the `request`, the `existing` topics of the target,
    and an `unfinished` restore, whose verdicts stand.

    `diskless`: topics of the target that take no transactions; `way`: how offsets without a record come back;
    `cannot_replay`: why the target's brokers cannot replay transactions, or empty; `find_slow` finds a partition's
    transaction that would stay open too long.
    """

    point: PointInTime
    request: RestoreRequest
    existing: Sequence[TargetTopic] = ()
    unfinished: RestoreRecord | None = None
    diskless: Collection[str] = ()
    way: ReplayWay = BY_COORDINATOR
    cannot_replay: str = ""
    find_slow: FindSlow = lambda _: None

    def decide(self, plan: RestorePlan) -> tuple[OffsetsVerdict, ...]:
        """One verdict per topic of `plan`. `auto` keeps offsets when possible, quick, and likely to end well. Raises
        `RestoreRefused`, with all reasons, when offsets were requested and cannot be kept."""
        targets, partitions = {target.topic: target for target in self.existing}, plan.by_target
        verdicts = tuple(
            self._judge(topic, partitions.get(topic.target, ()), targets.get(topic.target)) for topic in plan.topics
        )
        if (unfinished := self.unfinished) is not None:
            return tuple(replace(verdict, preserve=verdict.target in unfinished.preserved) for verdict in verdicts)
        verdicts = tuple(self._checked_for_slow(verdict) if verdict.preserve else verdict for verdict in verdicts)
        translated = [verdict for verdict in verdicts if not verdict.preserve]
        if translated and self.request.offsets == OffsetsMode.PRESERVE:
            raise RestoreRefused(
                "; ".join(f"{verdict.source} cannot keep its offsets: {verdict.reason}" for verdict in translated),
                hint=(
                    "use --offsets auto: it keeps the offsets where possible, and stores a map from old to new offsets "
                    "for the other topics"
                ),
            )
        for verdict in translated if self.request.offsets == OffsetsMode.AUTO else ():
            topic, target = verdict.source, verdict.target
            decided("fall_back", to=OffsetsMode.TRANSLATE, topic=topic, target=target, why=verdict.reason)
        return verdicts

    def _judge(
        self, topic: TopicRestore, partitions: Sequence[PartitionRestore], target: TargetTopic | None
    ) -> OffsetsVerdict:
        verdict = OffsetsVerdict(
            source=topic.source.topic,
            target=topic.target,
            preserve=False,
            reason=self._reason(topic) if self.request.offsets != OffsetsMode.TRANSLATE else "",
            partitions=(),
        )
        if self.request.offsets == OffsetsMode.TRANSLATE or verdict.reason:
            return verdict
        verdict = replace(verdict, partitions=tuple(self._preserved(topic, partitions, target)))
        reason = obstacle(verdict.partitions, target)
        if not reason and self.request.offsets == OffsetsMode.AUTO and verdict.extra_s > AUTO_EXTRA_MAX_S:
            reason = (
                f"it would take about {format_duration(verdict.extra_s)} longer; use --offsets preserve to keep the "
                "offsets anyway"
            )
            reason += "" if self.way.direct else f"; with {self.way.missing} it is fast"
        # Without transactions no control records can be written: neither those of the source, nor fillers of gaps.
        if not reason and any(preserved.needs_transactions for preserved in verdict.partitions):
            reason = self.cannot_replay or self._refusal_of_transactions(topic.target)
        return replace(verdict, preserve=not reason, reason=reason)

    def _refusal_of_transactions(self, name: str) -> str:
        return f"{name} is diskless ({DISKLESS}=true), so it takes no transactions" if name in self.diskless else ""

    def _checked_for_slow(self, verdict: OffsetsVerdict) -> OffsetsVerdict:
        """A request for the source's offsets is met with a warning only: the open time is an estimate."""
        partitions = tuple(
            replace(preserved, slow=self.find_slow(preserved.partition.chain)) for preserved in verdict.partitions
        )
        reason = describe_slow_transaction(partitions) if self.request.offsets == OffsetsMode.AUTO else ""
        return replace(verdict, partitions=partitions, preserve=not reason, reason=reason)

    def _reason(self, topic: TopicRestore) -> str:
        """Why the request is impossible at the source's offsets, for any log."""
        if not self.request.read_committed:
            return "records of aborted transactions are restored as plain records"
        if topic.repartition is not None:
            return "its records go to other partitions"
        until_ms, segments = self.point.until_ms, self.point.commit.segments
        if until_ms is not None and any(
            is_open(segment, until_ms) for source in topic.source.partition_ids for segment in segments.get(source, ())
        ):
            return "records are selected by timestamp, so offsets have gaps"
        return ""

    def _preserved(
        self, topic: TopicRestore, partitions: Sequence[PartitionRestore], target: TargetTopic | None
    ) -> Iterator[PreservedPartition]:
        """All partitions of the topic with data (`partitions`), or with data before retention emptied them."""
        chains = {partition.chain.source: partition.chain for partition in partitions}
        for source in topic.source.partition_ids:
            position = self.point.state.positions.get(source)
            if source in chains:
                chain = replace(chains[source], until_ms=None)
            elif position and position.end > 0 and self.request.partitions.includes(source.topic, source.partition):
                chain = PartitionChain(source=source, segments=(), end=position.end)
            else:
                continue
            if target is None or source.partition < len(target.ends):
                end = target.ends[source.partition] if target is not None else 0
                yield preserved_partition(PartitionRestore.into(topic.target, chain), way=self.way, target_end=end)
