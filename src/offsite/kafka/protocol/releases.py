"""With which Kafka release brokers learned what offsite asks of them, so that an old one is told by name."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.kafka.protocol.request import Api

OLDEST_RELEASE = "2.4"
"""What all of offsite's requests go back to, but for those below."""
_RELEASES: Mapping[tuple[int, int], str] = {
    (Api.ALTER_CLIENT_QUOTAS, 0): "2.6",
    (Api.DESCRIBE_CLIENT_QUOTAS, 0): "2.6",
    (Api.DESCRIBE_USER_SCRAM_CREDENTIALS, 0): "2.7",
    (Api.DESCRIBE_PRODUCERS, 0): "2.8",
    (Api.DESCRIBE_TRANSACTIONS, 0): "3.0",
}


def api_name(api: int) -> str:
    """As the protocol guide writes it: `DescribeProducers`; `API 99` for one that offsite does not know."""
    known = next((each.name for each in Api if each == api), "")
    return known.title().replace("_", "") if known else f"API {api}"


def release_of(api: int, version: int) -> str:
    """The Kafka release whose brokers first had that version of the API, at the latest."""
    return _RELEASES.get((api, version), OLDEST_RELEASE)
