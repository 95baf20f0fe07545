"""Random schedules of faults, drawn from a seed: the same seed draws the same rules for the same topics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from tests.misbehaving_broker.answer_faults import (
    Emptied,
    Failing,
    RecordsCut,
    RecordsFlipped,
    StaleHighWatermark,
    StaleOffsets,
    Throttled,
    WithoutPartitions,
    WithoutTopics,
)
from tests.misbehaving_broker.connection_faults import (
    ClaimedLength,
    CutAfter,
    CutBefore,
    CutWithin,
    Deaf,
    Doubled,
    Garbage,
    Late,
    Lengthened,
    Shortened,
    Swallowed,
    Swapped,
    WrongCorrelation,
)
from tests.misbehaving_broker.rules import Fault, Rule

REQUEST_TIMEOUT_MS = 700
_OUT_OF_RANGE, _NOT_LEADER, _STORAGE, _UNKNOWN_EPOCH, _NOT_AVAILABLE, _UNKNOWN = 1, 6, 56, 75, 78, -1
_NOT_ENOUGH_AFTER_APPEND, _TIMED_OUT = 20, 7
_FAULTS_MAX = 6
_SKIP_MAX = 8
_FOR_EVER = 0.15
_STALE_MAX = 6
_SILENCE = 0.5

_ON_THE_LINE: tuple[Fault, ...] = (
    CutBefore(),
    CutAfter(),
    CutWithin(),
    Swallowed(),
    Deaf(),
    Late(delay_s=REQUEST_TIMEOUT_MS / 1000 * 1.2),
    Late(delay_s=0.1),
    Swapped(),
    Doubled(),
    WrongCorrelation(),
    ClaimedLength(length=-1),
    ClaimedLength(length=2),
    ClaimedLength(length=2**31 - 1),
    ClaimedLength(),
    Garbage(),
    Shortened(by_bytes=3),
    Lengthened(by_bytes=5),
)
_ON_PARTITIONS: tuple[Fault, ...] = (
    Throttled(throttle_ms=15),
    WithoutPartitions(),
    WithoutTopics(),
    Failing(_NOT_LEADER),
    Failing(_UNKNOWN_EPOCH),
    Failing(_STORAGE),
    Failing(_NOT_AVAILABLE),
    Failing(_UNKNOWN),
)
_ON_FETCH: tuple[Fault, ...] = (
    *_ON_PARTITIONS,
    Emptied(),
    StaleHighWatermark(),
    StaleHighWatermark(behind=7),
    Failing(_OUT_OF_RANGE),
    RecordsCut(),
    RecordsCut(within_first=True),
    RecordsFlipped(),
)
_SILENT: tuple[Fault, ...] = (
    Emptied(),
    Throttled(throttle_ms=5),
    WithoutPartitions(),
    WithoutTopics(),
    StaleHighWatermark(),
)
_ON_PRODUCE: tuple[Fault, ...] = (
    *_ON_PARTITIONS,
    Failing(_TIMED_OUT),
    Failing(_TIMED_OUT, heard=True),
    Failing(_NOT_ENOUGH_AFTER_APPEND, heard=True),
    Failing(_NOT_LEADER, heard=True),
)
_ON_LISTING: tuple[Fault, ...] = (*_ON_PARTITIONS, StaleOffsets(by=1), StaleOffsets(by=50))
_ABOUT_PARTITIONS = frozenset({Api.FETCH, Api.PRODUCE, Api.LIST_OFFSETS, Api.OFFSET_FOR_LEADER_EPOCH})
_OTHERS_IN_BACKUP = (Api.METADATA, Api.API_VERSIONS, Api.DESCRIBE_CONFIGS, Api.DESCRIBE_LOG_DIRS)
_OTHERS_IN_RESTORE = (
    *_OTHERS_IN_BACKUP,
    Api.INIT_PRODUCER_ID,
    Api.CREATE_TOPICS,
    Api.FIND_COORDINATOR,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.END_TXN,
    Api.DELETE_RECORDS,
)


def draw_for_backup(chance: random.Random, partitions: Sequence[TopicPartition]) -> list[Rule]:
    rules = [_silence(chance, partitions)] if chance.random() < _SILENCE else []
    return rules + [
        _rule(chance, partitions, _api(chance, Api.FETCH, _OTHERS_IN_BACKUP)) for _ in range(_count(chance))
    ]


def draw_for_restore(chance: random.Random, partitions: Sequence[TopicPartition]) -> list[Rule]:
    """`partitions`: the targets."""
    apis = [_api(chance, Api.PRODUCE, _OTHERS_IN_RESTORE) for _ in range(_count(chance))]
    return [_believable(_rule(chance, partitions, api)) for api in apis]


def _believable(rule: Rule) -> Rule:
    """A leader that tells of a wrong end again and again is believed by a proof: there is nobody else to ask."""
    return replace(rule, times=min(rule.times or 0, _STALE_MAX)) if isinstance(rule.fault, StaleOffsets) else rule


def _count(chance: random.Random) -> int:
    return chance.randint(1, _FAULTS_MAX)


def _api(chance: random.Random, main: Api, others: Sequence[Api]) -> Api:
    """Most faults hit the records, some the questions for offsets, few the rest."""
    kinds = (main, Api.FETCH, Api.LIST_OFFSETS, Api.OFFSET_FOR_LEADER_EPOCH, chance.choice(others))
    return chance.choices(kinds, weights=(55, 20, 10, 5, 10))[0]


def _rule(chance: random.Random, partitions: Sequence[TopicPartition], api: Api) -> Rule:
    """About any partition, a topic, or one partition; once, a few times, or (for records of a partition) for ever."""
    where = chance.choice([None, *partitions]) if api in _ABOUT_PARTITIONS else None
    for_ever = where is not None and api in {Api.FETCH, Api.PRODUCE} and chance.random() < _FOR_EVER
    return Rule(
        fault=_fault(chance, api),
        api=api,
        topic=where and where.topic,
        partition=where and chance.choice([None, where.partition]),
        skip=chance.choice([0, 0, 0, 1, 2, chance.randrange(_SKIP_MAX)]),
        times=None if for_ever else chance.choice([1, 1, 2, 2, 3, 6, 20]),
        probability=chance.choice([1.0, 1.0, 0.3]),
    )


def _silence(chance: random.Random, partitions: Sequence[TopicPartition]) -> Rule:
    """One partition's records are kept from us for a while, without any error."""
    where = chance.choice(partitions)
    return Rule(
        fault=chance.choice(_SILENT),
        api=Api.FETCH,
        topic=where.topic,
        partition=where.partition,
        skip=chance.choice([0, 0, 1, 2]),
        times=chance.choice([2, 4, 8, 30, None]),
    )


def _fault(chance: random.Random, api: Api) -> Fault:
    said = {
        Api.FETCH: _ON_FETCH,
        Api.PRODUCE: _ON_PRODUCE,
        Api.LIST_OFFSETS: _ON_LISTING,
        Api.OFFSET_FOR_LEADER_EPOCH: _ON_PARTITIONS,
    }.get(api, ())
    kinds = [kind for kind in (said, said, _ON_THE_LINE) if kind]
    return chance.choice(chance.choice(kinds))
