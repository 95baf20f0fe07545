"""Replay transactions into one partition: begin, end with a given outcome, and resume after a crash.

Every open transaction has a transactional id (a slot) of its own. Slots are reused, the longest unused first, so that
the coordinator has finished with a slot before the next use. The process remembers nothing that brokers do not know: a
new process asks the brokers for the open transactions of a killed process, and continues with the same producer ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from offsite.kafka.coordinators import BUSY_MAX_S, TransactionCoordinators
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.producer import NO_COORDINATOR, Producer, TransactionOutcome
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.transaction_requests import (
    ActiveProducer,
    DescribedTransaction,
    add_partition_request,
    describe_producers_request,
    describe_transaction_request,
    end_request,
    init_producer_request,
)
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    BadOption,
    KafkaNotAuthorized,
    KafkaTimeout,
    KafkaTooOld,
    KafkaUnavailable,
    TransactionLost,
    check,
)

TIMEOUTS_MS = (900_000, 300_000, 60_000, 10_000)
"""Transaction timeouts to try, the longest first: brokers allow 15 minutes by default."""
FREE_MIN = 3
"""Unused slots kept before a slot is used again: by then the slot's last outcome is in all logs."""
ENDED_AT_ONCE = 32
"""Empty transactions in progress at the same time; every one leaves a control record."""
EARLIER_MAX_S = 10.0
"""How long an earlier process, shut out of one id after another, may continue with further ids."""
GO_ON_MAX = 0.1
"""Part of the timeout in which a coordinator's transaction accepts more transactions of the source: enough time stays
for the last one."""
CLAIMS_MAX = 3
"""Claims of one id in sequence: a lost answer takes two, and any further claimant would be a newer attempt."""
_AGAIN = "run the same command again"
_UNKNOWN = ActiveProducer(epoch=-1, next_sequence=0, first_offset=-1)


@dataclass(slots=True, kw_only=True, eq=False)
class TransactionSlot:
    """One transactional id. `is_ongoing`: the partition is in a transaction of the id without an outcome yet. `shared`:
    an earlier attempt, perhaps suspended, holds the id under the same epoch. `started_s`: start by the monotonic clock,
    at the latest. `coordinator_epoch`: the least epoch for the next outcome; None: the leader knows."""

    producer: Producer
    is_ongoing: bool
    shared: bool = False
    started_s: float = 0.0
    coordinator_epoch: int | None = None

    @property
    def transactional_id(self) -> str:
        return str(self.producer.transactional_id)


