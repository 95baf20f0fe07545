"""Groups of a cluster: list groups, read committed offsets, commit and delete offsets. Joins no group. The offsets of
share groups are their positions, which have requests of their own (KIP-932).

Answers are per group: an unreadable group, or a group with unexpected members, never spoils the rest.

The coordinators of many groups are asked at once (`group_coordinators`). Single-threaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TypeVar

from offsite.kafka.group_coordinators import COORDINATOR_MAX_S, GroupCoordinators, split_groups
from offsite.kafka.net.backoff import through_outage
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import (
    GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
    broker_error,
    error_name,
)
from offsite.kafka.protocol.configs import group_values_request
from offsite.kafka.protocol.groups import (
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
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.share_groups import (
    SETTING_VERSION,
    SHARE_VERSION,
    alter_positions_request,
    delete_positions_request,
    describe_positions_request,
)
from offsite.log.group_offsets import NO_OFFSET, SHARE, GroupOffsets, GroupTable
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import Denied, KafkaTooOld, KafkaUnavailable
from offsite.model.journal import decided
from offsite.model.names import named

T = TypeVar("T")

_MARKERS_OF_4_2, _LOG_DIRS_OF_4_3 = 2, 5
"""Versions of WriteTxnMarkers and DescribeLogDirs by which brokers of these releases are known: brokers do not tell
their release, and streams groups have the same APIs in all three."""

FETCH_GROUPS_MAX = 100
"""Groups in one OffsetFetch request: with 1,000 partitions each the answer has some 2 MB."""
STABLE_ATTEMPTS = 20
STABLE_WAIT_S = 0.25
"""Transactions that commit offsets take milliseconds. A transaction of 5 s hangs: the offsets committed before
count."""
_UNSTABLE_OFFSET_COMMIT = 88
_CARRIED = {"", "classic", "consumer", "streams", SHARE}
"""Kinds of groups that a restore brings back. Brokers before 3.8 tell no kind, and have no further kinds."""
_RESET = "share.auto.offset.reset"
_UNSUPPORTED_VERSION = 35
_NOT_ENABLED = (
    "share groups are not enabled on this cluster: kafka-features.sh --bootstrap-server … upgrade --feature "
    "share.version=1"
)
_NOT_SET = (
    "set no positions of share groups, as Kafka 4.1 does not: upgrade the cluster to 4.2, or let the group begin at "
    "the first record, with share.auto.offset.reset=earliest"
)
OTHER_POSITION = "OTHER_POSITION"
"""The error of a share group that was changed, and whose positions are not as they were set."""
_OTHER_POSITION = (
    "after its positions were set, brokers tell other ones, or none, as they do where they cannot read them: run the "
    "same command again"
)
_NOT_REMOVED = "after its positions were removed, brokers still tell some: run the same command again"
NO_GROUP = error_name(GROUP_ID_NOT_FOUND)
"""A possible answer of a coordinator for an unknown group."""
_NAMED_MAX = 12
"""Brokers and partitions named in one failure."""
HAS_MEMBERS = "it has active members: stop them first"
_HAS_MEMBERS = {22, 25, 27, 68, 82, 86, 113}
"""Codes by which coordinators of all kinds refuse a group in use, or an offset of a topic in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFailure:
    """A group left unchanged. `error`: the broker's name for the error; `message`: the same in words. `kind` as in
    `ListedGroup`. `partitions`: those that were not read, or not changed, where everything else was; empty for the
    whole group."""

    group: str
    error: str
    message: str
    kind: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroups:
    """Groups with committed offsets, and groups with unreadable offsets. `not_carried`: groups of kinds that no restore
    brings back, and share groups of brokers that do not tell positions. `ask_again` asks the coordinators for groups by
    name; None without a cluster to ask."""

    groups: GroupTable
    failed: tuple[GroupFailure, ...]
    not_carried: tuple[ListedGroup, ...] = ()
    ask_again: Callable[[Iterable[ListedGroup]], FetchedGroups] | None = field(default=None, compare=False, repr=False)


class StreamsSupport(StrEnum):
    """By rising release: what a broker makes of a classic group, made by a commit of offsets, when an application of
    the streams protocol (KIP-1071) joins it. A version of a broker of other makers counts by its APIs."""

    ABSENT = "absent"
    """Brokers have no streams groups."""
    REFUSES = "refuses"
    """Kafka 4.1, a preview: the application is refused."""
    MAY_FAIL = "may fail"
    """Kafka 4.2: the group is converted. In 4.2.0 it may not be loaded again after a compaction (KAFKA-20254)."""
    CONVERTS = "converts"
    """Kafka 4.3 and later."""


