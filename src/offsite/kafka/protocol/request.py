"""One request to a broker as a value: API, version, body, and the parser of the answer.

The module also knows the Kafka release of every requirement, so that an error can name the missing release.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Generic, TypeVar

from offsite.kafka.protocol.wire import Decoder

T = TypeVar("T")

_HEADER = struct.Struct(">hhi")
OLDEST_RELEASE = "2.4"
"""The release behind all of offsite's requests except the listed ones."""


class Api(IntEnum):
    """API keys of the requests built by offsite itself."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DESCRIBE_CONFIGS = 32
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    LIST_CONFIG_RESOURCES = 74
    STREAMS_GROUP_HEARTBEAT = 88
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


_WITHOUT_THROTTLE = frozenset(
    {Api.SASL_HANDSHAKE, Api.API_VERSIONS, Api.WRITE_TXN_MARKERS, Api.SASL_AUTHENTICATE, Api.OFFSET_DELETE}
)
"""APIs with answers that do not begin with a throttle time, in the versions that offsite uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """One request, with the parser of the answer.

    `read` gets a decoder behind the answer's throttle time, and reads everything except the body's own tagged fields:
    unread bytes count as damage. `read` may raise `UNREADABLE`, or errors of offsite. `flexible`: as KIP-482 defines
    for the version.
    """

    api: Api
    version: int
    body: bytes
    read: Callable[[Decoder], T]
    flexible: bool = False

    def parse(self, answer: Decoder) -> T:
        """Read the body of the answer, from the beginning to its own tagged fields. The throttle time is passed over:
        brokers wait themselves (KIP-219)."""
        if self.api not in _WITHOUT_THROTTLE:
            answer.i32()
        return self.read(answer)


def request_header(api: int, version: int, correlation_id: int, client_id: str, *, flexible: bool = False) -> bytes:
    """Request header v1, or v2 when flexible (only the empty tagged fields differ)."""
    return _HEADER.pack(api, version, correlation_id) + _header_end(client_id, flexible)


@lru_cache
def _header_end(client_id: str, flexible: bool) -> bytes:  # noqa: FBT001  # a field of the header
    name = client_id.encode()
    return struct.pack(">h", len(name)) + name + (b"\0" if flexible else b"")


_RELEASES: Mapping[tuple[int, int], str] = {
    (Api.ALTER_CLIENT_QUOTAS, 0): "2.6",
    (Api.DESCRIBE_CLIENT_QUOTAS, 0): "2.6",
    (Api.DESCRIBE_USER_SCRAM_CREDENTIALS, 0): "2.7",
    (Api.DESCRIBE_PRODUCERS, 0): "2.8",
    (Api.WRITE_TXN_MARKERS, 1): "2.8",
    (Api.DESCRIBE_TRANSACTIONS, 0): "3.0",
    (Api.LIST_TRANSACTIONS, 0): "3.0",
    (Api.LIST_CONFIG_RESOURCES, 0): "3.7",
    (Api.DESCRIBE_SHARE_GROUP_OFFSETS, 0): "4.1",
    (Api.ALTER_SHARE_GROUP_OFFSETS, 0): "4.1",
    (Api.DELETE_SHARE_GROUP_OFFSETS, 0): "4.1",
}


def api_name(api: int) -> str:
    """Return the name of an API as the protocol guide writes it: `DescribeProducers`; `API 99` for an unknown API."""
    name = next((member.name for member in Api if member == api), "")
    return name.title().replace("_", "") if name else f"API {api}"


def release_of(api: int, version: int) -> str:
    """Return the Kafka release whose brokers brought the version of the API, at the latest."""
    return _RELEASES.get((api, version), OLDEST_RELEASE)
