"""A cluster with transaction coordinators, in single steps that interleave at random: what they log, where markers land
and when, and a backup that reads each end at a moment of its own. It knows which marker belongs to which transaction.

The steps are those of Kafka's protocol (KIP-98): *ongoing* for each added partition, data, group offsets, *prepare*, a
marker in each partition in any order, *complete*, and then only the next transaction of that transactional id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from offsite.cut.readings import CutEvidence, EndsReading, LoggedCommit
from offsite.cut.window import GroupCommit
from offsite.log.markers import Marker
from offsite.log.range import PartitionId
from offsite.log.transaction_state import ListedTransaction, TransactionChange, TransactionStatus
from offsite.log.transactions import OpenTransaction, PartitionTail

STAGES = tuple(tuple(PartitionId(f"stage-{stage}", f"id-{stage}", number) for number in range(2)) for stage in range(4))
DATA = tuple(each for stage in STAGES for each in stage)
OFFSETS = tuple(PartitionId("__consumer_offsets", "id-offsets", number) for number in range(2))
STATE_LOGS = (0, 1)


@dataclass(eq=False)
class Transaction:
    """`records`: the offsets of its data by partition. `markers`: by partition, once they have landed."""

    name: str
    producer_id: int
    partitions: list[PartitionId] = field(default_factory=list)
    records: dict[PartitionId, list[int]] = field(default_factory=dict)
    reads: list[GroupCommit] = field(default_factory=list)
    is_committed: bool | None = None
    markers: dict[PartitionId, int] = field(default_factory=dict)
    is_complete: bool = False

    def missing(self) -> list[PartitionId]:
        return [partition for partition in self.partitions if partition not in self.markers]


@dataclass(eq=False)
class Application:
    """A producer with a transactional id. It writes to the stage behind the one that it reads; the first reads none."""

    name: str
    stage: int
    log: int
    producer_id: int
    epoch: int = 0
    status: TransactionStatus = TransactionStatus.EMPTY
    now: Transaction | None = None
    positions: dict[PartitionId, int] = field(default_factory=dict)


class World:
    """`logs`: the transaction of each record and marker, None for plain records."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.logs: dict[PartitionId, list[Transaction | None]] = {each: [] for each in (*DATA, *OFFSETS)}
        self.states: dict[int, list[TransactionChange]] = {each: [] for each in STATE_LOGS}
        self.transactions: list[Transaction] = []
        self.commits: list[LoggedCommit] = []
        self.used_ids = 0
        self.applications = [
            Application(f"app-{number}", number % len(STAGES), number % 2, self.new_id()) for number in range(5)
        ]
        for each in self.applications:
            self.log(each, TransactionStatus.EMPTY)

    def new_id(self) -> int:
        self.used_ids += 1
        return 1_000 + self.used_ids

    def step(self) -> None:
        application = self.random.choice(self.applications)
        transaction = application.now
        if transaction is None:
            self.random.choice([self.restart, *[self.begin] * 8])(application)
        elif transaction.is_committed is None:
            self.random.choice([self.work] * 4 + [self.end, self.end, self.end])(application, transaction)
        elif transaction.missing():
            self.land(transaction)
        else:
            self.complete(application, transaction)

    def restart(self, application: Application) -> None:
        """The producer is initialized again: by itself, or because its transactional id had expired."""
        kind = self.random.randrange(3)
        if kind == 0:
            self.log(application, None)
            application.status = TransactionStatus.DEAD
            return
        application.epoch += 1
        if kind == 1:
            application.producer_id, application.epoch = self.new_id(), 0
        self.log(application, TransactionStatus.EMPTY)

    def begin(self, application: Application) -> None:
        if application.status is TransactionStatus.DEAD:
            application.producer_id, application.epoch = self.new_id(), 0
            self.log(application, TransactionStatus.EMPTY)
            return
        application.now = Transaction(application.name, application.producer_id)
        self.transactions.append(application.now)
        self.add(application, application.now, self.random.choice(STAGES[application.stage]))

    def work(self, application: Application, transaction: Transaction) -> None:
        target = self.random.choice(STAGES[application.stage])
        if target not in transaction.partitions:
            self.add(application, transaction, target)
        elif application.stage == 0 or self.random.random() < 0.2:
            self.write(target, transaction)
        else:
            self.transfer(application, transaction, target)

    def transfer(self, application: Application, transaction: Transaction, target: PartitionId) -> None:
        log = OFFSETS[application.stage % 2]
        if log not in transaction.partitions:
            self.add(application, transaction, log)
            return
        source = self.random.choice(STAGES[application.stage - 1])
        group = f"group-{application.name}"
        begun = [each.offset for each in transaction.reads if each.partition == source]
        end = self.last_stable(source)
        if end <= max([application.positions.get(source, 0), *begun]):
            return
        self.write(target, transaction)
        position = self.write(log, transaction)
        commit = GroupCommit(group=group, partition=source, offset=end, log=log, position=position, exactly_once=True)
        transaction.reads.append(commit)
        self.commits.append(LoggedCommit(commit, transaction.producer_id))

    def end(self, application: Application, transaction: Transaction) -> None:
        """By the producer, or by the coordinator after a time: with a higher epoch."""
        transaction.is_committed = self.random.random() < 0.75
        if not transaction.is_committed and self.random.random() < 0.5:
            application.epoch += 1
        is_commit = transaction.is_committed
        self.log(application, TransactionStatus.PREPARE_COMMIT if is_commit else TransactionStatus.PREPARE_ABORT)

    def land(self, transaction: Transaction) -> None:
        partition = self.random.choice(transaction.missing())
        transaction.markers[partition] = len(self.logs[partition])
        self.logs[partition].append(transaction)

    def complete(self, application: Application, transaction: Transaction) -> None:
        """Sometimes with a new producer id: the epochs of the old one are used up."""
        if self.random.random() < 0.1:
            application.producer_id, application.epoch = self.new_id(), 0
        is_commit = transaction.is_committed
        self.log(application, TransactionStatus.COMPLETE_COMMIT if is_commit else TransactionStatus.COMPLETE_ABORT)
        transaction.is_complete = True
        application.now = None
        for read in transaction.reads if is_commit else ():
            application.positions[read.partition] = read.offset

    def log(self, application: Application, status: TransactionStatus | None) -> None:
        records = self.states[application.log]
        if status is not None:
            application.status = status
        # A transaction prepares with the producer id that it began with.
        producer_id = -1 if status is None else application.producer_id
        records.append(
            TransactionChange(application.log, len(records), application.name, producer_id, application.epoch, status)
        )

    def add(self, application: Application, transaction: Transaction, partition: PartitionId) -> None:
        transaction.partitions.append(partition)
        self.log(application, TransactionStatus.ONGOING)

    def write(self, partition: PartitionId, transaction: Transaction) -> int:
        offset = len(self.logs[partition])
        self.logs[partition].append(transaction)
        transaction.records.setdefault(partition, []).append(offset)
        return offset

    def last_stable(self, partition: PartitionId, end: int | None = None) -> int:
        """Where the first transaction without a marker below `end` begins, or the end."""
        end = len(self.logs[partition]) if end is None else end
        firsts = [
            each.records[partition][0]
            for each in self.transactions
            if partition in each.records and each.markers.get(partition, end) >= end
        ]
        return min([end, *firsts])


