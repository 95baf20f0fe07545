"""Requests about consumer groups in bytes: ListGroups, OffsetFetch, OffsetCommit, OffsetDelete.

Many groups go into one OffsetFetch where brokers can (Kafka 3.0, KIP-709), else a single group. Leader epochs are read
and never sent: on another cluster an epoch would mean another history (KIP-1279).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.kafka.protocol.broker_errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_SERVER_ERROR
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, partition_code
from offsite.log.group_offsets import GroupOffsets, TopicOffsets, TopicOffsetsBuilder
from offsite.log.range import TopicPartition

LIST_VERSIONS = (3, 5)
FETCH_VERSIONS = (6, 8)
MANY_GROUPS_VERSION = 8
_COMMIT_VERSION, _DELETE_VERSION = 8, 0
_STATES_VERSION, _TYPES_VERSION = 4, 5  # of ListGroups (KIP-518, KIP-848)
_STABLE_VERSION = 7  # of OffsetFetch (KIP-447)
_NO_GENERATION, _NO_MEMBER = -1, ""
_ROW = struct.Struct(">iqiBhB")
"""A row of an OffsetFetch answer with empty metadata (compact length 1), as nearly all rows are."""
_EMPTY_TEXT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as brokers list it. `kind`: classic, consumer, share or streams; empty from brokers before 3.8. `state`:
    empty from brokers before 2.6."""

    group: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """A group's part of an answer. `error_code`: the first nonzero code; `offsets`: fetched offsets. `unread`: the
    codes of partitions whose position a share group's coordinator could not read, and nothing else is wrong with; or
    those that were refused by a change, which did take place in other partitions."""

    error_code: int
    offsets: tuple[TopicOffsets, ...] = ()
    unread: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def codes(self) -> tuple[int, ...]:
        """The nonzero codes, the one of the whole group first."""
        return tuple(filter(None, (self.error_code, *self.unread.values())))


def list_groups_request(version: int) -> Request[tuple[int, Sequence[ListedGroup]]]:
    """Request all groups of the asked coordinator, after an error code."""
    out = Encoder(flexible=True)
    if version >= _STATES_VERSION:
        out.array([], Encoder.string)
    if version >= _TYPES_VERSION:
        out.array([], Encoder.string)

    def read(answer: Decoder) -> tuple[int, Sequence[ListedGroup]]:
        return answer.i16(), answer.array(lambda group: _listed(group, version))

    return Request(api=Api.LIST_GROUPS, version=version, body=out.end().done(), read=read, flexible=True)


def fetch_offsets_request(
    groups: Sequence[str], *, stable: bool, version: int = MANY_GROUPS_VERSION
) -> Request[Mapping[str, GroupAnswer]]:
    """Request all committed offsets of `groups`; below `MANY_GROUPS_VERSION` only a single group is possible.

    `stable`: refuse offsets that an open transaction is about to change (KIP-447), where the version can.
    """
    if version < MANY_GROUPS_VERSION:
        (group,) = groups
        return _fetch_of_one(group, stable=stable, version=version)

    def put_group(out: Encoder, group: str) -> None:
        out.string(group).array(None, Encoder.string).end()

    body = Encoder(flexible=True).array(groups, put_group).boolean(stable).end().done()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        return dict(answer.array(_fetched))

    return Request(api=Api.OFFSET_FETCH, version=version, body=body, read=read, flexible=True)


def _fetch_of_one(group: str, *, stable: bool, version: int) -> Request[Mapping[str, GroupAnswer]]:
    out = Encoder(flexible=True).string(group).array(None, Encoder.string)
    body = (out.boolean(stable) if version >= _STABLE_VERSION else out).end().done()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        return {group: _answered(answer)}

    return Request(api=Api.OFFSET_FETCH, version=version, body=body, read=read, flexible=True)


def commit_offsets_request(group: GroupOffsets) -> Request[Mapping[str, GroupAnswer]]:
    """Commit as a client without membership: the broker refuses while the group has members."""
    out = Encoder(flexible=True).string(group.group).i32(_NO_GENERATION).string(_NO_MEMBER).string(None)
    body = out.array(group.topics, _put_commits).end().done()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        return {group.group: changed(_left_out(group) | answer.topics(partition_code))}

    return Request(api=Api.OFFSET_COMMIT, version=_COMMIT_VERSION, body=body, read=read, flexible=True)


