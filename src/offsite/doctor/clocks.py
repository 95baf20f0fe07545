"""Clocks: compares this machine's clock with the store's and the cluster's, only by fresh writes."""

from __future__ import annotations

from collections.abc import Sequence

from offsite.doctor.check import CheckResult, NotMeasurable, failed, ok, warning
from offsite.doctor.parts import Parts
from offsite.kafka.protocol.logs import list_offsets_request
from offsite.log.range import TopicPartition
from offsite.model.clock import MOST_APART_MS
from offsite.model.units import format_duration

GROUPS_TOPIC = "__consumer_offsets"
ROUNDED_MS = 1_000
"""Object stores report whole seconds."""
NOTICED_MS = 30_000
CURE = "let NTP set the clocks of all machines"


def of_store(parts: Parts) -> CheckResult:
    """The difference between this machine's clock and the store's, measured by the modification time of a fresh
    object."""
    began_ms = parts.clock.now_ms()
    key = parts.probe_key()
    try:
        parts.store.put_if_absent(key, b"")
        ended_ms = parts.clock.now_ms()
        info = parts.store.head(key)
    finally:
        parts.remove_probes()
    if info is None:
        raise NotMeasurable("the time of the test object cannot be read")
    apart_ms = _outside(info.modified_ms, began_ms - ROUNDED_MS, ended_ms + ROUNDED_MS)
    said = _told("the store", apart_ms)
    if abs(apart_ms) > MOST_APART_MS:
        return failed(f"{said}; nothing will be deleted by age", cure=CURE)
    return warning(said, cure=CURE) if abs(apart_ms) > NOTICED_MS else ok(f"{said}, measured with a test object")


def of_cluster(parts: Parts) -> CheckResult:
    """Whether the brokers' clocks are close. Brokers stamp the commits of consumer groups, and can find commits after a
    given time. Kafka has no request for the time itself."""
    topic = parts.router.metadata([GROUPS_TOPIC]).topics.get(GROUPS_TOPIC)
    partitions = (
        [TopicPartition(topic=GROUPS_TOPIC, partition=partition.partition) for partition in topic.partitions]
        if topic
        else []
    )
    if not partitions:
        raise NotMeasurable(
            "no group has committed yet, or the log of groups is not visible: the brokers' time is unknown"
        )
    now_ms = parts.clock.now_ms()
    if ahead := _stamped_since(parts, partitions, now_ms + NOTICED_MS):
        apart_ms = max(ahead) - now_ms
        return warning(_told("a broker", apart_ms), cure=CURE)
    span = format_duration(MOST_APART_MS / 1000)
    if not _stamped_since(parts, partitions, now_ms - MOST_APART_MS):
        raise NotMeasurable(f"no group has committed in the last {span}: the brokers' time is unknown")
    return ok(f"brokers stamped commits of groups within the last {span}, and none in the future")


def _stamped_since(parts: Parts, partitions: Sequence[TopicPartition], time_ms: int) -> list[int]:
    """The timestamps of the first records at or after a time, one for each partition with such a record."""
    shares = parts.router.by_leader(partitions)
    answers = parts.router.call_each({node: list_offsets_request(share, time_ms) for node, share in shares.items()})
    return [
        answer.timestamp_ms
        for by_partition in answers.values()
        for answer in by_partition.values()
        if not answer.error_code and answer.offset >= 0 and answer.timestamp_ms >= time_ms
    ]


def _outside(time_ms: int, start_ms: int, end_ms: int) -> int:
    """How far a time lies after `[start_ms, end_ms]`, negative before, 0 within."""
    return max(0, time_ms - end_ms) + min(0, time_ms - start_ms)


def _told(whose: str, apart_ms: int) -> str:
    if not apart_ms:
        return f"{whose} and this machine have the same time"
    return f"the clock of {whose} is {format_duration(abs(apart_ms) / 1000)} {'ahead' if apart_ms > 0 else 'behind'}"
