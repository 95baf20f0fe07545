"""What a backup claims of its own topic is compared to the last offset: tails, gaps, markers, empty partitions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.log.batch import scan
from offsite.log.range import PartitionId
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.commit import CommitChanges, Position, RecordedHole
from offsite.repository.repository import Repository
from offsite.restore.compare.proof import ProvenPartition
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import Sandbox
from offsite.stores.open_store import open_store
from tests.backups import accounted
from tests.conftest import StartSandbox
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster, wait_until


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: a comparison is the same whoever runs its tasks (`test_verify_against` has a Spark)."""
    return CrossingRunner()


def messages(start: int, end: int, *, partition: int = 0, key: bytes = b"k") -> list[DemoMessage]:
    return [
        DemoMessage(key=key, value=b"value %d" % n, timestamp_ms=BASE_MS + n, partition=partition)
        for n in range(start, end)
    ]


def compared(site: Site, topic: str, *, restore: str | None = None, exact: bool = False) -> CompareResult:
    request = CompareRequest(selection=parse_selection([topic]), restore=restore, exact=exact)
    planned = plan_comparison(site.backup, site.cluster.admin, request)
    return run_comparison(planned, cluster=site.cluster, runner=site.spark)


def only(result: CompareResult) -> ProvenPartition:
    ((topic, proven),) = result.topics.items()
    (partition,) = proven.partitions
    assert topic
    return partition


def written(site: Site, batches: Iterable[list[DemoMessage]], **configs: str) -> str:
    topic = site.make_topic(**configs)
    for each in batches:
        site.produce(topic, each)
    return topic


def claim(site: Site, topic: str, end: int, *, hole: bool = False, partition: int = 0) -> None:
    """Commit that the backup reaches to `end` without a segment: with a hole, or as if nothing had been there."""
    base = site.backup.state()
    incarnation = base.incarnation(topic)
    assert incarnation is not None
    source = PartitionId(topic=topic, topic_id=incarnation.topic_id, partition=partition)
    before = base.positions[source]
    holes = (RecordedHole(partition_id=source, start=before.end, end=end, reason="retention"),) if hole else ()
    position = Position(partition_id=source, log_start=before.log_start, end=end)
    changes = accounted(CommitChanges(positions=(position,), holes=holes), base)
    site.backup.commit(changes, base=base, writer=new_name("writer"))


def restored(site: Site, topic: str, offsets: str) -> str:
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={new_name(topic)}"]), offsets=offsets
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
    assert result.verified
    return result.restore


def test_markers_and_aborted_records_at_the_end_were_not_written_since(site: Site) -> None:
    topic = written(site, [messages(0, 20)])
    with_transaction(site, topic, messages(20, 30), commit=True)
    with_transaction(site, topic, messages(30, 62), commit=False)
    site.back_up(topic)
    found = compared(site, topic)
    assert (found.verified, only(found).records, only(found).markers, only(found).later_offsets) == (True, 62, 2, 0)
    for offsets in ("translate", "preserve"):
        again = compared(site, topic, restore=restored(site, topic, offsets))
        assert (again.verified, only(again).records, only(again).later_offsets) == (True, 30, 0)
    site.produce(topic, messages(62, 67))
    assert only(compared(site, topic)).later_offsets == 5


def test_records_in_what_a_backup_calls_a_gap_are_a_difference(site: Site) -> None:
    topic = written(site, [messages(0, 50)])
    site.back_up(topic)
    site.produce(topic, messages(50, 60))
    assert only(compared(site, topic)).later_offsets == 10
    claim(site, topic, 60)
    found = compared(site, topic)
    assert (found.verified, only(found).verified, only(found).later_offsets) == (False, False, 0)
    assert [(each.kind, each.target_offset, each.records) for each in found.findings] == [("extra", 50, 10)]


def test_markers_and_aborted_records_in_a_gap_are_a_difference_too(site: Site) -> None:
    topic = written(site, [messages(0, 50)])
    site.back_up(topic)
    with_transaction(site, topic, messages(50, 53), commit=False)
    claim(site, topic, 54)
    (found,) = compared(site, topic).findings
    assert (found.kind, found.target_offset, found.records) == ("extra", 50, 4)


def test_a_recorded_hole_explains_what_the_backup_lacks_and_is_named(site: Site) -> None:
    topic = written(site, [messages(0, 50)])
    site.back_up(topic)
    site.produce(topic, messages(50, 60))
    claim(site, topic, 60, hole=True)
    found = compared(site, topic)
    assert (found.verified, only(found).records, only(found).hole_offsets) == (True, 50, 10)
    assert [(hole.start, hole.end, hole.reason) for hole in found.lacking] == [(50, 60, "retention")]


