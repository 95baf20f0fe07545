"""List all transactional ids known to the coordinators of a cluster (ListTransactions, KIP-664, Kafka 3.0).

Coordinators list only ids that the principal may describe. A deposed coordinator, not yet aware of the change, may list
ids in an old state. The present coordinator, once it has changed anything, lists the ids as well. So all brokers have
to answer, and contradicting entries count as unlisted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.kafka.transactions.requests import CoordinatorAnswer
from offsite.log.transaction_state import ListedTransaction, TransactionStatus
from offsite.model.clock import Clock
from offsite.model.errors import Denied, KafkaProtocolError, KafkaTooOld, KafkaUnavailable
from offsite.model.journal import decided

LOADING_MAX_S = 5.0
"""A coordinator loads ids within seconds of an election; an unlisted id is merely unknown."""
_VERSION = 0
_STATUSES = {
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
    broker is too old, refuses or does not answer: an unlisted id may exist all the same."""
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

    def parse(answer: Decoder) -> CoordinatorAnswer[list[ListedTransaction]]:
        answer.i32()  # throttle time
        code = answer.i16()
        answer.array(Decoder.string)  # statuses asked for that the broker does not know
        return CoordinatorAnswer(
            code, [transaction for transaction in answer.array(_listed) if transaction is not None]
        )

    return Request(api=Api.LIST_TRANSACTIONS, version=_VERSION, body=body, parse=parse, flexible=True)


def _listed(answer: Decoder) -> ListedTransaction | None:
    transactional_id, producer_id, state = answer.string(), answer.i64(), answer.string()
    answer.end()
    status = _STATUSES.get(state)
    return None if status is None else ListedTransaction(transactional_id, producer_id, status)
