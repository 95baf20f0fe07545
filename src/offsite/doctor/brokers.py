"""Brokers: at the addresses given by the user, at their advertised addresses, and from Spark's workers.

A probe of one broker finds reachability, cluster id, and supported requests. A probe runs on the driver and in Spark
tasks alike, with the same configuration, so the results are comparable.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from offsite.doctor.check import NAMED_MAX, CheckResult, NotMeasurable, failed, from_error, map_within, ok, warning
from offsite.doctor.parts import Parts
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.coordinators import LOWEST_VERSION as FIND_VERSION
from offsite.kafka.net.connection import Connection
from offsite.kafka.protocol import configs, fetch, logs, metadata, produce
from offsite.kafka.protocol.groups import FETCH_VERSIONS, LIST_VERSIONS
from offsite.kafka.protocol.metadata import Broker
from offsite.kafka.protocol.request import Api
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import KafkaTimeout, KafkaUnavailable, OffsiteError
from offsite.model.machine import is_loopback
from offsite.model.names import amount, named

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

BROKERS_MAX = 200
"""Brokers probed at most. More do not occur in practice, and an answer may name any number."""
WORKER_TASKS_MAX = 8
ADVERTISED = (
    "set advertised.listeners of that broker to a name and port that this machine and the Spark workers can reach: "
    "after the first broker, clients use the names that brokers advertise"
)


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


def configuration(parts: Parts) -> CheckResult:
    """Whether the configuration is usable. Raises `BadKafkaConfig`."""
    cluster = parts.cluster
    config = cluster.config
    said = f"{len(config.bootstrap)} bootstrap addresses, {config.security_protocol}"
    if cluster.warnings:
        return warning(
            f"{said}; {'; '.join(cluster.warnings[:NAMED_MAX])}",
            cure="correct or remove these settings, or see the how-to",
        )
    if config.cleartext_hosts:
        said = f"{said}: the password or token goes over the network unencrypted"
        return warning(said, cure="use security.protocol=SASL_SSL, or SCRAM")
    return ok(said)


def bootstrap(parts: Parts) -> CheckResult:
    """Whether the given brokers answer this machine."""
    probes = reach_each(parts.config, parts.config.bootstrap[:BROKERS_MAX], parts.clock)
    wrong = [probe.error for probe in probes.values() if probe.error is not None]
    if len(wrong) == len(probes):
        return from_error(wrong[0])
    said = f"{len(probes) - len(wrong)} of {len(probes)} named addresses answer"
    if wrong:
        return warning(f"{said}; {_named(wrong)}", cure="remove addresses that are no longer brokers from --bootstrap")
    return ok(said)


def advertised(parts: Parts) -> CheckResult:
    """Whether each broker is reachable at its advertised address, and belongs to the same cluster."""
    metadata = parts.metadata
    brokers = _some(metadata.brokers.values())
    probes = reach_each(parts.config, [broker.address for broker in brokers], parts.clock)
    wrong = [
        f"broker {broker.node_id} advertises {broker.address}: {problem}"
        for broker in brokers
        if (problem := _problem(probes[broker.address], metadata.cluster_id))
    ]
    if wrong:
        cure = (
            ADVERTISED
            if not _is_own(parts, brokers)
            else f"{ADVERTISED}; localhost means a different machine on each host"
        )
        return failed(named(wrong, most=NAMED_MAX, of="brokers"), cure=cure)
    return ok(f"{_counted(brokers, len(metadata.brokers))} answer at their advertised names")


def understood(parts: Parts) -> CheckResult:
    """Whether the brokers support offsite's requests."""
    brokers = _some(parts.metadata.brokers.values())
    probes = reach_each(parts.config, [broker.address for broker in brokers], parts.clock).values()
    answered = [probe for probe in probes if probe.error is None]
    if not answered:
        raise NotMeasurable("no broker answers")
    if lacking := sorted({probe.lacking for probe in answered if probe.lacking}):
        return failed(
            named(lacking, most=NAMED_MAX),
            cure=(
                "use brokers with Kafka 2.4 or newer; if the brokers are newer than this offsite supports, upgrade "
                "offsite"
            ),
        )
    if without := sorted({lack for probe in answered for lack in probe.doing_without}):
        cure = "with brokers of Kafka 3.0 or newer transactions are replayed, and all settings are kept"
        return warning(named(without, most=2, of="requests"), cure=cure)
    return ok(f"{len(answered)} of {len(probes)} brokers support all requests of offsite (Kafka 3.0 or newer)")


def from_workers(parts: Parts) -> CheckResult:
    """Whether Spark tasks reach each broker, with the same configuration."""
    brokers = _some(parts.metadata.brokers.values())
    addresses = tuple(sorted({broker.address for broker in brokers}))
    tasks = range(min(WORKER_TASKS_MAX, parts.runner.slots))
    workers = parts.runner.run(tasks, partial(reach_from_worker, config=parts.config, addresses=addresses))
    hosts = sorted({worker.host for worker in workers})
    if wrong := sorted(set(_unreached(workers))):
        cure = "make the advertised names of the brokers resolvable and reachable from the machines of the workers"
        return failed(named(wrong, most=NAMED_MAX), cure=cure)
    if not workers or not addresses:
        return failed("no task tested a broker", cure="run offsite doctor again")
    return ok(f"{_counted(brokers, len(parts.metadata.brokers))} answer workers on {named(hosts, most=NAMED_MAX)}")


def _unreached(workers: Iterable[WorkerProbes]) -> Iterable[str]:
    for worker in workers:
        for probe in worker.probes:
            if probe.error is not None:
                yield f"a worker on {worker.host}: {probe.error.message}"


def _some(brokers: Iterable[Broker]) -> Sequence[Broker]:
    return sorted(brokers, key=lambda broker: broker.node_id)[:BROKERS_MAX]


def _problem(probe: AddressProbe, cluster_id: str) -> str:
    if probe.error is not None:
        return probe.error.message
    if cluster_id and probe.cluster_id and probe.cluster_id != cluster_id:
        return f"cluster {probe.cluster_id} answers there instead of cluster {cluster_id}"
    return ""


def _is_own(parts: Parts, brokers: Iterable[Broker]) -> bool:
    """Whether brokers advertise localhost to a remote client."""
    return any(is_loopback(broker.address.host) for broker in brokers) and not any(
        map(_stays_here, parts.config.bootstrap)
    )


def _stays_here(address: BrokerAddress) -> bool:
    return is_loopback(address.host)


def _counted(brokers: Sequence[Broker], of: int) -> str:
    return amount(len(brokers), "broker") if len(brokers) == of else f"the first {len(brokers)} of {of} brokers"


def _named(errors: Sequence[OffsiteError]) -> str:
    return named([error.message for error in errors], most=NAMED_MAX, of="errors")
