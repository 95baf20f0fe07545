"""Small random histories of a cluster: brokers that keep logs, applications that read and write, and a backup that
reads each partition's end at a moment of its own. They know what caused what, so they can say what no rule can: which
records a restore would show, and whether the causes of each are shown as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from offsite.cut.window import (
    REMOVED,
    Ends,
    GroupCommit,
    Outcome,
    ParticipantRecord,
    PartitionKey,
    SupersededRecord,
    TransactionSpan,
    Window,
    Written,
)

Record = tuple[PartitionKey, int]

ORDERS, PAID, SHIPPED = (PartitionKey(name, f"id-{name}", 0) for name in ("orders", "paid", "shipped"))
OFFSETS = PartitionKey("__consumer_offsets", "id-offsets", 7)


@dataclass
class Transaction:
    producer_id: int
    records: list[Record] = field(default_factory=list)
    reads: list[GroupCommit] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN
    markers: dict[PartitionKey, int] = field(default_factory=dict)

    @property
    def partitions(self) -> list[PartitionKey]:
        return list(dict.fromkeys(partition for partition, _ in self.records))

    def missing(self) -> list[PartitionKey]:
        return [partition for partition in self.partitions if partition not in self.markers]

    @property
    def is_over(self) -> bool:
        return self.outcome is not Outcome.OPEN and not self.missing()


@dataclass
class History:
    """`logs`: the transaction of each record, None for plain records and markers. `causes`: the records that the writer
    of a record had read."""

    partitions: tuple[PartitionKey, ...]
    logs: dict[PartitionKey, list[Transaction | None]]
    transactions: list[Transaction] = field(default_factory=list)
    markers: set[Record] = field(default_factory=set)
    causes: dict[Record, set[Record]] = field(default_factory=dict)
    commits: list[GroupCommit] = field(default_factory=list)
    records: list[ParticipantRecord] = field(default_factory=list)
    superseded: list[SupersededRecord] = field(default_factory=list)
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    window: Window = field(default_factory=Window)

    def visible(self, ends: Ends) -> set[Record]:
        """The records that a restore of `ends` shows: not what is aborted, nor what is undecided there."""
        return {
            (partition, offset)
            for partition, end in ends.items()
            for offset, transaction in enumerate(self.logs[partition][:end])
            if (partition, offset) not in self.markers
            and (transaction is None or self._shows(transaction, partition, end))
        }

    @staticmethod
    def _shows(transaction: Transaction, partition: PartitionKey, end: int) -> bool:
        is_committed = transaction.outcome is Outcome.COMMIT
        return is_committed and transaction.markers.get(partition, end) < end

    def is_whole(self, ends: Ends) -> bool:
        """Whether a restore of `ends` shows each transaction whole or not at all, and the causes of all it shows."""
        shown = self.visible(ends)
        for record in shown:
            transaction = self.logs[record[0]][record[1]]
            if transaction is not None and not shown.issuperset(transaction.records):
                return False
            if not shown.issuperset(self.causes.get(record, ())):
                return False
        return True


def random_history(seed: int, *, partitions: int = 4, cap: int = 6, steps: int = 40) -> History:
    """A history over `partitions` partitions with at most `cap` offsets each, and what a backup saw of it."""
    random = Random(seed)
    chosen = (ORDERS, PAID, OFFSETS, SHIPPED)[:partitions]
    world = _World(random, History(chosen, {partition: [] for partition in chosen}), cap)
    lengths = [world.lengths()]
    for _ in range(steps):
        world.step()
        lengths.append(world.lengths())
    _read_hot(world.history, lengths, random)
    return world.history


class _World:
    def __init__(self, random: Random, history: History, cap: int) -> None:
        self.random, self.history, self.cap = random, history, cap
        self.positions: dict[tuple[str, PartitionKey], int] = {}
        """What each group read to; of an exactly-once group as committed."""

    def lengths(self) -> dict[PartitionKey, int]:
        return {partition: len(log) for partition, log in self.history.logs.items()}

    def step(self) -> None:
        actions = [self.write_plain, self.work, self.work, self.work, self.end_one, self.end_one, self.land, self.land]
        if self.history.partitions[-1] is SHIPPED:
            actions += [self.participate]
        self.random.choice([*actions, self.commit_plainly])()

    def write_plain(self) -> None:
        self.append(self.random.choice([each for each in self.history.partitions if each is not OFFSETS]))

    def work(self) -> None:
        """A worker goes on with its transaction: it writes, or reads, writes and sends the offset it read to."""
        producer_id = self.random.randrange(2)
        running = [each for each in self.history.transactions if each.producer_id == producer_id and not each.is_over]
        transaction = running[-1] if running else Transaction(producer_id)
        if transaction.outcome is not Outcome.OPEN:
            return
        if producer_id == 0:
            self.transfer(transaction)
        else:
            partitions = [each for each in self.history.partitions if each is not OFFSETS]
            self.append(self.random.choice(partitions), transaction)
        if transaction.records and not running:
            self.history.transactions.append(transaction)

    def transfer(self, transaction: Transaction) -> None:
        position = self.positions.get(("transfer", ORDERS), 0)
        position = max([position, *(read.offset for read in transaction.reads)])
        end = self.last_stable(ORDERS)
        if end <= position or self.full(PAID) or self.full(OFFSETS):
            return
        offset = self.random.randint(position + 1, end)
        causes = self.shown(ORDERS, position, offset)
        self.append(PAID, transaction, causes)
        at = self.append(OFFSETS, transaction, causes)
        assert at is not None
        transaction.reads.append(
            GroupCommit(group="transfer", partition=ORDERS, offset=offset, log=OFFSETS, position=at, exactly_once=True)
        )

    def end_one(self) -> None:
        running = [each for each in self.history.transactions if each.outcome is Outcome.OPEN]
        # Room for the markers of those that are decided but not ended is kept by `full`.
        if running:
            transaction = self.random.choice(running)
            transaction.outcome = self.random.choice([Outcome.COMMIT, Outcome.COMMIT, Outcome.ABORT])
            if transaction.outcome is Outcome.COMMIT:
                for read in transaction.reads:
                    self.positions["transfer", ORDERS] = read.offset

    def land(self) -> None:
        """One marker of one transaction lands in one partition: brokers do that in any order, at any time."""
        waiting = [each for each in self.history.transactions if each.outcome is not Outcome.OPEN and each.missing()]
        if waiting:
            transaction = self.random.choice(waiting)
            partition = self.random.choice(transaction.missing())
            log = self.history.logs[partition]
            transaction.markers[partition] = len(log)
            self.history.markers.add((partition, len(log)))
            log.append(None)

    def participate(self) -> None:
        """A consumer without transactions that writes down what it read."""
        source = self.random.choice((ORDERS, PAID))
        end = self.random.randint(0, self.last_stable(source))
        at = self.append(SHIPPED, causes=self.shown(source, 0, end))
        if at is not None:
            self.history.records.append(ParticipantRecord(partition=SHIPPED, offset=at, deps={source: end}))

    def commit_plainly(self) -> None:
        offset = self.random.randint(REMOVED, self.last_stable(PAID))
        at = self.append(OFFSETS)
        if at is not None:
            self.history.commits.append(
                GroupCommit(group="report", partition=PAID, offset=offset, log=OFFSETS, position=at)
            )

    def append(
        self, partition: PartitionKey, transaction: Transaction | None = None, causes: set[Record] | None = None
    ) -> int | None:
        if self.full(partition):
            return None
        offset = len(self.history.logs[partition])
        self.history.logs[partition].append(transaction)
        self.history.causes[partition, offset] = causes or set()
        if transaction is not None:
            transaction.records.append((partition, offset))
        return offset

    def full(self, partition: PartitionKey) -> bool:
        owed = sum(partition in each.missing() for each in self.history.transactions)
        return len(self.history.logs[partition]) + owed + 2 > self.cap

    def last_stable(self, partition: PartitionKey) -> int:
        """The last stable offset: where the first transaction without a marker here begins, or the end."""
        firsts = [
            offset
            for offset, each in enumerate(self.history.logs[partition])
            if each is not None and partition not in each.markers
        ]
        return min(firsts, default=len(self.history.logs[partition]))

    def shown(self, partition: PartitionKey, start: int, end: int) -> set[Record]:
        ends = {partition: len(self.history.logs[partition])}
        return {(partition, offset) for _, offset in self.history.visible(ends) if start <= offset < end}


def _read_hot(history: History, lengths: list[dict[PartitionKey, int]], random: Random) -> None:
    """The backup reads each end at a moment of its own; of what lies behind, only the coordinator can tell."""
    begin = random.randrange(len(lengths) // 2, len(lengths))
    moments = {partition: random.randrange(begin, len(lengths)) for partition in history.partitions}
    history.ends = {partition: lengths[moment][partition] for partition, moment in moments.items()}
    asks_coordinator = random.random() < 0.5
    if random.random() < 0.2 and history.ends[ORDERS] > 1:
        low, high = sorted(random.sample(range(history.ends[ORDERS] + 1), 2))
        history.superseded.append(SupersededRecord(partition=ORDERS, offset=low, successor=high))
    spans = (_span(each, history.ends, asks_coordinator=asks_coordinator) for each in history.transactions)
    history.window = Window(
        transactions=tuple(span for span in spans if span),
        records=tuple(each for each in history.records if each.offset < history.ends[each.partition]),
        # The reader of a group's log may be further than the end that the cut begins with.
        commits=tuple(history.commits),
        superseded=tuple(history.superseded),
    )


def _span(transaction: Transaction, ends: Ends, *, asks_coordinator: bool) -> TransactionSpan | None:
    written = {partition: _written(transaction, partition, ends) for partition in transaction.partitions}
    if all(each.first >= ends[partition] for partition, each in written.items()):
        return None
    is_seen = asks_coordinator or any(each.marker is not None for each in written.values())
    return TransactionSpan(
        producer_id=transaction.producer_id,
        epoch=0,
        written=written,
        outcome=transaction.outcome if is_seen else Outcome.OPEN,
        reads=tuple(read for read in transaction.reads if read.position < ends[read.log]),
    )


def _written(transaction: Transaction, partition: PartitionKey, ends: Mapping[PartitionKey, int]) -> Written:
    end = ends[partition]
    offsets = [offset for each, offset in transaction.records if each == partition and offset < end] or [end]
    marker = transaction.markers.get(partition, end)
    return Written(offsets[0], offsets[-1], marker if marker < end else None)
