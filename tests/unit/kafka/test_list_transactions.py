"""Transactional ids as several brokers list them: all of them have to answer, and must not contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from offsite.kafka.coordinators import LOADING_MAX_S, list_transactions
from offsite.kafka.protocol.request import Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.kafka.transaction_requests import CoordinatorAnswer
from offsite.log.transaction_state import ListedTransaction, TransactionStatus
from offsite.model.errors import KafkaTooOld
from tests.virtual_time import VirtualClock

LOADING, DENIED = 14, 31
Told = list[tuple[str, int, str]]


class FakeRouter:
    """Brokers by number: what each lists, or an error code."""

    def __init__(self, *brokers: Told | int, too_old: bool = False) -> None:
        self.brokers = dict(enumerate(brokers))
        self.too_old = too_old

    def metadata(self, _: list[str]) -> SimpleNamespace:
        return SimpleNamespace(brokers=self.brokers)

    def call_each(
        self, requests: Mapping[int, Request[CoordinatorAnswer[list[ListedTransaction]]]]
    ) -> Mapping[int, CoordinatorAnswer[list[ListedTransaction]]]:
        if self.too_old:
            raise KafkaTooOld("ListTransactions")
        return {node: answered(request, self.brokers[node]) for node, request in requests.items()}


def answered(
    request: Request[CoordinatorAnswer[list[ListedTransaction]]], told: Told | int
) -> CoordinatorAnswer[list[ListedTransaction]]:
    code, rows = (told, []) if isinstance(told, int) else (0, told)
    out = Encoder(flexible=True).i32(0).i16(code).array([], Encoder.string)
    out.array(rows, lambda each, row: each.string(row[0]).i64(row[1]).string(row[2]).end()).end()
    answer = Decoder(memoryview(out.done()), flexible=True)
    parsed = request.parse(answer)
    answer.end()
    answer.done()
    return parsed


def listed(router: FakeRouter, clock: VirtualClock | None = None) -> Mapping[int, ListedTransaction]:
    return list_transactions(router, clock or VirtualClock())  # type: ignore[arg-type]


def test_ids_are_known_by_their_producer() -> None:
    found = listed(FakeRouter([("a", 1, "Ongoing")], [("b", 2, "CompleteCommit"), ("c", 3, "Sleeping")]))
    assert found == {
        1: ListedTransaction("a", 1, TransactionStatus.ONGOING),
        2: ListedTransaction("b", 2, TransactionStatus.COMPLETE_COMMIT),
    }


def test_what_two_brokers_tell_differently_is_not_told() -> None:
    assert listed(FakeRouter([("a", 1, "Ongoing")], [("a", 1, "PrepareCommit")])) == {}


@pytest.mark.parametrize("code", [LOADING, DENIED])
def test_one_broker_that_does_not_tell_leaves_nothing_known(code: int) -> None:
    clock = VirtualClock()
    assert listed(FakeRouter([("a", 1, "Ongoing")], code), clock) == {}
    assert clock.now_s == (0 if code == DENIED else pytest.approx(LOADING_MAX_S, abs=2))


def test_brokers_before_3_0_list_nothing() -> None:
    assert listed(FakeRouter([], too_old=True)) == {}
