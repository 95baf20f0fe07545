"""What a compacted topic may lack against its backup: records whose key comes again, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store
from tests.conftest import StartSandbox
from tests.integration.e2e.site import Site, new_name, produce_to
from tests.integration.kafka.cluster import Cluster, wait_until

KEYS = 5


def keyed(start: int, end: int, *, keys: int) -> list[DemoMessage]:
    return [
        DemoMessage(key=b"k%d" % (n % keys), value=b"%d" % n + os.urandom(500), timestamp_ms=BASE_MS + n)
        for n in range(start, end)
    ]


def compared(site: Site, topic: str, *, restore: str | None = None) -> CompareResult:
    request = CompareRequest(selection=parse_selection([topic]), restore=restore)
    planned = plan_comparison(site.backup, site.cluster.admin, request)
    return run_comparison(planned, cluster=site.cluster, runner=site.spark)


def test_a_lost_segment_of_a_compacted_topic_is_not_taken_for_compaction(
    start_sandbox: StartSandbox, tmp_path: Path, spark: Runner
) -> None:
    sandbox, info = start_sandbox()
    site = Site(Cluster(info.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), spark)
    topic = site.make_topic(cleanup_policy="compact", segment_bytes="1048576", min_compaction_lag_ms=str(2**63 - 1))
    site.produce(topic, keyed(0, 8000, keys=8000))
    site.back_up(topic)
    assert compared(site, topic).verified
    assert sandbox.stop()
    (folder,) = info.dir.rglob(f"{topic}-0")
    first, second = (int(each.stem) for each in sorted(folder.glob("*.log"))[1:3])
    for each in folder.glob(f"{first:020}.*"):
        each.unlink()
    site = Site(Cluster(sandbox.start(owned=True).bootstrap), site.repository, spark)
    found = compared(site, topic)
    assert (found.verified, found.records) == (False, 8000 - (second - first))
    (lost,) = found.findings
    assert (lost.kind, lost.source_offset, lost.records) == ("missing", first, second - first)


@pytest.mark.soak  # waits for the log cleaner
@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_a_restored_topic_that_was_compacted_since_is_the_same(site: Site, offsets: str) -> None:
    compacting = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.01"}
    topic = site.make_topic(**compacting)
    site.produce(topic, keyed(0, 200, keys=KEYS))
    site.back_up(topic)
    target = new_name(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]), offsets=offsets
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
    assert result.verified

    def is_compacted() -> bool:
        later = DemoMessage(key=b"later", value=b"", timestamp_ms=BASE_MS + 100_000)
        produce_to(site.cluster.bootstrap, target, [later])
        return sum(each.key != b"later" for each in site.cluster.records(target)) <= KEYS

    wait_until(is_compacted, limit_s=60)
    found = compared(site, topic, restore=result.restore)
    assert (found.verified, found.findings, found.uncompared) == (True, (), ())
    (partition,) = found.topics[target].partitions
    assert partition.records + partition.compacted_records == 200
    assert partition.records <= KEYS
