"""Ask the coordinators of transactional ids: find them, ask several at a time, repeat as long as a repetition helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from offsite.kafka.find_coordinators import TRANSACTION_KEY, find_coordinators
from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import CONCURRENT_TRANSACTIONS, NONE, broker_error
from offsite.kafka.protocol.request import Request
from offsite.kafka.transactions.requests import CoordinatorAnswer
from offsite.model.clock import Clock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable, NoSuchTopic

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
            except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
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
