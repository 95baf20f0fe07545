"""Coordinators of groups and transactional ids: find them, ask those of transactions, list the ids they know.

FindCoordinator: many keys go into one request. Before Kafka 3.0 (KIP-699) every key needs a request; all requests are
sent before the first answer is read. `TransactionCoordinators` asks several coordinators at a time, and repeats as long
as a repetition helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, PASSING, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import CONCURRENT_TRANSACTIONS, NONE, broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.kafka.transaction_requests import CoordinatorAnswer
from offsite.log.transaction_state import ListedTransaction, TransactionStatus
from offsite.model.clock import Clock
from offsite.model.errors import (
    Denied,
    KafkaProtocolError,
    KafkaTooOld,
    KafkaUnavailable,
    LeaderUnavailable,
    NoSuchTopic,
)
from offsite.model.journal import decided

GROUP_KEY, TRANSACTION_KEY = 0, 1
LOWEST_VERSION, HIGHEST_VERSION = 3, 4
_MANY_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNode:
    """A coordinator's node id, or -1 with an error code."""

    node_id: int
    error_code: int


def find_coordinators(router: Router, keys: Sequence[str], *, kind: int = GROUP_KEY) -> Mapping[str, CoordinatorNode]:
    """Ask any broker for the coordinators of groups, or with `TRANSACTION_KEY` of transactional ids.

    Raises `KafkaUnavailable`.
    """
    with router.lease_any() as connection:
        version = connection.highest_version(Api.FIND_COORDINATOR, LOWEST_VERSION, HIGHEST_VERSION)
        if version >= _MANY_VERSION:
            return connection.call(find_coordinators_request(keys, kind=kind))
        requests = {key: find_coordinator_request(key, kind=kind) for key in keys}
        for request in requests.values():
            connection.post(request)
        return {key: connection.collect(request) for key, request in requests.items()}


def find_coordinators_request(keys: Sequence[str], *, kind: int) -> Request[Mapping[str, CoordinatorNode]]:
    body = Encoder(flexible=True).i8(kind).array(keys, Encoder.string).end().done()

    def read(answer: Decoder) -> Mapping[str, CoordinatorNode]:
        return dict(answer.array(_read_coordinator))

    return Request(api=Api.FIND_COORDINATOR, version=HIGHEST_VERSION, body=body, read=read, flexible=True)


def find_coordinator_request(key: str, *, kind: int) -> Request[CoordinatorNode]:
    body = Encoder(flexible=True).string(key).i8(kind).end().done()

    def read(answer: Decoder) -> CoordinatorNode:
        code = answer.i16()
        answer.nullable_string()  # error message
        coordinator = CoordinatorNode(node_id=answer.i32(), error_code=code)
        answer.string()  # host and port are known from the metadata
        answer.i32()
        return coordinator

    return Request(api=Api.FIND_COORDINATOR, version=LOWEST_VERSION, body=body, read=read, flexible=True)


def _read_coordinator(answer: Decoder) -> tuple[str, CoordinatorNode]:
    key, node_id = answer.string(), answer.i32()
    answer.string()  # host and port are known from the metadata
    answer.i32()
    coordinator = CoordinatorNode(node_id=node_id, error_code=answer.i16())
    answer.nullable_string()  # error message
    answer.end()
    return key, coordinator


T = TypeVar("T")

BUSY_S = 0.001
"""A coordinator that still ends the previous transaction is done within milliseconds."""
BUSY_MAX_S = 120.0
"""The coordinator waits for the leaders of all partitions. Beyond this time a leader is gone, and a person must
look."""


