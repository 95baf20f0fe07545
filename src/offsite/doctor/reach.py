"""Probes one broker: reachability, cluster id, supported requests.

Runs on the driver and in Spark tasks alike, with the same configuration, so the results are comparable.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from offsite.doctor.check import map_within
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.coordinators import LOWEST_VERSION as FIND_VERSION
from offsite.kafka.net.connection import Connection
from offsite.kafka.protocol import configs, fetch, logs, metadata, produce
from offsite.kafka.protocol.groups import FETCH_VERSIONS, LIST_VERSIONS
from offsite.kafka.protocol.request import Api
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaTimeout, KafkaUnavailable, OffsiteError

ANYBODY_S = 25.0
"""Seconds for all brokers together: a connection, a login and two answers, several brokers at a time."""
_NEEDED = {
    Api.METADATA: (metadata.LOWEST_VERSION, metadata.HIGHEST_VERSION),
    Api.FETCH: (fetch.NAME_VERSION, fetch.NAME_VERSION),
    Api.LIST_OFFSETS: (logs.LIST_OFFSETS_VERSION, logs.LIST_OFFSETS_VERSION),
    Api.OFFSET_FOR_LEADER_EPOCH: (logs.EPOCH_ENDS_VERSION, logs.EPOCH_ENDS_VERSION),
    Api.DESCRIBE_CONFIGS: (configs.DESCRIBE_VERSION, configs.DESCRIBE_VERSION),
    Api.FIND_COORDINATOR: (FIND_VERSION, FIND_VERSION),
    Api.LIST_GROUPS: LIST_VERSIONS,
    Api.OFFSET_FETCH: FETCH_VERSIONS,
    Api.PRODUCE: (produce.VERSION, produce.VERSION),
    Api.CREATE_TOPICS: (metadata.CREATE_VERSION, metadata.CREATE_VERSION),
    Api.INCREMENTAL_ALTER_CONFIGS: (configs.ALTER_VERSION, configs.ALTER_VERSION),
}
"""Requests that backups and restores cannot do without."""
_OPTIONAL = {
    Api.DESCRIBE_CLIENT_QUOTAS: (0, 0),
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    Api.DESCRIBE_PRODUCERS: (0, 0),
    Api.DESCRIBE_TRANSACTIONS: (0, 0),
    Api.LIST_TRANSACTIONS: (0, 0),
}
"""Further requests for consistent cuts, replayed transactions and the cluster's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressProbe:
    """The probe of an address. `error`: why no broker answered, None after an answer. The broker belongs to
    `cluster_id`, lacks the necessary request in `lacking`, and lacks the optional requests in `doing_without`."""

    address: BrokerAddress
    error: OffsiteError | None = None
    cluster_id: str = ""
    lacking: str = ""
    doing_without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProbes:
    """The probes of one Spark task on `host`."""

    host: str
    probes: tuple[AddressProbe, ...]


def reach(config: KafkaConfig, address: BrokerAddress) -> AddressProbe:
    """Connect to `address`, log in, and request the cluster id. Raises nothing."""
    try:
        with closing(Connection.open(config, address)) as connection:
            version = connection.highest_version(Api.METADATA, metadata.LOWEST_VERSION, metadata.HIGHEST_VERSION)
            cluster = connection.call(metadata.metadata_request([], version=version))
            return AddressProbe(
                address=address,
                cluster_id=cluster.cluster_id,
                lacking=next(filter(None, (_lack(connection, api, *_NEEDED[api]) for api in _NEEDED)), ""),
                doing_without=tuple(filter(None, (_lack(connection, api, *_OPTIONAL[api]) for api in _OPTIONAL))),
            )
    except OffsiteError as error:
        return AddressProbe(address=address, error=error)
    except (OSError, UnicodeError) as error:  # an unresolvable name
        return AddressProbe(
            address=address, error=KafkaUnavailable(f"{address} cannot be reached: {type(error).__name__}")
        )


def reach_each(
    config: KafkaConfig, addresses: Iterable[BrokerAddress], clock: Clock
) -> Mapping[BrokerAddress, AddressProbe]:
    """Address → probe; several addresses at a time, `ANYBODY_S` in all."""
    targets = list(addresses)
    probes = map_within(lambda address: reach(config, address), targets, limit_s=ANYBODY_S, clock=clock)
    return {address: probes.get(address) or _late(address) for address in targets}


def reach_from_worker(_: int, *, config: KafkaConfig, addresses: tuple[BrokerAddress, ...]) -> WorkerProbes:
    """Probe all addresses from a Spark task."""
    probes = reach_each(config, addresses, SystemClock())
    return WorkerProbes(host=platform.node(), probes=tuple(probes.values()))


def _lack(connection: Connection, api: Api, lowest: int, highest: int) -> str:
    """The missing request, empty if supported."""
    try:
        connection.highest_version(api, lowest, highest)
    except KafkaUnavailable as error:  # too old, or too new
        return error.message
    return ""


def _late(address: BrokerAddress) -> AddressProbe:
    return AddressProbe(address=address, error=KafkaTimeout(f"{address} did not answer within {ANYBODY_S:.0f} s"))
