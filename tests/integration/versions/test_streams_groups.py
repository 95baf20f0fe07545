"""A real Kafka Streams application of the streams protocol (KIP-1071) after a restore, by release of the brokers: where
it goes on, where it is refused, and what the plan said before. Nothing is skipped, and nothing is passed on twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from offsite.demo.data import read_topic
from offsite.kafka.cluster import connect
from offsite.kafka.groups import StreamsSupport
from offsite.log.group_offsets import GroupOffsets, TopicOffsetsBuilder
from offsite.model.errors import KafkaUnavailable
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.repository.repository import Repository
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import Sandbox, SandboxInfo, SandboxSettings
from offsite.sandbox.jars import run_tool
from offsite.stores.open_store import open_store
from tests.fetched_tools import NoTool
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups, numbered
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.shared_brokers import running
from tests.streams.passes import Passes, PassesProcess

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

GROUPS_LOG = "__consumer_offsets"
SUPPORT = {
    "4.1.1": StreamsSupport.REFUSES,
    "4.2.0": StreamsSupport.MAY_FAIL,
    "4.2.2": StreamsSupport.MAY_FAIL,
    "4.4.0": StreamsSupport.CONVERTS,
}
_PREVIEW = {
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
}
_QUICK = {
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
}
_COMPACTING = {
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
}
PARTITIONS = 3
_PASS_S, _END_S = 60, 60
_LOAD_S, _COMPACTIONS_S = 90, 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    sandbox: Sandbox
    info: SandboxInfo
    settings: SandboxSettings
    cluster: Cluster

    @property
    def version(self) -> str:
        return self.info.kafka_version

    def restarted(self) -> Cluster:
        self.sandbox.stop()
        return Cluster(self.sandbox.start(settings=self.settings, owned=True).bootstrap)

    def errors(self) -> list[str]:
        """What went wrong, as the broker logs it: the lines of errors, and the causes below them."""
        lines = Path(self.info.dir, "kafka.log").read_text(errors="replace").splitlines()
        return [line for line in lines if " ERROR " in line or "Exception: " in line]


@pytest.fixture(scope="module", params=SUPPORT)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    version: str = request.param
    preview = _PREVIEW if version.startswith("4.1.") else {}
    settings = SandboxSettings(kafka_version=version, properties=_QUICK | _COMPACTING | preview)
    with running(tmp_path_factory.mktemp(version), settings) as (sandbox, info):
        if preview:
            feature = ["upgrade", "--feature", "streams.version=1"]
            run_tool("org.apache.kafka.tools.FeatureCommand", ["--bootstrap-server", info.bootstrap, *feature])
        yield Broker(sandbox=sandbox, info=info, settings=settings, cluster=Cluster(info.bootstrap))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The application was backed up with its group, lost with its topics, and restored; it has not been started."""

    groups: Groups
    application: Passes
    plan: PlannedRestore

    def kind(self) -> str:
        listed = self.groups.source.admin.groups.list()
        return next((group.kind for group in listed if group.group == self.application.application), "")

    def order(self, count: int, *, start: int, partition: int) -> None:
        self.groups.site.produce(self.application.orders, numbered(count, start=start, partition=partition))

    def go_on(self, protocol: str) -> None:
        """Run the application until it has passed on all orders; each exactly once."""
        with self.application.process(protocol) as process:
            await_passed(self.application, process)
            process.stop()
        await_empty(self.groups.source, self.application)
        assert passed(self.application) == ordered(self.application)


def values(application: Passes, topic: str) -> Counter[bytes | None]:
    parts = read_topic(application.bootstrap, topic)
    return Counter(record.value for part in parts.values() for record in part)


def ordered(application: Passes) -> Counter[bytes | None]:
    return values(application, application.orders)


def passed(application: Passes) -> Counter[bytes | None]:
    return values(application, application.passed)


def await_passed(application: Passes, process: PassesProcess) -> None:
    wait_until(
        lambda: process.is_over() or passed(application).total() >= ordered(application).total(),
        limit_s=_PASS_S,
        every_s=0.3,
    )
    assert not process.is_over(), process.said()[-3000:]


def await_empty(cluster: Cluster, application: Passes) -> None:
    def is_empty() -> bool:
        listed = {group.group: group.state for group in cluster.admin.groups.list()}
        return listed.get(application.application, "") in {"Empty", "Dead", ""}

    wait_until(is_empty, limit_s=_END_S, every_s=0.3)


