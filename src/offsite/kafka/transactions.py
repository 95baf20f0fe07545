"""Transactions replayed into one partition: begun, ended with a given outcome, and taken up after a crash.

Each transaction under way has a transactional id (a slot) to itself. Slots are reused, the longest unused first, so
that the coordinator has finished with one when its turn comes. Nothing is remembered here that brokers do not know: a
new process finds the open transactions of a killed one by asking them, and goes on with the same producer ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from offsite.kafka.backoff import Backoff
from offsite.kafka.broker_errors import broker_error
from offsite.kafka.producer import Producer
from offsite.kafka.routing import Router
from offsite.kafka.transaction_coordinators import BUSY_MAX_S, TransactionCoordinators
from offsite.kafka.transaction_requests import (
    ActiveProducer,
    KnownTransaction,
    add_partition_request,
    describe_producers_request,
    describe_transaction_request,
    end_request,
    init_producer_request,
)
from offsite.log.range import TopicPartition
from offsite.model.check import check
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, KafkaTimeout, KafkaUnavailable, TransactionLost

TIMEOUTS_MS = (900_000, 300_000, 60_000, 10_000)
"""How long a transaction may stay open: the most that brokers allow, which is 15 minutes unless they say otherwise."""
FREE_MIN = 3
"""Unused slots before one is used again: by then its last outcome is in all logs."""
ENDED_AT_ONCE = 32
"""Empty transactions under way at the same time: each leaves one control record."""
_UNKNOWN = ActiveProducer(epoch=-1, next_sequence=0, first_offset=-1)


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """One transactional id. `begun`: the partition is in a transaction of it that has no outcome yet."""

    producer: Producer
    begun: bool

    @property
    def transactional_id(self) -> str:
        return str(self.producer.transactional_id)


class PartitionTransactions:
    """The transactions of one partition; `prefix` must be no one else's."""

    def __init__(self, router: Router, partition: TopicPartition, *, prefix: str, clock: Clock | None = None) -> None:
        self._router = router
        self._partition = partition
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._coordinators = TransactionCoordinators(router, self._clock)
        self._count = 0
        self._free: deque[Slot] = deque()
        self._recovered = False

    def await_outcomes(self) -> None:
        """Return when what an earlier process decided is in the logs. Raises `KafkaTimeout`."""
        self._known_transactions()

    def recover(self) -> dict[int, Slot]:
        """Take up what an earlier process left: first offset → slot of its open transactions with data, all of them.

        Transactions without data stay begun and are used first: otherwise their markers would come when nobody expects
        them.
        """
        self._recovered = True
        known = self._known_transactions()
        producers = self._active_producers() if known else {}
        self._count = len(known)
        recovered: dict[int, Slot] = {}
        for transactional_id, transaction in known.items():
            active = producers.get(transaction.producer_id, _UNKNOWN)
            slot = _recovered(transactional_id, transaction, active, begun=self._partition in transaction.partitions)
            if active.first_offset >= 0:
                recovered[active.first_offset] = slot
            elif slot.begun:
                self._free.appendleft(slot)
            else:
                self._free.append(slot)
        return recovered

    @property
    def slots(self) -> int:
        """How many transactions of this writer the brokers may have ended on their own since the crash, at most."""
        return self._count

    def begin(self) -> Slot:
        """A slot with a transaction that the partition is part of."""
        (slot,) = self._take(1)
        return slot

    def end(self, slot: Slot, *, committed: bool) -> None:
        """Decide it. Its marker is the next thing in the log, but not at once; the slot is not the caller's any more.

        Everything sent into the transaction must have been acknowledged.
        """
        self._end([slot], committed=committed)

    def end_empty(self, count: int) -> int:
        """Leave control records in the log: up to `count`, and how many. They are not there at once."""
        slots = self._take(min(count, ENDED_AT_ONCE))
        self._end(slots, committed=True)
        return len(slots)

    def abandon(self) -> None:
        """Abort whatever an earlier process left open here, so that no marker of it comes later."""
        self._initialise(list(self._known_transactions()))

    def _take(self, count: int) -> Sequence[Slot]:
        if not self._recovered and self.recover():
            raise TransactionLost(f"{self._partition} has open transactions that nobody asked for")
        begun = sum(slot.begun for slot in self._free)
        missing = max(count + (0 if begun >= count else FREE_MIN) - len(self._free), 0)
        if missing:
            names = [self._name(number) for number in range(self._count, self._count + missing)]
            self._count += missing
            self._free.extend(Slot(producer=producer, begun=False) for producer in self._initialise(names))
        slots = [self._free.popleft() for _ in range(count)]
        new = {s.transactional_id: add_partition_request(s.producer, self._partition) for s in slots if not s.begun}
        self._coordinators.ask(new, doing=f"beginning a transaction in {self._partition}")
        for slot in slots:
            slot.begun = True
        return slots

    def _end(self, slots: Sequence[Slot], *, committed: bool) -> None:
        check(all(slot.begun for slot in slots), f"a transaction of {self._partition} is ended that was not begun")
        requests = {slot.transactional_id: end_request(slot.producer, committed=committed) for slot in slots}
        self._coordinators.ask(requests, doing=f"ending a transaction in {self._partition}")
        for slot in slots:
            slot.begun = False
            self._free.append(slot)

    def _initialise(self, names: Sequence[str]) -> list[Producer]:
        doing = f"preparing transactions for {self._partition}"
        for timeout_ms in TIMEOUTS_MS:
            requests = {name: init_producer_request(name, timeout_ms=timeout_ms) for name in names}
            producers = self._coordinators.ask(requests, doing=doing)
            given = [producer for name in names if (producer := producers[name]) is not None]
            if len(given) == len(names):
                return given
        raise BadOption(
            f"{doing}: the brokers allow no transaction of {TIMEOUTS_MS[-1]} ms",
            hint="raise transaction.max.timeout.ms",
        )

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    def _known_transactions(self) -> dict[str, KnownTransaction]:
        """All slots of the prefix that ever were, in order, none of them about to end."""
        backoff = Backoff(self._clock, limit_s=BUSY_MAX_S)
        while True:
            known = self._described()
            ending = [name for name, transaction in known.items() if transaction.is_ending]
            if not ending:
                return known
            backoff.wait(KafkaTimeout(f"transaction {ending[0]} has an outcome, but not in all of its partitions"))

    def _described(self) -> dict[str, KnownTransaction]:
        known: dict[str, KnownTransaction] = {}
        while True:
            names = [self._name(len(known) + number) for number in range(FREE_MIN + 1)]
            requests = {name: describe_transaction_request(name) for name in names}
            answers = self._coordinators.ask(requests, doing=f"describing transactions of {self._partition}")
            for name in names:
                transaction = answers[name]
                if transaction is None:
                    return known
                known[name] = transaction

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


def _recovered(transactional_id: str, transaction: KnownTransaction, active: ActiveProducer, *, begun: bool) -> Slot:
    producer = Producer(
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        transactional_id=transactional_id,
        next_sequence=active.next_sequence if active.epoch == transaction.epoch else 0,
    )
    return Slot(producer=producer, begun=begun and transaction.state == "Ongoing")
