"""Consumer groups of a cluster: list groups, read committed offsets, commit and delete offsets. Joins no group.

Answers are per group: an unreadable group, or a group with unexpected members, never spoils the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from offsite.kafka.groups.coordinators import COORDINATOR_MAX_S, GroupCoordinators
from offsite.kafka.groups.requests import (
    FETCH_VERSIONS,
    LIST_VERSIONS,
    MANY_GROUPS_VERSION,
    GroupAnswer,
    ListedGroup,
    commit_offsets_request,
    delete_offsets_request,
    fetch_offsets_request,
    list_groups_request,
)
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error, error_name
from offsite.kafka.protocol.request import Api
from offsite.log.groups.offsets import GroupOffsets, GroupTable
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaProtocolError, KafkaUnavailable, OffsiteError
from offsite.model.journal import decided

FETCH_GROUPS_MAX = 100
"""Groups in one OffsetFetch request: with 1,000 partitions each the answer has some 2 MB."""
STABLE_ATTEMPTS = 20
STABLE_WAIT_S = 0.25
"""Transactions that commit offsets take milliseconds. A transaction of 5 s hangs: the offsets committed before
count."""
_UNSTABLE_OFFSET_COMMIT = 88
_SHARE = "share"
_CARRIED = {"", "classic", "consumer"}
"""Kinds of groups that a restore brings back. Brokers before 3.8 tell no kind, and have no further kinds."""
_HAS_MEMBERS = {22, 25, 27, 68, 82, 86, 113}
"""Codes by which coordinators of all kinds refuse a group in use, or an offset of a topic in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFailure:
    """A group left unchanged. `error`: the broker's name for the error; `message`: the same in words."""

    group: str
    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroups:
    """Groups with committed offsets, and groups with unreadable offsets. `not_carried`: groups of kinds that no restore
    brings back. `ask_again` asks the coordinators for groups by name; None without a cluster to ask."""

    groups: GroupTable
    failed: tuple[GroupFailure, ...]
    not_carried: tuple[ListedGroup, ...] = ()
    ask_again: Callable[[Iterable[ListedGroup]], FetchedGroups] | None = field(default=None, compare=False, repr=False)


class GroupClient:
    """Consumer groups of one cluster. Methods raise `KafkaUnavailable` when the cluster does not answer, `Denied` when
    a right is missing."""

    def __init__(self, router: Router, *, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()
        self._coordinators = GroupCoordinators(router, self._clock)

    def list(self) -> Sequence[ListedGroup]:
        """List every visible group, sorted by name. Waits for brokers that still load groups."""
        backoff = Backoff(self._clock, limit_s=COORDINATOR_MAX_S)
        while True:
            try:
                return self._list()
            except KafkaProtocolError:
                raise
            except KafkaUnavailable as error:
                backoff.wait(error)

    def offsets(self, groups: Iterable[ListedGroup]) -> FetchedGroups:
        """Read the committed offsets of `groups`, on all topics. Share groups commit no offsets and are left out
        (KIP-932).

        An offset committed in a transaction counts from the transaction's marker on, together with the transaction's
        records (KIP-447). With the previous offset, restored beside the records, the consumer would produce the records
        again. So the method waits for a commit in progress, and leaves the commit out when the transaction does not
        end.
        """
        chosen = tuple(groups)
        listed = {group.group: group for group in chosen if group.kind != _SHARE}
        answers = self._fetch(listed, stable=True)
        for attempt in range(STABLE_ATTEMPTS):
            unstable = [name for name, answer in answers.items() if answer.error_code == _UNSTABLE_OFFSET_COMMIT]
            if not unstable:
                break
            why = "an open transaction is committing offsets of these groups"
            decided("retry", groups=len(unstable), first=unstable[0], wait_s=STABLE_WAIT_S, why=why)
            self._clock.sleep(STABLE_WAIT_S)
            answers |= self._fetch(unstable, stable=attempt + 1 < STABLE_ATTEMPTS)
        group_offsets = {
            name: GroupOffsets(group=name, kind=group.kind, state=group.state, topics=answers[name].offsets)
            for name, group in listed.items()
            if not answers[name].error_code
        }
        return FetchedGroups(
            groups=group_offsets,
            failed=_failures(answers, "reading its offsets"),
            not_carried=tuple(group for group in chosen if group.kind not in _CARRIED),
            ask_again=self.offsets,
        )

    def commit(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Commit the given offsets of every group. Returns refused groups. May be repeated.

        The coordinator refuses a group with members. A missing group is created with the offsets.
        """
        answers = self._coordinators.ask(groups, lambda names: commit_offsets_request(groups[names[0]]), per_request=1)
        return _failures(answers, "committing offsets")

    def delete(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Remove every group's commits on the given partitions. Returns refused groups."""
        answers = self._coordinators.ask(groups, lambda names: delete_offsets_request(groups[names[0]]), per_request=1)
        return _failures(answers, "removing offsets")

    def _list(self) -> Sequence[ListedGroup]:
        groups: dict[str, ListedGroup] = {}
        for node_id in self._router.metadata([]).brokers:
            with self._router.lease_broker(node_id) as connection:
                version = connection.highest_version(Api.LIST_GROUPS, *LIST_VERSIONS)
                code, listed = connection.call(list_groups_request(version))
            if code:
                raise broker_error(code, f"listing the groups of broker {node_id}")
            groups |= {group.group: group for group in listed}
        return [groups[name] for name in sorted(groups)]

    def _fetch(self, groups: Iterable[str], *, stable: bool) -> dict[str, GroupAnswer]:
        with self._router.lease_any() as connection:
            version = connection.highest_version(Api.OFFSET_FETCH, *FETCH_VERSIONS)
        request = partial(fetch_offsets_request, stable=stable, version=version)
        per_request = FETCH_GROUPS_MAX if version >= MANY_GROUPS_VERSION else 1
        return self._coordinators.ask(groups, request, per_request=per_request)


def _failures(answers: Mapping[str, GroupAnswer], doing: str) -> tuple[GroupFailure, ...]:
    codes = sorted((name, answer.error_code) for name, answer in answers.items())
    return tuple(_failure(name, code, doing) for name, code in codes if code)


def _failure(group: str, code: int, doing: str) -> GroupFailure:
    if code in _HAS_MEMBERS:
        return GroupFailure(group=group, error=error_name(code), message="it has active members: stop them first")
    error: OffsiteError = broker_error(code, doing)
    return GroupFailure(group=group, error=error_name(code), message=error.message)
