"""Find the coordinators of groups and transactional ids (the FindCoordinator API). Many keys go into one request.
Before Kafka 3.0 (KIP-699) every key needs a request; all requests are sent before the first answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder

GROUP_KEY, TRANSACTION_KEY = 0, 1
LOWEST_VERSION, HIGHEST_VERSION = 3, 4
_MANY_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNode:
    """A coordinator's node id, or -1 with an error code."""

    node_id: int
    error_code: int


def find_coordinators(router: Router, keys: Sequence[str], *, kind: int = GROUP_KEY) -> Mapping[str, CoordinatorNode]:
    """Ask any broker for the coordinators of groups, or with `TRANSACTION_KEY` of transactional ids.

    Raises `KafkaUnavailable`.
    """
    with router.lease_any() as connection:
        version = connection.highest_version(Api.FIND_COORDINATOR, LOWEST_VERSION, HIGHEST_VERSION)
        if version >= _MANY_VERSION:
            return connection.call(find_coordinators_request(keys, kind=kind))
        requests = {key: find_coordinator_request(key, kind=kind) for key in keys}
        for request in requests.values():
            connection.post(request)
        return {key: connection.collect(request) for key, request in requests.items()}


def find_coordinators_request(keys: Sequence[str], *, kind: int) -> Request[Mapping[str, CoordinatorNode]]:
    body = Encoder(flexible=True).i8(kind).array(keys, Encoder.string).end().done()

    def parse(answer: Decoder) -> Mapping[str, CoordinatorNode]:
        answer.i32()  # throttle time
        return dict(answer.array(_read_coordinator))

    return Request(api=Api.FIND_COORDINATOR, version=HIGHEST_VERSION, body=body, parse=parse, flexible=True)


def find_coordinator_request(key: str, *, kind: int) -> Request[CoordinatorNode]:
    body = Encoder(flexible=True).string(key).i8(kind).end().done()

    def parse(answer: Decoder) -> CoordinatorNode:
        answer.i32()  # throttle time
        code = answer.i16()
        answer.nullable_string()  # error message
        coordinator = CoordinatorNode(node_id=answer.i32(), error_code=code)
        answer.string()  # host and port are known from the metadata
        answer.i32()
        return coordinator

    return Request(api=Api.FIND_COORDINATOR, version=LOWEST_VERSION, body=body, parse=parse, flexible=True)


def _read_coordinator(answer: Decoder) -> tuple[str, CoordinatorNode]:
    key, node_id = answer.string(), answer.i32()
    answer.string()  # host and port are known from the metadata
    answer.i32()
    coordinator = CoordinatorNode(node_id=node_id, error_code=answer.i16())
    answer.nullable_string()  # error message
    answer.end()
    return key, coordinator