class TransactionCoordinators:
    """Remembers the coordinator of an id until a coordinator turns out wrong."""

    def __init__(self, router: Router, clock: Clock) -> None:
        self._router = router
        self._clock = clock
        self._nodes: dict[str, int] = {}

    def ask(self, requests: Mapping[str, Request[CoordinatorAnswer[T]]], *, doing: str) -> dict[str, T]:
        """Send one request per transactional id. All requests have succeeded when the method returns.

        A request must have the effect of a single request however often it is sent. Raises `TransactionLost`,
        `NoSuchTopic`, `Denied`, and `KafkaUnavailable` after the named limits.
        """
        values: dict[str, T] = {}
        outage, absence = Backoff(self._clock), Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)
        busy_until_s = self._clock.monotonic_s() + BUSY_MAX_S
        while pending := {key: request for key, request in requests.items() if key not in values}:
            try:
                code = self._round(pending, values)
                if code == CONCURRENT_TRANSACTIONS and self._clock.monotonic_s() < busy_until_s:
                    self._clock.sleep(BUSY_S)
                elif code:
                    raise broker_error(code, f"{doing} ({next(iter(pending))})")
            except PASSING as error:
                self._forget(pending)
                outage.wait(error)
            except NoSuchTopic as error:
                absence.wait(error)
        return values

    def _round(self, requests: Mapping[str, Request[CoordinatorAnswer[T]]], values: dict[str, T]) -> int:
        """Send every request once and put the successful answers into `values`. Returns the worst error code of the
        rest, or 0."""
        self._find(key for key in requests if key not in self._nodes)
        codes = {NONE}
        with ExitStack() as stack:
            connections = {
                node: stack.enter_context(self._router.lease_broker(node))
                for node in {self._nodes[key] for key in requests}
            }
            for key, request in requests.items():
                connections[self._nodes[key]].post(request)
            for key, request in requests.items():
                code, value = connections[self._nodes[key]].collect(request)
                codes.add(code)
                if code == NONE:
                    values[key] = value
        return next(iter(codes - {NONE, CONCURRENT_TRANSACTIONS}), max(codes))

    def _find(self, keys: Iterable[str]) -> None:
        ids = list(keys)
        if not ids:
            return
        answered = find_coordinators(self._router, ids, kind=TRANSACTION_KEY)
        for key in ids:
            if (coordinator := answered.get(key)) is None:
                raise LeaderUnavailable(f"the answer leaves out the coordinator of {key}")
            if coordinator.error_code:
                raise broker_error(coordinator.error_code, f"finding the coordinator of {key}")
            self._nodes[key] = coordinator.node_id

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._nodes.pop(key, None)


LOADING_MAX_S = 5.0
"""A coordinator loads ids within seconds of an election; an unlisted id is merely unknown."""
_LIST_VERSION = 0
_LISTED_STATUSES = {
    "Empty": TransactionStatus.EMPTY,
    "Ongoing": TransactionStatus.ONGOING,
    "PrepareCommit": TransactionStatus.PREPARE_COMMIT,
    "PrepareAbort": TransactionStatus.PREPARE_ABORT,
    "CompleteCommit": TransactionStatus.COMPLETE_COMMIT,
    "CompleteAbort": TransactionStatus.COMPLETE_ABORT,
    "Dead": TransactionStatus.DEAD,
    "PrepareEpochFence": TransactionStatus.PREPARE_EPOCH_FENCE,
}


def list_transactions(router: Router, clock: Clock) -> Mapping[int, ListedTransaction]:
    """Producer id → transactional id in the coordinator's present state, ended transactions included. Empty where a
    broker is too old, refuses or does not answer: an unlisted id may exist all the same.

    KIP-664, Kafka 3.0: coordinators list only ids that the principal may describe. A deposed coordinator, not yet aware
    of the change, may list ids in an old state. The present coordinator, once it has changed anything, lists the ids as
    well. So all brokers have to answer, and contradicting entries count as unlisted.
    """
    backoff = Backoff(clock, limit_s=LOADING_MAX_S)
    while True:
        try:
            return _agreed(_ask_all(router))
        except (KafkaTooOld, Denied, KafkaProtocolError) as error:
            decided("not_asked", why=error.message, what="transactional ids that coordinators know")
            return {}
        except KafkaUnavailable as error:
            try:
                backoff.wait(error)
            except KafkaUnavailable:
                return {}


def _ask_all(router: Router) -> Iterable[ListedTransaction]:
    request = list_transactions_request()
    answers = router.call_each(dict.fromkeys(router.metadata([]).brokers, request))
    for node_id, (code, _) in answers.items():
        if code:
            raise broker_error(code, f"listing the transactions of broker {node_id}")
    return [transaction for _, listed in answers.values() for transaction in listed]


def _agreed(listed: Iterable[ListedTransaction]) -> Mapping[int, ListedTransaction]:
    by_producer: dict[int, set[ListedTransaction]] = {}
    for transaction in listed:
        by_producer.setdefault(transaction.producer_id, set()).add(transaction)
    return {
        producer_id: next(iter(transactions))
        for producer_id, transactions in by_producer.items()
        if len(transactions) == 1
    }


def list_transactions_request() -> Request[CoordinatorAnswer[list[ListedTransaction]]]:
    """Request all transactions of the asked coordinator. Transactions with an unknown status are left out."""
    body = Encoder(flexible=True).array([], Encoder.string).array([], Encoder.i64).end().done()

    def read(answer: Decoder) -> CoordinatorAnswer[list[ListedTransaction]]:
        code = answer.i16()
        answer.array(Decoder.string)  # statuses asked for that the broker does not know
        return CoordinatorAnswer(
            code, [transaction for transaction in answer.array(_listed) if transaction is not None]
        )

    return Request(api=Api.LIST_TRANSACTIONS, version=_LIST_VERSION, body=body, read=read, flexible=True)


def _listed(answer: Decoder) -> ListedTransaction | None:
    transactional_id, producer_id, state = answer.string(), answer.i64(), answer.string()
    answer.end()
    status = _LISTED_STATUSES.get(state)
    return None if status is None else ListedTransaction(transactional_id, producer_id, status)