class GroupClient:
    """Groups of one cluster. Methods raise `KafkaUnavailable` when the cluster does not answer, `Denied` when
    a right is missing."""

    def __init__(self, router: Router, *, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()
        self._coordinators = GroupCoordinators(router, self._clock)

    def list(self) -> Sequence[ListedGroup]:
        """List every visible group, sorted by name. Waits for brokers that still load groups."""
        groups = {group.group: group for listed in self._of_brokers(_listed).values() for group in listed}
        return [groups[name] for name in sorted(groups)]

    def offsets(self, groups: Iterable[ListedGroup]) -> FetchedGroups:
        """Read the committed offsets of `groups`, on all topics, and the positions of share groups.

        An offset committed in a transaction counts from the transaction's marker on, together with the transaction's
        records (KIP-447). With the previous offset, restored beside the records, the consumer would produce the records
        again. So the method waits for a commit in progress, and leaves the commit out when the transaction does not
        end.
        """
        chosen = tuple(groups)
        share = self._positions([group for group in chosen if group.kind == SHARE])
        listed = {group.group: group for group in chosen if group.kind != SHARE}
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
        unknown = tuple(group for group in chosen if group.kind not in _CARRIED)
        return FetchedGroups(
            groups={**group_offsets, **share.groups},
            failed=(*_failures(answers, "reading its offsets", listed), *share.failed),
            not_carried=(*unknown, *share.not_carried),
            ask_again=self.offsets,
        )

    def streams_support(self) -> Mapping[int, StreamsSupport]:
        """Broker id → what the broker makes of a classic group when a streams application joins it. Brokers of several
        releases serve a cluster while it is upgraded, and each may become the coordinator of a group."""
        return self._of_brokers(lambda _, connection: _streams_support(connection))

    def commit(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Commit the given offsets of every group, and set the positions of share groups. Returns refused groups. May
        be repeated.

        The coordinator refuses a group with members. A missing group is created with the offsets.
        """
        committing, share = _by_requests(groups)
        answers = self._coordinators.ask(
            committing, lambda names: commit_offsets_request(committing[names[0]]), per_request=1
        )
        return (*_failures(answers, "committing offsets", groups), *self._set_positions(share))

    def unsettable(self, share_groups: Collection[str]) -> tuple[GroupFailure, ...]:
        """The share groups whose positions the cluster is not going to set, with the reasons. Changes nothing."""
        if not share_groups:
            return ()
        for api in (Api.DESCRIBE_SHARE_GROUP_OFFSETS, Api.ALTER_SHARE_GROUP_OFFSETS):
            if (missing := self._not_offered(api)) is not None:
                return _all_failed(share_groups, missing.id, missing.message)
        listed = [ListedGroup(group=name, kind=SHARE, state="") for name in share_groups]
        if failed := self._positions(listed).failed:
            return failed
        why = self._why_not_set()
        return _all_failed(share_groups, "NOT_SET", why) if why else ()

    def delete(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Remove every group's commits on the given partitions, and all positions of a share group on the given topics.
        Returns refused groups."""
        deleting, share = _by_requests(groups)
        answers = self._coordinators.ask(
            deleting, lambda names: delete_offsets_request(deleting[names[0]]), per_request=1
        )
        gone = self._gone_with_topics(deleting, answers)
        left = {name: answer for name, answer in answers.items() if name not in gone}
        return (*_failures(left, "removing offsets", groups), *self._delete_positions(share))

    def _gone_with_topics(self, groups: GroupTable, answers: Mapping[str, GroupAnswer]) -> AbstractSet[str]:
        """The groups that lack all offsets to be removed, as read again, where the answer says of topics that they are
        not there: brokers remove the offsets on a topic that is deleted."""
        doubtful = [name for name, answer in answers.items() if set(answer.codes) == {UNKNOWN_TOPIC_OR_PARTITION}]
        left = self._fetch(doubtful, stable=False) if doubtful else {}
        return {
            name
            for name, answer in left.items()
            if not answer.error_code and _partitions_of(groups[name]).isdisjoint(_partitions_of(answer))
        }

    def _positions(self, listed: Sequence[ListedGroup]) -> FetchedGroups:
        """The positions of share groups. Brokers without the request hold positions that nobody can read."""
        if not listed:
            return FetchedGroups(groups={}, failed=())
        if self._not_offered(Api.DESCRIBE_SHARE_GROUP_OFFSETS) is not None:
            return FetchedGroups(groups={}, failed=(), not_carried=tuple(listed))
        by_name = {group.group: group for group in listed}
        names = list(by_name)
        answers = self._coordinators.ask(names, describe_positions_request, per_request=FETCH_GROUPS_MAX)
        resets = self._resets(names)
        positions = {
            group.group: GroupOffsets(
                group=group.group,
                kind=SHARE,
                state=group.state,
                topics=answers[group.group].offsets,
                reset=resets.get(group.group, ""),
            )
            for group in listed
            if not answers[group.group].error_code
        }
        return FetchedGroups(groups=positions, failed=_unread_positions(answers, by_name))

    def _resets(self, names: Sequence[str]) -> Mapping[str, str]:
        """Where share groups begin in partitions without a position, as far as the cluster tells."""
        try:
            answers = [self._router.call(group_values_request(part)) for part in split_groups(names, FETCH_GROUPS_MAX)]
        except (Denied, KafkaUnavailable) as error:
            decided("not_asked", why=error.message, what=f"{_RESET} of share groups")
            return {}
        settings = {name: values for answer in answers for name, values in answer.items()}
        return {name: values[_RESET] for name, values in settings.items() if _RESET in values}

    def _why_not_set(self) -> str:
        """Why positions of share groups are not set; empty where all brokers set them."""
        sets = self._of_brokers(
            lambda _, connection: connection.has_version(Api.DESCRIBE_SHARE_GROUP_OFFSETS, SETTING_VERSION)
        )
        without = [str(node_id) for node_id, is_able in sorted(sets.items()) if not is_able]
        if not without:
            return ""
        some = f"some brokers ({named(without, most=_NAMED_MAX)})"
        return f"{'the brokers' if len(without) == len(sets) else some} {_NOT_SET}"

    def _set_positions(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Set the positions of share groups, and read them again: brokers of 4.1 set none, and report no error."""
        failed = self._change(groups, Api.ALTER_SHARE_GROUP_OFFSETS, alter_positions_request, "setting positions")
        answers = self._read_again(groups, failed)
        unset = [
            name
            for name, answer in answers.items()
            if not answer.codes and not _positions_of(groups[name]) <= _positions_of(answer)
        ]
        why = self._why_not_set() if unset else ""
        not_set = _all_failed(unset, "NOT_SET" if why else OTHER_POSITION, why or _OTHER_POSITION)
        return (*failed, *_unread_positions(answers, groups), *not_set)

    def _delete_positions(self, groups: GroupTable) -> tuple[GroupFailure, ...]:
        """Delete all positions of share groups on the topics of `groups`, and read them again."""
        failed = self._change(groups, Api.DELETE_SHARE_GROUP_OFFSETS, delete_positions_request, "removing positions")
        answers = self._read_again(groups, failed)
        remaining = [name for name, answer in answers.items() if _has_position(answer, groups[name])]
        there = {name: answer for name, answer in answers.items() if answer.error_code != GROUP_ID_NOT_FOUND}
        return (*failed, *_unread_positions(there, groups), *_all_failed(remaining, OTHER_POSITION, _NOT_REMOVED))

    def _read_again(self, groups: GroupTable, failed: Iterable[GroupFailure]) -> Mapping[str, GroupAnswer]:
        """The positions of `groups` after a change, except those of `failed` groups."""
        changed = groups.keys() - {failure.group for failure in failed}
        return self._coordinators.ask(sorted(changed), describe_positions_request, per_request=FETCH_GROUPS_MAX)

    def _change(
        self,
        groups: GroupTable,
        api: Api,
        request: Callable[[GroupOffsets], Request[Mapping[str, GroupAnswer]]],
        doing: str,
    ) -> tuple[GroupFailure, ...]:
        """Change the positions of share groups."""
        if groups and (missing := self._not_offered(api)) is not None:
            return _all_failed(groups, missing.id, missing.message)
        answers = self._coordinators.ask(groups, lambda names: request(groups[names[0]]), per_request=1)
        return _failures(answers, doing, groups)

    def _not_offered(self, api: Api) -> KafkaTooOld | None:
        """The error of brokers that lack a request about share groups; None where they have it."""
        with self._router.lease_any() as connection:
            try:
                connection.highest_version(api, SHARE_VERSION, SHARE_VERSION)
            except KafkaTooOld as error:
                return error
        return None

    def _of_brokers(self, read: Callable[[int, Connection], T]) -> Mapping[int, T]:
        """Broker id → what `read` makes of the id and of a connection to the broker. Waits for brokers."""

        def ask() -> Mapping[int, T]:
            answers: dict[int, T] = {}
            for node_id in self._router.metadata([]).brokers:
                with self._router.lease_broker(node_id) as connection:
                    answers[node_id] = read(node_id, connection)
            return answers

        return through_outage(ask, self._clock, limit_s=COORDINATOR_MAX_S)

    def _fetch(self, groups: Iterable[str], *, stable: bool) -> dict[str, GroupAnswer]:
        versions = self._of_brokers(lambda _, connection: connection.highest_version(Api.OFFSET_FETCH, *FETCH_VERSIONS))
        version = min(versions.values())  # any broker may coordinate a group, and hangs up on a version that it lacks
        request = partial(fetch_offsets_request, stable=stable, version=version)
        per_request = FETCH_GROUPS_MAX if version >= MANY_GROUPS_VERSION else 1
        return self._coordinators.ask(groups, request, per_request=per_request)


def _listed(node_id: int, connection: Connection) -> Sequence[ListedGroup]:
    code, listed = connection.call(list_groups_request(connection.highest_version(Api.LIST_GROUPS, *LIST_VERSIONS)))
    if code:
        raise broker_error(code, f"listing the groups of broker {node_id}")
    return listed


def _streams_support(connection: Connection) -> StreamsSupport:
    if not connection.has_version(Api.STREAMS_GROUP_HEARTBEAT, 0):
        return StreamsSupport.ABSENT
    if not connection.has_version(Api.WRITE_TXN_MARKERS, _MARKERS_OF_4_2):
        return StreamsSupport.REFUSES
    is_newer = connection.has_version(Api.DESCRIBE_LOG_DIRS, _LOG_DIRS_OF_4_3)
    return StreamsSupport.CONVERTS if is_newer else StreamsSupport.MAY_FAIL


def _has_position(answer: GroupAnswer, group: GroupOffsets) -> bool:
    """Whether the answer has a position on one of the topics of `group`."""
    names = {topic.topic for topic in group.topics}
    return any(row.offset != NO_OFFSET for topic in answer.offsets if topic.topic in names for row in topic)


def _positions_of(group: GroupOffsets | GroupAnswer) -> AbstractSet[tuple[str, int, int]]:
    topics = group.topics if isinstance(group, GroupOffsets) else group.offsets
    return {(topic.topic, row.partition, row.offset) for topic in topics for row in topic}


def _partitions_of(group: GroupOffsets | GroupAnswer) -> AbstractSet[tuple[str, int]]:
    return {(topic, partition) for topic, partition, _ in _positions_of(group)}


def _by_requests(groups: GroupTable) -> tuple[GroupTable, GroupTable]:
    """The groups that commit offsets, and the share groups."""
    share = {name: group for name, group in groups.items() if group.kind == SHARE}
    return {name: group for name, group in groups.items() if name not in share}, share


def _all_failed(share_groups: Iterable[str], error: str, message: str) -> tuple[GroupFailure, ...]:
    return tuple(GroupFailure(group=name, error=error, message=message, kind=SHARE) for name in sorted(share_groups))


def _failures(
    answers: Mapping[str, GroupAnswer], doing: str, groups: Mapping[str, ListedGroup | GroupOffsets]
) -> tuple[GroupFailure, ...]:
    codes = sorted((name, answer.error_code) for name, answer in answers.items())
    return tuple(
        GroupFailure(
            group=name,
            error=error_name(code),
            message=_why(code, _in_part(doing, answers[name]), groups[name].kind),
            kind=groups[name].kind,
            partitions=tuple(answers[name].unread),
        )
        for name, code in codes
        if code
    )


def _unread_positions(
    answers: Mapping[str, GroupAnswer], groups: Mapping[str, ListedGroup | GroupOffsets]
) -> tuple[GroupFailure, ...]:
    """The groups whose positions were not read, and those of which single partitions were not."""
    in_part = (
        GroupFailure(
            group=name,
            error=error_name(answer.codes[0]),
            message=_why(answer.codes[0], f"reading its position in {_named(answer.unread)}", SHARE),
            kind=SHARE,
            partitions=tuple(answer.unread),
        )
        for name, answer in sorted(answers.items())
        if answer.unread and not answer.error_code
    )
    return (*_failures(answers, "reading its positions", groups), *in_part)


def _in_part(doing: str, answer: GroupAnswer) -> str:
    return f"{doing} in {_named(answer.unread)}" if answer.unread else doing


def _named(partitions: Iterable[TopicPartition]) -> str:
    return named(list(map(str, partitions)), most=_NAMED_MAX, of="partitions")


def _why(code: int, doing: str, kind: str) -> str:
    if code in _HAS_MEMBERS:
        return HAS_MEMBERS
    if code == _UNSUPPORTED_VERSION and kind == SHARE:
        return _NOT_ENABLED
    return broker_error(code, doing).message