@pytest.fixture
def restored(broker: Broker, tmp_path: Path) -> Restored:
    cluster = broker.cluster
    groups = Groups(cluster, cluster, Repository.init(open_store(str(tmp_path / "repository"))), InlineRunner())
    orders, target = (cluster.make_topic(partitions=PARTITIONS) for _ in range(2))
    application = Passes(
        bootstrap=cluster.bootstrap,
        application=f"app-{orders}",
        orders=orders,
        passed=target,
        version=broker.version,
    )
    for partition in range(PARTITIONS):
        groups.site.produce(orders, numbered(20, start=100 * partition, partition=partition))
    try:
        with application.process("streams") as process:
            await_passed(application, process)
            process.stop()
    except NoTool as error:
        pytest.skip(str(error))
    await_empty(cluster, application)
    groups.back_up(orders, target)
    assert groups.site.backup.sound_state().groups
    cluster.admin.delete_topics([orders, target])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_consumer_groups([application.application])[application.application].result()
    request = RestoreRequest(selection=parse_selection([orders, target]), groups=ALL_GROUPS)
    plan = prepare_restore(groups.site.backup, cluster.admin, request)
    assert run_restore(plan, cluster=connect(cluster.bootstrap, None), runner=groups.site.spark).verified
    return Restored(groups=groups, application=application, plan=plan)


def test_the_application_goes_on_where_the_plan_says_so_and_dies_where_it_warns(
    broker: Broker, restored: Restored
) -> None:
    support = SUPPORT[broker.version]
    assert set(broker.cluster.admin.groups.streams_support().values()) == {support}
    assert restored.plan.outlook is not None
    notes = " ".join(restored.plan.outlook.notes)
    assert (restored.application.application in notes) == (support is not StreamsSupport.CONVERTS)
    assert restored.kind() == "classic"
    restored.order(10, start=1000, partition=0)
    if support is StreamsSupport.REFUSES:
        with restored.application.process("streams") as process:
            wait_until(process.is_over, limit_s=_END_S, every_s=0.3)
            assert "not a streams group" in process.said()
        assert "group.protocol=classic" in notes
        restored.go_on("classic")
        return
    restored.go_on("streams")
    assert restored.kind() == "streams"


def test_a_converted_group_is_loaded_again_after_a_compaction_since_4_2_1(broker: Broker, restored: Restored) -> None:
    """KAFKA-20254. In 4.2.0 the whole partition of `__consumer_offsets` is lost with the group."""
    if SUPPORT[broker.version] is StreamsSupport.REFUSES:
        pytest.skip("it converts no group")
    restored.order(10, start=1000, partition=0)  # the offsets of other partitions stay as they were restored
    restored.go_on("streams")
    application = restored.application
    assert loads_again(broker, application), "nothing was compacted yet"
    compact_groups_log(broker, application)
    assert loads_again(broker, application) == (broker.version != "4.2.0")


def loads_again(broker: Broker, application: Passes) -> bool:
    """Whether a restarted broker loads the application's group; it says in its log that it cannot."""
    cluster = broker.restarted()

    def is_refused() -> bool:
        return any(f"{application.application} is not a streams" in line for line in broker.errors())

    def is_over() -> bool:
        """A reading of groups waits for longer than a broker takes to refuse one."""
        return is_refused() or reads_group(cluster, application) or is_refused()

    wait_until(is_over, limit_s=_LOAD_S, every_s=0.5)
    return not is_refused()


def reads_group(cluster: Cluster, application: Passes) -> bool:
    try:
        listed = [group for group in cluster.admin.groups.list() if group.group == application.application]
        return bool(listed and cluster.admin.groups.offsets(listed).groups)
    except KafkaUnavailable:
        return False


def compact_groups_log(broker: Broker, application: Passes) -> None:
    """Until what the tombstones of the application's group removed is gone, and the tombstones too."""
    cluster = Cluster(broker.info.bootstrap)
    settings: Mapping[str, str | None] = {
        "segment.ms": "500",
        "min.cleanable.dirty.ratio": "0.0",
        "delete.retention.ms": "0",
        "min.compaction.lag.ms": "0",
    }
    assert tombstones(cluster, application), "the classic group was not converted"
    cluster.admin.alter_topic_configs({GROUPS_LOG: settings})
    topic, numbers = cluster.make_topic(), count(1)

    def is_compacted() -> bool:
        """The active segment is never compacted: a commit of another group begins a new one."""
        offsets = TopicOffsetsBuilder(topic)
        offsets.add(0, next(numbers), -1, "")
        assert not cluster.admin.groups.commit({"roller": GroupOffsets(group="roller", topics=(offsets.build(),))})
        return not tombstones(cluster, application)

    wait_until(is_compacted, limit_s=_COMPACTIONS_S, every_s=0.7)


def tombstones(cluster: Cluster, application: Passes) -> int:
    """How many tombstones of the application's group `__consumer_offsets` holds."""
    name = application.application.encode()
    records = (record for part in read_topic(cluster.bootstrap, GROUPS_LOG).values() for record in part)
    return sum(record.value is None and name in (record.key or b"") for record in records)
