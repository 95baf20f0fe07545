"""A source with its backups, and another cluster where they come back: whether it is the same log there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.demo.data import BASE_MS, DemoMessage, compare_readings, read_topic
from offsite.log.range import TopicPartition
from offsite.model.selection import parse_selection
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A source with its backups, and another cluster they are restored into under the same names."""

    site: Site
    target: Cluster

    def request(self, topic: str, offsets: str, **more: object) -> RestoreRequest:
        return RestoreRequest(selection=parse_selection([topic]), offsets=offsets, **more)  # type: ignore[arg-type]

    def restore(self, topic: str, *, offsets: str = "preserve", **more: object) -> RestoreResult:
        prepared = prepare_restore(self.site.backup, self.target.admin, self.request(topic, offsets, **more))
        return run_restore(prepared, cluster=self.target, runner=self.site.spark)

    def assert_the_same_log(self, topic: str, *, ignored_key: bytes | None = None) -> None:
        """Log start, log end, and every record at its offset as an independent client of either isolation sees it."""
        assert self.bounds(self.target, topic) == self.bounds(self.site.cluster, topic)
        for isolation in ("read_committed", "read_uncommitted"):
            source = read_topic(self.site.cluster.bootstrap, topic, isolation=isolation)
            restored = {
                partition: [record for record in records if ignored_key is None or record.key != ignored_key]
                for partition, records in read_topic(self.target.bootstrap, topic, isolation=isolation).items()
            }
            comparison = compare_readings(topic, source, restored, offsets=True)
            assert comparison.identical, (isolation, comparison.difference[:1000])

    def filler(self, topic: str, offsets: str) -> str:
        """What a restore that keeps offsets would fill the gaps of partition 0 with."""
        prepared = prepare_restore(self.site.backup, self.target.admin, self.request(topic, offsets))
        plan = report_plan(prepared).topics[0].offsets
        assert plan.mode == "preserve"
        return plan.partitions[0].filler

    def bounds(self, cluster: Cluster, topic: str) -> list[tuple[int, int]]:
        numbers = range(len(cluster.admin.topics([topic])[topic].partitions))
        keys = [TopicPartition(topic=topic, partition=number) for number in numbers]
        starts, ends = cluster.admin.start_offsets(keys), cluster.admin.end_offsets(keys)
        return [(starts[key], ends[key]) for key in keys]


def clusters(copy: Copy) -> tuple[Cluster, Cluster]:
    return copy.site.cluster, copy.target


def messages(start: int, end: int) -> Iterable[DemoMessage]:
    return (DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n) for n in range(start, end))
