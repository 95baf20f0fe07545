"""Small random histories of a cluster: brokers that keep logs, applications that read and write, and a backup that
reads each partition's end at a moment of its own. They know what caused what, so they can say what no rule can: what a
restore would show, whether the causes of it are shown as well, and whether applications that go on from there do
everything once.

A source writes orders; two workers of `billing` read them and write `paid`; two of `shipping` read that and write
`shipped`; all commit their offsets in one log. So several transactions overlap in every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from offsite.cut.window import (
    REMOVED,
    Ends,
    GroupCommit,
    ParticipantRecord,
    SpanOutcome,
    SupersededRecord,
    TransactionSpan,
    Window,
    WrittenRange,
)
from offsite.log.range import PartitionId

Record = tuple[PartitionId, int]
GroupKey = tuple[str, PartitionId]

ORDERS = tuple(PartitionId("orders", "id-orders", number) for number in range(2))
PAID, SHIPPED, AUDIT = (PartitionId(name, f"id-{name}", 0) for name in ("paid", "shipped", "audit"))
OFFSETS = PartitionId("__consumer_offsets", "id-offsets", 7)
PARTITIONS = (*ORDERS, PAID, SHIPPED, AUDIT, OFFSETS)
STAGES = {"billing": (ORDERS, PAID), "shipping": ((PAID,), SHIPPED)}


@dataclass
class Transaction:
    producer: str
    number: int
    records: list[Record] = field(default_factory=list)
    reads: list[GroupCommit] = field(default_factory=list)
    outcome: SpanOutcome = SpanOutcome.OPEN
    markers: dict[PartitionId, int] = field(default_factory=dict)

    def missing(self) -> list[PartitionId]:
        partitions = dict.fromkeys(partition for partition, _ in self.records)
        return [partition for partition in partitions if partition not in self.markers]

    @property
    def is_over(self) -> bool:
        return self.outcome is not SpanOutcome.OPEN and not self.missing()


@dataclass
class History:
    """`logs`: the transaction of each record, None for plain records and markers. `causes`: the records that the writer
    of a record had read. `orders`: the order that each output was made from. `snapshot`: the group offsets as they were
    when the backup began to read ends."""

    logs: dict[PartitionId, list[Transaction | None]] = field(default_factory=lambda: {each: [] for each in PARTITIONS})
    transactions: list[Transaction] = field(default_factory=list)
    markers: set[Record] = field(default_factory=set)
    causes: dict[Record, set[Record]] = field(default_factory=dict)
    orders: dict[Record, Record] = field(default_factory=dict)
    commits: list[GroupCommit] = field(default_factory=list)
    records: list[ParticipantRecord] = field(default_factory=list)
    superseded: list[SupersededRecord] = field(default_factory=list)
    snapshot: dict[GroupKey, int] = field(default_factory=dict)
    ends: dict[PartitionId, int] = field(default_factory=dict)
    window: Window = field(default_factory=Window)

    def visible(self, ends: Ends, undone: Mapping[PartitionId, Iterable[int]]) -> set[Record]:
        """The records that a restore of `ends` shows, with the markers `undone` taken for aborts."""
        return {
            (partition, offset)
            for partition, end in ends.items()
            for offset, transaction in enumerate(self.logs[partition][:end])
            if (partition, offset) not in self.markers
            and (transaction is None or _shows(transaction, partition, end, undone.get(partition, ())))
        }

    def is_whole(self, shown: set[Record]) -> bool:
        """Whether each transaction is shown whole or not at all, after those before it of the same producer, and the
        causes of all that is shown."""
        last: dict[str, bool] = {}
        for each in self.transactions:
            if each.outcome is not SpanOutcome.COMMIT:
                continue
            is_shown = shown.issuperset(each.records)
            if not is_shown and not shown.isdisjoint(each.records):
                return False
            if is_shown and not last.get(each.producer, True):
                return False
            last[each.producer] = is_shown
        return all(shown.issuperset(self.causes.get(record, ())) for record in shown)

    def resumes(self, shown: set[Record], groups: Mapping[GroupKey, int]) -> bool:
        """Whether the applications, started on what is shown with these offsets, do each order once."""
        orders = sorted(record for record in shown if record[0] in ORDERS)
        billed = [record for record in orders if record[1] >= groups.get(("billing", record[0]), 0)]
        paid = sorted(record for record in shown if record[0] == PAID)
        sent = [record for record in paid if record[1] >= groups.get(("shipping", PAID), 0)]
        all_paid = [*(self.orders[record] for record in paid), *billed]
        shipped = [self.orders[record] for record in shown if record[0] == SHIPPED]
        all_shipped = [*shipped, *(self.orders[record] for record in sent), *billed]
        return sorted(all_paid) == orders == sorted(all_shipped)


def _shows(transaction: Transaction, partition: PartitionId, end: int, undone: Iterable[int]) -> bool:
    marker = transaction.markers.get(partition, end)
    return transaction.outcome is SpanOutcome.COMMIT and marker < end and marker not in undone


def random_history(seed: int, *, steps: int = 60) -> History:
    """A history of so many steps, and what a backup saw of it."""
    random = Random(seed)
    world = _World(random)
    for _ in range(random.randrange(steps // 2, steps)):
        world.step()
    _read_hot(world, random)
    return world.history


class _World:
    def __init__(self, random: Random) -> None:
        self.random, self.history = random, History()
        self.positions: dict[GroupKey, int] = {}
        self.lengths = [self.length()]
        self.snapshots = [dict(self.positions)]

    def length(self) -> dict[PartitionId, int]:
        return {partition: len(log) for partition, log in self.history.logs.items()}

    def step(self) -> None:
        actions = [self.work] * 6 + [self.write] * 3 + [self.end_one] * 4 + [self.land] * 6
        self.random.choice([*actions, self.participate, self.commit_plainly])()
        self.lengths.append(self.length())
        self.snapshots.append(dict(self.positions))

    def running(self, producer: str) -> Transaction | None:
        """The producer's open transaction, or a new one; None while its last one is not over."""
        own = [each for each in self.history.transactions if each.producer == producer]
        if not own or own[-1].is_over:
            return Transaction(producer, len(own))
        return own[-1] if own[-1].outcome is SpanOutcome.OPEN else None

    def write(self) -> None:
        """An order, in a transaction of the source or outside."""
        partition = self.random.choice(ORDERS)
        transaction = self.running("source") if self.random.random() < 0.8 else None
        self.append(partition, transaction)

    def work(self) -> None:
        """A worker goes on with its transaction: it reads, writes, and sends the offset it read to."""
        group = self.random.choice(list(STAGES))
        transaction = self.running(f"{group}-{self.random.randrange(2)}")
        sources, target = STAGES[group]
        source = self.random.choice(sources)
        if transaction is None or self.is_pending(group, source, transaction):
            return
        own = [read.offset for read in transaction.reads if read.partition == source]
        position = max([self.positions.get((group, source), 0), *own])
        end = self.last_stable(source)
        if end <= position:
            return
        offset = self.random.randint(position + 1, end)
        inputs = self.shown(source, position, offset)
        for record in sorted(inputs):
            at = self.append(target, transaction, {record})
            self.history.orders[target, at] = self.history.orders[record]
        at = self.append(OFFSETS, transaction, inputs)
        transaction.reads.append(
            GroupCommit(group=group, partition=source, offset=offset, log=OFFSETS, position=at, exactly_once=True)
        )

    def is_pending(self, group: str, source: PartitionId, own: Transaction | None) -> bool:
        """Whether another worker's offset of the same input is undecided in the log (KIP-447)."""
        return any(
            each is not own
            and OFFSETS in each.missing()
            and any((read.group, read.partition) == (group, source) for read in each.reads)
            for each in self.history.transactions
        )

    def end_one(self) -> None:
        running = [each for each in self.history.transactions if each.outcome is SpanOutcome.OPEN]
        if running:
            transaction = self.random.choice(running)
            transaction.outcome = self.random.choice([SpanOutcome.COMMIT, SpanOutcome.COMMIT, SpanOutcome.ABORT])

    def land(self) -> None:
        """One marker of one transaction lands in one partition: brokers do that in any order, at any time."""
        waiting = [
            each for each in self.history.transactions if each.outcome is not SpanOutcome.OPEN and each.missing()
        ]
        if not waiting:
            return
        transaction = self.random.choice(waiting)
        partition = self.random.choice(transaction.missing())
        log = self.history.logs[partition]
        transaction.markers[partition] = len(log)
        self.history.markers.add((partition, len(log)))
        log.append(None)
        if partition == OFFSETS and transaction.outcome is SpanOutcome.COMMIT:
            for read in transaction.reads:
                self.positions[read.group, read.partition] = read.offset

    def participate(self) -> None:
        """A consumer without transactions that writes down what it read."""
        end = self.random.randint(0, self.last_stable(PAID))
        at = self.append(AUDIT, causes=self.shown(PAID, 0, end))
        self.history.records.append(ParticipantRecord(partition=AUDIT, offset=at, deps={PAID: end}))

    def commit_plainly(self) -> None:
        """A plain group; now and then somebody sets an offset of `billing` by hand, to where it is."""
        group, partition = self.random.choice([("report", PAID), ("report", SHIPPED), ("billing", ORDERS[0])])
        offset = self.positions.get((group, partition), 0)
        if group == "report":
            offset = self.random.randint(REMOVED, self.last_stable(partition))
        elif self.is_pending(group, partition, None):
            return
        at = self.append(OFFSETS)
        self.history.commits.append(
            GroupCommit(group=group, partition=partition, offset=offset, log=OFFSETS, position=at)
        )

    def append(
        self, partition: PartitionId, transaction: Transaction | None = None, causes: set[Record] | None = None
    ) -> int:
        offset = len(self.history.logs[partition])
        self.history.logs[partition].append(transaction)
        self.history.causes[partition, offset] = causes or set()
        if partition in ORDERS:
            self.history.orders[partition, offset] = partition, offset
        if transaction is not None:
            if not transaction.records:
                self.history.transactions.append(transaction)
            transaction.records.append((partition, offset))
        return offset

    def last_stable(self, partition: PartitionId) -> int:
        """The last stable offset: where the first transaction without a marker here begins, or the end."""
        log = self.history.logs[partition]
        firsts = [at for at, each in enumerate(log) if each is not None and partition not in each.markers]
        return min(firsts, default=len(log))

    def shown(self, partition: PartitionId, start: int, end: int) -> set[Record]:
        ends = {partition: len(self.history.logs[partition])}
        return {(partition, offset) for _, offset in self.history.visible(ends, {}) if start <= offset < end}