def delete_offsets_request(group: GroupOffsets) -> Request[Mapping[str, GroupAnswer]]:
    """Delete the group's committed offsets for the partitions of `group`; the offsets themselves do not matter. A
    missing group is no error: brokers drop a group without offsets and members, and the request may be repeated."""

    def put_topic(out: Encoder, topic: TopicOffsets) -> None:
        out.string(topic.topic).array(topic.partitions, Encoder.i32)

    body = Encoder().string(group.group).array(group.topics, put_topic).done()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        code = answer.i16()
        answer.i32()  # throttle time
        codes = answer.topics(partition_code)  # present, though empty, even for a refused group
        if code:
            return {group.group: GroupAnswer(error_code=NONE if code == GROUP_ID_NOT_FOUND else code)}
        return {group.group: changed(_left_out(group) | codes)}

    return Request(api=Api.OFFSET_DELETE, version=_DELETE_VERSION, body=body, read=read)


def changed(codes: Mapping[TopicPartition, int]) -> GroupAnswer:
    """What came of a change, by the code of each partition: brokers judge each alone."""
    refused = {partition: code for partition, code in codes.items() if code}
    return GroupAnswer(error_code=_first_error(refused.values()), unread=refused if len(refused) < len(codes) else {})


def _left_out(group: GroupOffsets) -> dict[TopicPartition, int]:
    """The codes of partitions that an answer leaves out: nobody knows what became of them."""
    return {
        TopicPartition(topic=topic.topic, partition=partition): UNKNOWN_SERVER_ERROR
        for topic in group.topics
        for partition in topic.partitions
    }


def _listed(answer: Decoder, version: int) -> ListedGroup:
    group = answer.string()
    answer.string()  # protocol type
    state = answer.string() if version >= _STATES_VERSION else ""
    kind = answer.string().lower() if version >= _TYPES_VERSION else ""
    answer.end()
    return ListedGroup(group=group, kind=kind, state=state)


def _fetched(answer: Decoder) -> tuple[str, GroupAnswer]:
    group = answer.string()
    answered = _answered(answer)
    answer.end()
    return group, answered


def _answered(answer: Decoder) -> GroupAnswer:
    topics = answer.array(_topic_offsets)
    code = answer.i16() or _first_error(error for _, errors in topics for error in errors)
    offsets = sorted((topic for topic, _ in topics if len(topic)), key=lambda topic: topic.topic)
    return GroupAnswer(error_code=code, offsets=tuple(offsets))


def _topic_offsets(answer: Decoder) -> tuple[TopicOffsets, Sequence[int]]:
    builder, errors = TopicOffsetsBuilder(answer.string()), []
    for _ in range(answer.count()):
        partition, offset, epoch, metadata, code = _row(answer)
        if code:
            errors.append(code)
        elif offset >= 0:
            builder.add(partition, offset, epoch, metadata)
    answer.end()
    return builder.build(), errors


def _row(answer: Decoder) -> tuple[int, int, int, str, int]:
    if len(answer.data) - answer.position >= _ROW.size:
        partition, offset, epoch, length, code, tags = _ROW.unpack_from(answer.data, answer.position)
        if length == _EMPTY_TEXT and tags == 0:
            answer.position += _ROW.size
            return partition, offset, epoch, "", code
    row = (answer.i32(), answer.i64(), answer.i32(), answer.string(), answer.i16())
    answer.end()
    return row


def _put_commits(out: Encoder, topic: TopicOffsets) -> None:
    out.string(topic.topic).array(topic, _put_commit).end()


def _put_commit(out: Encoder, row: tuple[int, int, int, str]) -> None:
    partition, offset, _, metadata = row
    out.i32(partition).i64(offset).i32(-1).string(metadata).end()


def _first_error(codes: Iterable[int]) -> int:
    return next((code for code in codes if code), 0)
