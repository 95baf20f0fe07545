"""Names of configured resources besides topics: groups and client metrics subscriptions (ListConfigResources, KIP-1142;
before Kafka 4.1 ListClientMetricsResources, KIP-1000, with subscriptions alone)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder

LIST_VERSIONS = (0, 1)
_TYPES_VERSION = 1
CLIENT_METRICS, GROUP = 16, 32
"""Types of resources."""


def config_resources_request(version: int) -> Request[Mapping[int, Sequence[str]]]:
    """Request the names of resources with settings, by type. Raises the mapped error of the answer."""
    out = Encoder(flexible=True)
    if version >= _TYPES_VERSION:
        out.array([CLIENT_METRICS, GROUP], Encoder.i8)

    def parse(answer: Decoder) -> Mapping[int, Sequence[str]]:
        answer.i32()  # throttle time
        code, resources = answer.i16(), answer.array(lambda resource: _resource(resource, version))
        if code:
            raise broker_error(code, "listing what has settings")
        return {kind: sorted(name for name, of in resources if of == kind) for kind in (CLIENT_METRICS, GROUP)}

    return Request(api=Api.LIST_CONFIG_RESOURCES, version=version, body=out.end().done(), parse=parse, flexible=True)


def _resource(answer: Decoder, version: int) -> tuple[str, int]:
    name, kind = answer.string(), answer.i8() if version >= _TYPES_VERSION else CLIENT_METRICS
    answer.end()
    return name, kind