def _read_hot(world: _World, random: Random) -> None:
    """The backup reads each end at a moment of its own; of what lies behind, only the coordinator can tell."""
    history, lengths = world.history, world.lengths
    begin = random.randrange(len(lengths) // 2, len(lengths))
    history.snapshot = world.snapshots[begin]
    last = min(len(lengths), begin + random.choice([2, 8, 30]))
    history.ends = {partition: lengths[random.randrange(begin, last)][partition] for partition in PARTITIONS}
    if random.random() < 0.2 and history.ends[ORDERS[0]] > 1:
        low, high = sorted(random.sample(range(history.ends[ORDERS[0]] + 1), 2))
        history.superseded.append(SupersededRecord(partition=ORDERS[0], offset=low, successor=high))
    asks_coordinator, episodes = random.random() < 0.5, random.choice([0.0, 0.4])
    parts: list[list[Transaction]] = []
    for each in sorted(history.transactions, key=lambda each: (each.producer, each.number)):
        if parts and parts[-1][-1].producer == each.producer and random.random() < episodes:
            parts[-1].append(each)
        else:
            parts.append([each])
    history.window = Window(
        transactions=tuple(_span(part, history.ends, asks_coordinator=asks_coordinator) for part in parts),
        records=tuple(each for each in history.records if each.offset < history.ends[each.partition]),
        # The reader of a group's log may be further than the end that the cut begins with.
        commits=tuple(history.commits),
        superseded=tuple(history.superseded),
    )


def _span(part: list[Transaction], ends: Ends, *, asks_coordinator: bool) -> TransactionSpan:
    """One or more transactions of one producer, as the backup sees them."""
    outcomes = {id(each): _outcome(each, ends, asks_coordinator=asks_coordinator) for each in part}
    found = set(outcomes.values())
    outcome = next(each for each in (SpanOutcome.OPEN, SpanOutcome.COMMIT, SpanOutcome.ABORT) if each in found)
    needed = [each for each in part if outcomes[id(each)] is not SpanOutcome.ABORT] or part
    partitions = dict.fromkeys(partition for each in needed for partition, _ in each.records)
    return TransactionSpan(
        producer_id=7,
        epoch=0,
        name=part[0].producer,
        number=part[0].number,
        written={partition: _written(needed, partition, ends) for partition in partitions},
        outcome=outcome,
        reads=tuple(read for each in needed for read in each.reads if read.position < ends[read.log]),
    )


def _outcome(transaction: Transaction, ends: Ends, *, asks_coordinator: bool) -> SpanOutcome:
    is_seen = asks_coordinator or any(at < ends[partition] for partition, at in transaction.markers.items())
    return transaction.outcome if is_seen else SpanOutcome.OPEN


def _written(part: list[Transaction], partition: PartitionId, ends: Ends) -> WrittenRange:
    end = ends[partition]
    here = [each for each in part if any(where == partition for where, _ in each.records)]
    offsets = sorted(offset for each in here for where, offset in each.records if where == partition and offset < end)
    markers = sorted(each.markers.get(partition, end) for each in here)
    seen = tuple(at for at in markers if at < end)
    first, *_, last = [*offsets, *offsets] or [end, end]
    return WrittenRange(first, last, markers[-1] if len(seen) == len(markers) else None, seen if len(here) > 1 else ())
