"""A real application of a classic group, and one of a consumer group (KIP-848), after a restore on each Kafka: it goes
on where it had committed, skips nothing, and reads again only what it had read and not committed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from offsite.groups.report import show_groups
from offsite.model.selection import GroupPatterns, parse_selection
from offsite.repository.repository import Repository
from offsite.restore.request import RestoreRequest
from offsite.sandbox import KNOWN_VERSIONS, SandboxSettings
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups, delete_group, new_group, numbered, run_request
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.versions.test_round_trip import await_coordinator
from tests.shared_brokers import running

PARTITIONS, RECORDS, COMMITTED, UNCOMMITTED = 2, 200, 150, 30
_IDLE_S, _LIMIT_S = 5.0, 60.0
_TELLS_KINDS, _HAS_CONSUMER_GROUPS = (3, 8), (4, 0)

pytestmark = pytest.mark.soak


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    cluster: Cluster
    version: tuple[int, ...]


@pytest.fixture(scope="module", params=KNOWN_VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versioned]:
    version: str = request.param
    with running(tmp_path_factory.mktemp(version), SandboxSettings(kafka_version=version)) as (_, info):
        cluster = Cluster(info.bootstrap)
        await_coordinator(cluster)
        yield Versioned(cluster=cluster, version=tuple(map(int, version.split("."))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One member of a group at a time. Where the group has no offset it begins at the first record."""

    cluster: Cluster
    group: str
    topic: str
    protocol: str

    def read(self, most: int = RECORDS * PARTITIONS, *, commits: bool = True) -> list[bytes]:
        """What it read until it had `most`, or nothing came for a while; committed at the end, if it `commits`."""
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.cluster.bootstrap,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        member = Consumer(settings)
        member.subscribe([self.topic])
        values: list[bytes] = []
        last_s = start_s = time.monotonic()
        while len(values) < most and time.monotonic() - last_s < (_IDLE_S if values else _LIMIT_S):
            message = member.poll(0.2)
            if message is None:
                continue
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
            last_s = time.monotonic()
            assert last_s - start_s < _LIMIT_S, f"{len(values)} so far"
        if commits:
            member.commit(asynchronous=False)
        member.close()
        return values


@pytest.mark.parametrize("offsets", ["auto", "translate"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_application_goes_on_after_a_restore(kafka: Versioned, tmp_path: Path, protocol: str, offsets: str) -> None:
    if protocol == "consumer" and kafka.version < _HAS_CONSUMER_GROUPS:
        pytest.skip("Kafka has had consumer groups since 4.0")
    cluster = kafka.cluster
    site = Groups(cluster, cluster, Repository.init(open_store(str(tmp_path / "repository"))), InlineRunner())
    topic, group = cluster.make_topic(partitions=PARTITIONS), new_group()
    for partition in range(PARTITIONS):
        site.site.produce(topic, numbered(RECORDS, start=1000 * partition, partition=partition))
    records = {b"value %d" % (1000 * partition + n) for partition in range(PARTITIONS) for n in range(RECORDS)}
    application = Application(cluster=cluster, group=group, topic=topic, protocol=protocol)
    committed = application.read(COMMITTED)
    uncommitted = application.read(UNCOMMITTED, commits=False)
    assert (len(committed), len(uncommitted)) == (COMMITTED, UNCOMMITTED)
    assert site.back_up(topic).complete
    kind = protocol if kafka.version >= _TELLS_KINDS else ""
    shown = show_groups(site.site.backup, groups=GroupPatterns(include=(group,))).groups
    assert [shown_group.kind for shown_group in shown] == [kind]
    delete_group(cluster, group)  # with its topic it goes by itself, sooner or later
    cluster.admin.delete_topics([topic])
    wait_until(lambda: topic not in cluster.admin.topics())
    request = RestoreRequest(
        selection=parse_selection([topic]), offsets=offsets, groups=GroupPatterns(include=(group,))
    )
    result = run_request(site, request)
    assert result.verified
    assert result.groups is not None
    assert (result.groups.complete, dict(result.groups.kinds), result.groups.reads_again) == (True, {group: kind}, ())
    after = application.read()
    assert {*committed, *after} == records, "nothing is skipped"
    assert Counter(committed) + Counter(after) == Counter(records), "nothing that was committed is read again"