def test_a_partition_that_is_empty_in_the_backup_and_not_in_the_cluster_is_a_difference(site: Site) -> None:
    topic = site.make_topic(partitions=2)
    site.produce(topic, messages(0, 10))
    site.back_up(topic)
    site.produce(topic, messages(0, 7, partition=1))
    assert compared(site, topic).verified
    claim(site, topic, 7, partition=1)
    (found,) = compared(site, topic).findings
    assert (found.partition, found.kind, found.target_offset, found.records) == (1, "extra", 0, 7)


def test_where_all_has_expired_since_nothing_is_verified(site: Site) -> None:
    topic = written(site, [messages(0, 50)])
    site.back_up(topic)
    site.produce(topic, messages(50, 60))
    site.delete_before(topic, 55)
    found = compared(site, topic)
    assert (found.verified, found.topics[topic].verified, found.findings) == (None, None, ())
    assert (found.compared_records, found.compared_partitions, found.empty_partitions) == (0, 0, 1)
    assert (only(found).expired_offsets, only(found).later_offsets) == (50, 10)


@pytest.mark.soak  # waits for the log cleaner
def test_compaction_may_take_the_tail_of_what_was_backed_up(site: Site) -> None:
    compacting = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.01"}
    topic = written(site, [messages(0, 10), messages(10, 40, key=b"same")], **compacting)
    site.back_up(topic)
    site.produce(topic, messages(40, 41, key=b"same"))

    def is_compacted() -> bool:
        site.produce(topic, messages(100_000, 100_001, key=b"another segment"))
        return min(record.offset for record in site.cluster.records(topic) if record.key == b"same") >= 40

    wait_until(is_compacted, limit_s=60)
    found = compared(site, topic)
    assert (found.verified, found.findings) == (True, ())
    assert (only(found).records, only(found).compacted_records) == (1, 39)


def test_a_log_that_lost_its_last_marker_is_not_the_same(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    """An unclean end of a broker that had not flushed, as far as its log can tell: what was committed is open again."""
    sandbox, info = start_sandbox()
    site = Site(Cluster(info.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), spark)
    topic = written(site, [messages(0, 40)])
    with_transaction(site, topic, messages(40, 50), commit=True)
    site.back_up(topic)
    assert compared(site, topic).verified
    lose_last_batch(sandbox, info.dir, topic)
    site = Site(Cluster(sandbox.start(owned=True).bootstrap), site.repository, spark)
    assert site.cluster.end(topic) == 50
    found = compared(site, topic)
    assert (found.verified, only(found).records, only(found).later_offsets) == (False, 50, 0)
    (lost,) = found.findings
    assert (lost.kind, lost.source_offset, lost.records) == ("missing", 50, 1)
    assert "its log ends at offset 50, the backup has records up to 51" in lost.detail


def lose_last_batch(sandbox: Sandbox, folder: Path, topic: str) -> None:
    """Stop the broker, take the last batch off the log, and let the next start recover what is left."""
    assert sandbox.stop()
    (data,) = (each.parent for each in folder.rglob(f"{topic}-0"))
    log = max((data / f"{topic}-0").glob("*.log"))
    content = log.read_bytes()
    last = scan(memoryview(content))[-1]
    log.write_bytes(content[: last.position])
    for stale in (*data.glob("*-checkpoint"), data / ".kafka_cleanshutdown", *log.parent.glob("*.snapshot")):
        stale.unlink(missing_ok=True)
    for index in (*log.parent.glob("*index"), log.parent / "leader-epoch-checkpoint"):
        index.unlink(missing_ok=True)


@pytest.mark.parametrize("offsets", ["translate", "preserve"])
def test_a_restore_names_what_its_backup_lacks(site: Site, offsets: str) -> None:
    topic = written(site, [messages(0, 20)])
    site.back_up(topic)
    site.produce(topic, messages(20, 50))
    site.delete_before(topic, 30)
    assert not site.back_up().complete
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={new_name(topic)}"]), offsets=offsets
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    lacking = [
        (each.topic, each.partition, each.start, each.end, each.reason) for each in report_plan(prepared).lacking
    ]
    assert lacking == [(topic, 0, 20, 30, "retention")]
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
    assert (result.verified, result.compared_records, result.lacking) == (True, 40, report_plan(prepared).lacking)
    again = compared(site, topic, restore=result.restore)
    assert (again.verified, again.lacking) == (True, result.lacking)