class PartitionTransactions:
    """The transactions of one partition. No other process may use `prefix`.

    `check` raises when a newer attempt at the partition has begun. `owner`: a producer id without a transactional id
    that stands for all attempts.

    The earlier process may only have been suspended, and wake up. Even so the earlier process cannot begin or end
    anything: ids without an open transaction get a new epoch when found, further ids as soon as the open transaction
    has ended. The new process claims an id on condition that the id is still as described before the check for a newer
    attempt: so the older attempt fails.
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with a default
        self,
        router: Router,
        partition: TopicPartition,
        *,
        prefix: str,
        owner: int = -1,
        check: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._router = router
        self._partition = partition
        self._prefix = prefix
        self._owner = owner
        self._check = check or _nobody_else
        self._clock = clock or SystemClock()
        self._coordinators = TransactionCoordinators(router, self._clock)
        self._count = 0
        self._free: deque[TransactionSlot] = deque()
        self._recovered = False
        self._timeout_ms = min(TIMEOUTS_MS)

    def await_outcomes(self) -> None:
        """Return when the outcomes decided by an earlier process are in the logs. Raises `KafkaTimeout`."""
        self._settled_transactions()

    def recover(self) -> dict[int, TransactionSlot]:
        """Resume after an earlier process. Returns first offset → slot, for all open transactions with data.

        Transactions without data stay begun and are used first: else the markers would come unexpectedly later. All
        further ids are claimed, and so is the next new id. Raises `TransactionLost` when the earlier process is at
        work, and the errors of `check`.
        """
        backoff = Backoff(self._clock, limit_s=EARLIER_MAX_S)
        while True:
            try:
                recovered = self._recovered_once()
            except TransactionLost as error:
                backoff.wait(error)
            else:
                self._recovered = True
                return recovered

    def _recovered_once(self) -> dict[int, TransactionSlot]:
        self._free.clear()
        transactions = self._settled_transactions()
        recovered = self._taken_up(transactions)
        used_ids = {slot.transactional_id for slot in (*recovered.values(), *self._free)}
        self._count = len(transactions)
        # One id more than known: an earlier attempt in need of a new id would begin with the next number.
        self._claim([*(name for name in transactions if name not in used_ids), *self._new_names(1)])
        return recovered

    def _taken_up(self, transactions: Mapping[str, DescribedTransaction]) -> dict[int, TransactionSlot]:
        producers = self._active_producers() if transactions else {}
        recovered: dict[int, TransactionSlot] = {}
        for transactional_id, transaction in transactions.items():
            active = producers.get(transaction.producer_id, _UNKNOWN)
            slot = _recovered(
                transactional_id, transaction, active, has_partition=self._partition in transaction.partitions
            )
            if active.first_offset >= 0:
                recovered[active.first_offset] = slot
            elif slot.is_ongoing:
                self._free.appendleft(slot)
        return recovered

    @property
    def producer_ids(self) -> frozenset[int]:
        """Producer ids that may have written into the partition. Empty where brokers lack the API or refuse: no
        transaction was begun in such a case."""
        try:
            return frozenset(transaction.producer_id for transaction in self._describe_transactions().values())
        except (KafkaTooOld, KafkaNotAuthorized):
            return frozenset()

    @property
    def slots(self) -> int:
        """The number of transactions of this writer that brokers may have ended on their own since the crash, at
        most."""
        return self._count

    def begin(self) -> TransactionSlot:
        """Begin a transaction that includes the partition, and return the slot."""
        (slot,) = self._take(1)
        return slot

    def end(self, slot: TransactionSlot, *, committed: bool) -> None:
        """Decide the outcome. The marker is the next entry in the log, but not at once. The caller no longer owns the
        slot.

        Everything sent into the transaction must have been acknowledged.
        """
        self._end([slot], committed=committed)

    def may_go_on(self, slot: TransactionSlot) -> bool:
        """Whether the coordinator's transaction may include one more transaction of the source."""
        age_s = self._clock.monotonic_s() - slot.started_s
        return not slot.shared and age_s < GO_ON_MAX * self._timeout_ms / 1000

    def outcome(self, slot: TransactionSlot, *, committed: bool) -> TransactionOutcome:
        """Return the outcome that ends the source's transaction in the partition alone. The coordinator's transaction
        continues, and is used first."""
        if slot.coordinator_epoch is None:
            producer = self._active_producers().get(slot.producer.producer_id, _UNKNOWN)
            slot.coordinator_epoch = max(producer.coordinator_epoch, NO_COORDINATOR)
        self._free.appendleft(slot)
        return TransactionOutcome(slot.producer.producer_id, slot.producer.epoch, committed, slot.coordinator_epoch)

    @property
    def ongoing(self) -> int:
        """The number of coordinator transactions that wait for another transaction of the source. Every such
        transaction must end with another."""
        return sum(slot.is_ongoing for slot in self._free)

    def end_empty(self, count: int) -> int:
        """Leave up to `count` control records in the log. Returns the number. The records arrive later."""
        slots = self._take(min(count, ENDED_AT_ONCE))
        self._end(slots, committed=True)
        return len(slots)

    def abandon(self) -> None:
        """Abort all open transactions of an earlier process: no marker of the earlier process may come later."""
        self._initialise(dict.fromkeys(self._settled_transactions()))

    def _take(self, count: int) -> Sequence[TransactionSlot]:
        # 1. Recover once, before the first slot.
        if not self._recovered and self.recover():
            raise TransactionLost(f"{self._partition} has open transactions that this restore did not begin")
        # 2. Claim new ids, so that `FREE_MIN` slots rest before their next use.
        ongoing = sum(slot.is_ongoing for slot in self._free)
        missing = max(count + (0 if ongoing >= count else FREE_MIN) - len(self._free), 0)
        if missing:
            self._claim(self._new_names(missing))
        # 3. Take the first slots, and shut an earlier attempt out of shared ones.
        slots = [self._free.popleft() for _ in range(count)]
        self._part_from_earlier([slot for slot in slots if slot.shared and not slot.is_ongoing])
        # 4. Add the partition to transactions not begun yet.
        new = {
            s.transactional_id: add_partition_request(s.producer, self._partition) for s in slots if not s.is_ongoing
        }
        if new:
            self._coordinators.ask(new, doing=f"beginning a transaction in {self._partition}")
        for slot in slots:
            if not slot.is_ongoing:
                slot.is_ongoing, slot.started_s = True, self._clock.monotonic_s()
        return slots

    def _new_names(self, count: int) -> list[str]:
        names = [self._name(number) for number in range(self._count, self._count + count)]
        self._count += count
        return names

    def _claim(self, names: Sequence[str]) -> None:
        """Add unused slots for the ids, owned by this process from now on."""
        self._free.extend(TransactionSlot(producer=producer, is_ongoing=False) for producer in self._claimed(names))

    def _part_from_earlier(self, slots: Sequence[TransactionSlot]) -> None:
        """Take over slots in which an earlier attempt could still begin and end transactions."""
        for slot, producer in zip(slots, self._claimed([s.transactional_id for s in slots]), strict=True):
            slot.producer, slot.shared = producer, False

    def _claimed(self, names: Sequence[str]) -> list[Producer]:
        """Claim the ids and return the producers. Raises `TransactionLost` when others claim the ids too, and the
        errors of `check`."""
        for _ in range(CLAIMS_MAX - 1 if names else 0):
            with suppress(TransactionLost):
                return self._claim_once(names)
        return self._claim_once(names) if names else []

    def _claim_once(self, names: Sequence[str]) -> list[Producer]:
        owners = self._find_owners(names)
        self._check()
        return self._initialise_twice(owners)

    def _initialise_twice(self, expected: Mapping[str, tuple[int, int] | None]) -> list[Producer]:
        """Take over the ids, so that no earlier attempt can begin or end anything with them.

        A coordinator with an expected owner gives the id to the bearer of the present epoch, or of the previous epoch,
        because the owner may have missed the answer that raised the epoch (KIP-360). So after a single step, an earlier
        attempt with the present epoch could still take the id back. A known id is moved on by two epochs; a new id has
        no earlier owner.
        """
        producers = self._initialise({name: owner or self._as_new for name, owner in expected.items()})
        reclaimed = {
            p.transactional_id: (p.producer_id, p.epoch) for p in producers if expected[str(p.transactional_id)]
        }
        again = self._initialise({str(name): owner for name, owner in reclaimed.items()}) if reclaimed else []
        newest = {producer.transactional_id: producer for producer in (*producers, *again)}
        return [newest[name] for name in expected]

    @property
    def _as_new(self) -> tuple[int, int] | None:
        """The expected owner of an id that nobody has used: a coordinator that knows the id refuses such an owner
        (KIP-360)."""
        return None if self._owner < 0 else (self._owner, 0)

    def _end(self, slots: Sequence[TransactionSlot], *, committed: bool) -> None:
        check(all(slot.is_ongoing for slot in slots), f"a transaction of {self._partition} ends that did not begin")
        requests = {slot.transactional_id: end_request(slot.producer, committed=committed) for slot in slots}
        self._coordinators.ask(requests, doing=f"ending a transaction in {self._partition}")
        for slot in slots:
            slot.is_ongoing, slot.coordinator_epoch = False, None
            self._free.append(slot)

    def _find_owners(self, names: Sequence[str]) -> dict[str, tuple[int, int] | None]:
        """Return producer id and epoch of every id as the coordinator knows them; None for an unknown id. Raises
        `TransactionLost` when an id is in a transaction, because a claim would end the transaction."""
        requests = {name: describe_transaction_request(name) for name in names}
        answers = self._coordinators.ask(requests, doing=f"describing transactions of {self._partition}")
        if used := [name for name, a in answers.items() if a is not None and a.state == "Ongoing"]:
            raise TransactionLost(f"transaction {used[0]} was begun by an earlier attempt", hint=_AGAIN)
        return {name: (a.producer_id, a.epoch) if (a := answers[name]) is not None else None for name in names}

    def _initialise(self, expected: Mapping[str, tuple[int, int] | None]) -> list[Producer]:
        """Initialise ids, in order. `expected`: id → present owner, or None to take the id from any owner."""
        doing = f"preparing transactions for {self._partition}"
        for timeout_ms in TIMEOUTS_MS:
            requests = {
                name: init_producer_request(name, timeout_ms=timeout_ms, expected=owner)
                for name, owner in expected.items()
            }
            producers = self._coordinators.ask(requests, doing=doing)
            initialised = [producer for name in expected if (producer := producers[name]) is not None]
            if len(initialised) == len(expected):
                self._timeout_ms = timeout_ms
                return initialised
        raise BadOption(
            f"{doing}: the brokers allow no transaction of {TIMEOUTS_MS[-1]} ms",
            hint="raise transaction.max.timeout.ms",
        )

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    def _settled_transactions(self) -> dict[str, DescribedTransaction]:
        """Describe all slots of the prefix ever used, in order, once none is about to end."""
        backoff = Backoff(self._clock, limit_s=BUSY_MAX_S)
        while True:
            transactions = self._describe_transactions()
            ending = [name for name, transaction in transactions.items() if transaction.is_ending]
            if not ending:
                return transactions
            backoff.wait(
                KafkaTimeout(f"transaction {ending[0]} is ending, but not all of its partitions have its marker yet")
            )

    def _describe_transactions(self) -> dict[str, DescribedTransaction]:
        transactions: dict[str, DescribedTransaction] = {}
        while True:
            names = [self._name(len(transactions) + number) for number in range(FREE_MIN + 1)]
            requests = {name: describe_transaction_request(name) for name in names}
            answers = self._coordinators.ask(requests, doing=f"describing transactions of {self._partition}")
            for name in names:
                transaction = answers[name]
                if transaction is None:
                    return transactions
                transactions[name] = transaction

    def _active_producers(self) -> dict[int, ActiveProducer]:
        backoff = Backoff(self._clock)
        while True:
            try:
                with self._router.lease_leader(self._partition) as connection:
                    code, producers = connection.call(describe_producers_request(self._partition))
                if not code:
                    return dict(producers)
                raise broker_error(code, f"describing the producers of {self._partition}")
            except KafkaUnavailable as error:
                self._router.forget(self._partition)
                backoff.wait(error)


def _recovered(
    transactional_id: str, transaction: DescribedTransaction, active: ActiveProducer, *, has_partition: bool
) -> TransactionSlot:
    # Sequence numbers begin at 0 with every epoch: a sequence remembered from an earlier epoch does not continue.
    producer = Producer(
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        transactional_id=transactional_id,
        next_sequence=active.next_sequence if active.epoch == transaction.epoch else 0,
    )
    is_begun = has_partition and transaction.state == "Ongoing"
    return TransactionSlot(producer=producer, is_ongoing=is_begun, shared=True, started_s=-inf)


def _nobody_else() -> None:
    """Do nothing: no source tells of newer attempts."""
