"""Tell a deleted topic from a hidden topic by positive answers only.

A list of all topics leaves out deleted topics and topics without the Describe right alike. A request by name tells the
two apart: brokers check the right first (TOPIC_AUTHORIZATION_FAILED), and answer UNKNOWN_TOPIC_OR_PARTITION for topics
missing in the broker's metadata. A broker that has just started may have no metadata yet. So all brokers are asked, and
all answering brokers must agree, twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import (
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from offsite.kafka.protocol.metadata import HIGHEST_VERSION, LOWEST_VERSION, metadata_request
from offsite.kafka.protocol.request import Api
from offsite.model.clock import Clock
from offsite.model.errors import KafkaUnavailable
from offsite.model.journal import decided

ASKED_AGAIN_AFTER_S = 2.0
"""A starting broker has the cluster's metadata well within this time."""
_UNSAID = -1


class PresenceState(Enum):
    """The answer of all brokers about a topic. `UNCLEAR`: the brokers disagree, or answer something else."""

    THERE = "there"
    DELETED = "deleted"
    DENIED = "denied"
    UNCLEAR = "unclear"


def find_presence(router: Router, clock: Clock, names: Collection[str]) -> Mapping[str, PresenceState]:
    """Name → state of the topic. Raises `KafkaUnavailable` when no broker answers."""
    if not names:
        return {}
    states = _ask_all(router, names)
    absent = sorted(name for name, presence in states.items() if presence is PresenceState.DELETED)
    if absent:
        clock.sleep(ASKED_AGAIN_AFTER_S)
        again = _ask_all(router, absent)
        states |= {name: again[name] for name in absent}
    return states


def presence_now(router: Router, name: str) -> PresenceState:
    """Ask all brokers once about a topic. `DELETED` only when every broker answers so. A broker that has just started
    may wrongly answer `DELETED`; a broker that works with the topic never does. Raises `KafkaUnavailable` when no
    broker answers."""
    codes: set[int] = set()
    for node_id in sorted(router.metadata([]).brokers):
        try:
            codes.add(_ask(router, node_id, [name]).get(name, _UNSAID))
        except KafkaUnavailable:
            codes.add(_UNSAID)
    return _presence(codes)


def _ask_all(router: Router, names: Collection[str]) -> dict[str, PresenceState]:
    codes: dict[str, set[int]] = {name: set() for name in names}
    error: KafkaUnavailable | None = None
    answered = False
    for node_id in sorted(router.metadata([]).brokers):
        try:
            answer = _ask(router, node_id, names)
        except KafkaUnavailable as failure:
            error = failure
            decided("not_asked", why=failure.message, broker=node_id, what="topics that are no longer listed")
            continue
        answered = True
        for name, code in answer.items():
            codes[name].add(code)
    if not answered and error is not None:
        raise error
    return {name: _presence(topic_codes) for name, topic_codes in codes.items()}


def _ask(router: Router, node_id: int, names: Collection[str]) -> Mapping[str, int]:
    with router.lease_broker(node_id) as connection:
        version = connection.highest_version(Api.METADATA, LOWEST_VERSION, HIGHEST_VERSION)
        topics = connection.call(metadata_request(sorted(names), version=version)).topics
    return {name: topic.error_code for name, topic in topics.items() if name in names}


def _presence(codes: set[int]) -> PresenceState:
    if codes & {NONE, LEADER_NOT_AVAILABLE}:
        return PresenceState.THERE
    if TOPIC_AUTHORIZATION_FAILED in codes:
        return PresenceState.DENIED
    return PresenceState.DELETED if codes == {UNKNOWN_TOPIC_OR_PARTITION} else PresenceState.UNCLEAR
