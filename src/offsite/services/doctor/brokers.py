"""Brokers: at the addresses given by the user, at their advertised addresses, and from Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from offsite.kafka.config.config import Address
from offsite.kafka.protocol.metadata import Broker
from offsite.model.errors import OffsiteError
from offsite.model.hosts import is_loopback
from offsite.model.named import named
from offsite.services.doctor.check import NAMED_MAX, Finding, NotMeasurable, failed, of_error, ok, warning
from offsite.services.doctor.parts import Parts
from offsite.services.doctor.reach import Reached, SeenByWorker, reach_each, reach_from_worker

BROKERS_MAX = 200
"""Brokers probed at most. More do not occur in practice, and an answer may name any number."""
WORKER_TASKS_MAX = 8
ADVERTISED = (
    "set advertised.listeners of that broker to a name and port that this machine and the Spark workers reach: clients "
    "go on from the first broker by the names that brokers tell"
)


def configuration(parts: Parts) -> Finding:
    """Whether the configuration is usable. Raises `BadKafkaConfig`."""
    cluster = parts.cluster
    config = cluster.config
    said = f"{len(config.bootstrap)} bootstrap addresses, {config.security_protocol}"
    if cluster.warnings:
        return warning(f"{said}; {'; '.join(cluster.warnings[:NAMED_MAX])}", cure="take them out, or see the how-to")
    if config.overheard:
        said = f"{said}: the password or token goes over the network unencrypted"
        return warning(said, cure="use security.protocol=SASL_SSL, or SCRAM")
    return ok(said)


def bootstrap(parts: Parts) -> Finding:
    """Whether the given brokers answer this machine."""
    found = reach_each(parts.config, parts.config.bootstrap[:BROKERS_MAX], parts.clock)
    wrong = [each.error for each in found.values() if each.error is not None]
    if len(wrong) == len(found):
        return of_error(wrong[0])
    said = f"{len(found) - len(wrong)} of {len(found)} named addresses answer"
    if wrong:
        return warning(f"{said}; {_named(wrong)}", cure="take out of --bootstrap what is no broker any more")
    return ok(said)


def advertised(parts: Parts) -> Finding:
    """Whether each broker is reachable at its advertised address, and belongs to the same cluster."""
    metadata = parts.metadata
    brokers = _some(metadata.brokers.values())
    if not brokers:
        return failed("the cluster names no broker", cure="ask again: it may be starting")
    found = reach_each(parts.config, [each.address for each in brokers], parts.clock)
    wrong = [
        f"broker {each.node_id} advertises {each.address}: {problem}"
        for each in brokers
        if (problem := _problem(found[each.address], metadata.cluster_id))
    ]
    if wrong:
        cure = ADVERTISED if not _is_own(parts, brokers) else f"{ADVERTISED}; localhost is another machine for each"
        return failed(named(wrong, most=NAMED_MAX, of="brokers"), cure=cure)
    return ok(f"{_counted(brokers, len(metadata.brokers))} answer by the names that they advertise")


def understood(parts: Parts) -> Finding:
    """Whether the brokers support offsite's requests."""
    brokers = _some(parts.metadata.brokers.values())
    found = reach_each(parts.config, [each.address for each in brokers], parts.clock).values()
    answered = [each for each in found if each.error is None]
    if not answered:
        raise NotMeasurable("no broker answers")
    if lacking := sorted({each.lacking for each in answered if each.lacking}):
        return failed(
            named(lacking, most=NAMED_MAX),
            cure="use brokers of Kafka 2.4 or newer; for newer ones than this offsite knows look for a newer offsite",
        )
    if without := sorted({lack for each in answered for lack in each.doing_without}):
        cure = "with brokers of Kafka 3.0 or newer transactions are replayed, and all settings are kept"
        return warning(named(without, most=2, of="requests"), cure=cure)
    return ok(f"{len(answered)} of {len(found)} brokers understand all that offsite asks (Kafka 3.0 or newer)")


def from_workers(parts: Parts) -> Finding:
    """Whether Spark tasks reach each broker, with the same configuration."""
    brokers = _some(parts.metadata.brokers.values())
    addresses = tuple(sorted({each.address for each in brokers}))
    tasks = range(min(WORKER_TASKS_MAX, parts.runner.slots))
    seen = parts.runner.run(tasks, partial(reach_from_worker, config=parts.config, addresses=addresses))
    hosts = sorted({each.host for each in seen})
    if wrong := sorted(set(_unreached(seen))):
        cure = "let the machines of the workers resolve and reach the names that the brokers advertise"
        return failed(named(wrong, most=NAMED_MAX), cure=cure)
    if not seen or not addresses:
        return failed("no task has tried a broker", cure="ask again")
    return ok(f"{_counted(brokers, len(parts.metadata.brokers))} answer workers on {named(hosts, most=NAMED_MAX)}")


def _unreached(seen: Iterable[SeenByWorker]) -> Iterable[str]:
    for worker in seen:
        for each in worker.reached:
            if each.error is not None:
                yield f"a worker on {worker.host}: {each.error.message}"


def _some(brokers: Iterable[Broker]) -> Sequence[Broker]:
    return sorted(brokers, key=lambda each: each.node_id)[:BROKERS_MAX]


def _problem(found: Reached, cluster_id: str) -> str:
    if found.error is not None:
        return found.error.message
    if cluster_id and found.cluster_id and found.cluster_id != cluster_id:
        return f"cluster {found.cluster_id} answers there, and it should be {cluster_id}"
    return ""


def _is_own(parts: Parts, brokers: Iterable[Broker]) -> bool:
    """Whether brokers advertise localhost to a remote client."""
    return any(is_loopback(each.address.host) for each in brokers) and not any(map(_stays_here, parts.config.bootstrap))


def _stays_here(address: Address) -> bool:
    return is_loopback(address.host)


def _counted(brokers: Sequence[Broker], of: int) -> str:
    return f"{len(brokers)} brokers" if len(brokers) == of else f"the first {len(brokers)} of {of} brokers"


def _named(errors: Sequence[OffsiteError]) -> str:
    return named([each.message for each in errors], most=NAMED_MAX, of="addresses")
