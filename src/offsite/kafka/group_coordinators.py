"""The coordinators of many groups: find them, ask all at once, repeat where a repetition helps.

A coordinator answers the requests of one connection in sequence, and a commit waits for replicas, so every coordinator
is asked over several connections. Single-threaded; requests are built when sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest

from offsite.kafka.coordinators import find_coordinators
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.groups import GroupAnswer
from offsite.kafka.protocol.request import Request
from offsite.model.clock import Clock
from offsite.model.errors import KafkaProtocolError, KafkaTimeout, KafkaUnavailable, OffsiteError

LANES = 16
"""Connections to one coordinator: a commit waits some 5 ms for the log, so 16 connections make about 3,000 commits a
second."""
FIND_GROUPS_MAX = 1000
"""Groups in one FindCoordinator request: some 50 KB."""
COORDINATOR_MAX_S = 60.0
"""A moved coordinator has loaded the groups, and a new cluster has made `__consumer_offsets`, well within this time."""
_TRY_AGAIN = frozenset({7, 14, 15, 16})  # timed out, loading, not available, moved

GroupsRequest = Callable[[Sequence[str]], Request[Mapping[str, GroupAnswer]]]


class GroupCoordinators:
    """Remembers the coordinator of a group until a coordinator turns out wrong."""

    def __init__(self, router: Router, clock: Clock) -> None:
        self._router = router
        self._clock = clock
        self._nodes: dict[str, int] = {}

    def ask(self, groups: Iterable[str], request: GroupsRequest, *, per_request: int) -> dict[str, GroupAnswer]:
        """Ask about all `groups`, up to `per_request` at a time, and one at a time after an answer that is too large or
        unreadable: applications write any text into their offsets. Every group has an answer at the end.

        Coordinators that load, move or do not answer are asked again, until no progress was made for
        `COORDINATOR_MAX_S`; the groups then keep the last error code. Raises `KafkaUnavailable` when brokers did not
        answer at all, `Denied`.
        """
        answers: dict[str, GroupAnswer] = {}
        pending, backoff = list(dict.fromkeys(groups)), Backoff(self._clock, limit_s=COORDINATOR_MAX_S)
        while pending:
            failure = self._round(pending, request, per_request, answers)
            per_request = 1 if isinstance(failure, KafkaProtocolError) else per_request
            unanswered = [
                group for group in pending if group not in answers or not _TRY_AGAIN.isdisjoint(answers[group].codes)
            ]
            if len(unanswered) < len(pending):
                backoff.reset()
            pending = unanswered
            if pending and not self._may_repeat(backoff, failure, pending, answers):
                break
        return answers

    def _may_repeat(
        self,
        backoff: Backoff,
        failure: KafkaUnavailable | None,
        groups: Sequence[str],
        answers: Mapping[str, GroupAnswer],
    ) -> bool:
        """Wait before another attempt. Returns False when the time is used up and every group has at least an error
        code."""
        for group in groups:
            self._nodes.pop(group, None)
        untold = next((group for group in groups if group not in answers), None)
        if failure is None and untold is not None:
            failure = KafkaTimeout(f"the answers leave out group {untold}", hint="check the logs of the brokers")
        error = failure or broker_error(answers[groups[0]].codes[0], f"group {groups[0]}")
        try:
            backoff.wait(error)
        except OffsiteError:
            if failure is not None:
                raise
            return False
        return True

    def _round(
        self, groups: Sequence[str], request: GroupsRequest, per_request: int, answers: dict[str, GroupAnswer]
    ) -> KafkaUnavailable | None:
        """Ask about every group once, and add the results to `answers`. Returns the error that ended the round early,
        or None."""
        try:
            answers |= self._find([group for group in groups if group not in self._nodes])
            requested = set(groups)
            for part_answers in self._ask_coordinators(groups, request, per_request):
                answers |= {group: answer for group, answer in part_answers.items() if group in requested}
        except KafkaUnavailable as failure:
            return failure
        return None

    def _find(self, groups: Sequence[str]) -> dict[str, GroupAnswer]:
        """Learn the coordinators of `groups`. Returns the error codes of groups without a coordinator."""
        refused: dict[str, GroupAnswer] = {}
        for part in split_groups(groups, FIND_GROUPS_MAX):
            coordinators = find_coordinators(self._router, part)
            for group, coordinator in ((group, coordinators[group]) for group in part if group in coordinators):
                if coordinator.error_code:
                    refused[group] = GroupAnswer(error_code=coordinator.error_code)
                else:
                    self._nodes[group] = coordinator.node_id
        return refused

    def _ask_coordinators(
        self, groups: Sequence[str], request: GroupsRequest, per_request: int
    ) -> Iterator[Mapping[str, GroupAnswer]]:
        shares: dict[int, list[str]] = {}
        for group in groups:
            if group in self._nodes:
                shares.setdefault(self._nodes[group], []).append(group)
        with ExitStack() as stack:
            lanes = [lane for node, share in shares.items() for lane in self._lanes(stack, node, share, per_request)]
            for turn in zip_longest(*(parts for _, parts in lanes)):
                requests = [(lane[0], request(part)) for lane, part in zip(lanes, turn, strict=True) if part]
                for connection, posted in requests:
                    connection.post(posted)
                for connection, posted in requests:
                    yield connection.collect(posted)

    def _lanes(
        self, stack: ExitStack, node_id: int, groups: Sequence[str], per_request: int
    ) -> list[tuple[Connection, list[Sequence[str]]]]:
        """Connections to one broker, with a share of the requests per connection."""
        parts = list(split_groups(groups, per_request))
        count = min(LANES, len(parts))
        return [
            (stack.enter_context(self._router.lease_broker(node_id)), parts[number::count]) for number in range(count)
        ]


def split_groups(groups: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield `groups` in order, up to `size` at a time."""
    return (groups[first : first + size] for first in range(0, len(groups), size))