@dataclass
class Seen:
    """A world, and what a backup saw of it. `tail_starts`: where it began to know markers, by partition."""

    world: World
    evidence: CutEvidence
    tail_starts: dict[PartitionId, int]


def seen(seed: int) -> Seen:
    """One backup of the world that `seed` makes."""
    world = World(seed)
    backup = _Backup(world)
    for _ in range(world.random.randrange(200)):
        world.step()
    hurry = world.random.choice((0.1, 0.3, 1.0))
    for look in backup.looks():
        if look is None:
            for _ in range(world.random.randrange(60)):
                world.step()
            continue
        look()
        while world.random.random() < hurry / 2:
            world.step()
    for _ in range(world.random.randrange(30)):
        world.step()
    return Seen(world, backup.evidence(), backup.tail_starts)


class _Backup:
    def __init__(self, world: World) -> None:
        self.world, self.random = world, world.random
        self.count = self.random.randint(1, 5)
        self.begins: dict[int, int] = {}
        self.tail_starts: dict[PartitionId, int] = {}
        self.listed: dict[int, ListedTransaction] = {}
        self.before: list[dict[int, int]] = [{} for _ in range(self.count)]
        self.ends: list[dict[PartitionId, int]] = [{} for _ in range(self.count)]
        self.after: list[dict[int, int]] = [{} for _ in range(self.count)]

    def looks(self) -> Iterator[Callable[[], None] | None]:
        """Each look at one log or coordinator, in an order that the design allows; None for a pause."""
        yield from (partial(self.look_at_state, log, self.begins) for log in STATE_LOGS)
        yield from (partial(self.look_at, log, self.tail_starts) for log in OFFSETS)
        if self.random.random() < 0.8:
            yield from (partial(self.list, each) for each in self.world.applications)
        for number in range(self.count):
            yield None
            yield from (partial(self.look_at_state, log, self.before[number]) for log in STATE_LOGS)
            for key in self.random.sample((*DATA, *OFFSETS), len(DATA) + len(OFFSETS)):
                yield partial(self.look_at, key, self.ends[number])
            yield from (partial(self.look_at_state, log, self.after[number]) for log in STATE_LOGS)

    def look_at_state(self, log: int, found: dict[int, int]) -> None:
        found[log] = len(self.world.states[log])

    def look_at(self, key: PartitionId, found: dict[PartitionId, int]) -> None:
        found[key] = len(self.world.logs[key])
        self.tail_starts.setdefault(key, found[key])

    def list(self, application: Application) -> None:
        if application.status is not TransactionStatus.DEAD:
            self.listed[application.producer_id] = ListedTransaction(
                application.name, application.producer_id, application.status
            )

    def evidence(self) -> CutEvidence:
        if self.random.random() < 0.1:  # a broker did not answer
            self.before[0].pop(self.random.choice(STATE_LOGS), None)
        readings = tuple(
            EndsReading(before=before, ends=ends, after=after)
            for before, ends, after in zip(self.before, self.ends, self.after, strict=True)
        )
        changes = tuple(
            change for log in STATE_LOGS for change in self.world.states[log][self.begins[log] : self.after[-1][log]]
        )
        commits = sorted(self.world.commits, key=lambda each: (each.commit.log, each.commit.position))
        return CutEvidence(
            readings=readings,
            changes=changes if self.random.random() < 0.95 else None,
            listed=self.listed,
            tails={key: self.tail(key) for key in self.tail_starts},
            commits=tuple(each for each in commits if each.commit.position >= self.tail_starts[each.commit.log]),
        )

    def tail(self, key: PartitionId) -> PartitionTail:
        """The reader begins where the first open transaction begins, most times, and may read on behind the end."""
        start, end = self.tail_starts[key], self.ends[-1][key]
        read_from = self.world.last_stable(key, start) if self.random.random() < 0.8 else start
        read_to = end + self.random.choice((0, 3))
        markers, undecided = [], []
        for each in self.world.transactions:
            offsets = [offset for offset in each.records.get(key, ()) if offset < read_to]
            marker = each.markers.get(key, read_to)
            if start <= marker < read_to:
                first = offsets[0] if offsets and offsets[0] >= read_from else -1
                markers.append(Marker(marker, each.producer_id, 0, bool(each.is_committed), first))
            elif offsets and marker >= read_to:
                undecided.append(
                    OpenTransaction(producer_id=each.producer_id, first_offset=offsets[0], last_offset=offsets[-1])
                )
        return PartitionTail(
            markers=tuple(sorted(markers)), open=tuple(sorted(undecided, key=lambda each: each.first_offset))
        )
