"""A backup is compacted up to its newest commit, whose cut leaves a transaction out: does its default restore work?"""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.demo.data import read_topic
from offsite.model.options import CutChoice
from offsite.repository.repository import Repository
from offsite.repository.snapshots.commit_cut import CommitCut
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import compact
from tests.cuts import commit_cut, commit_markers, leaving_out, partition_of
from tests.inline_runner import InlineRunner
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.group_site import numbered
from tests.integration.e2e.site import Site
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster


@pytest.fixture
def copy(broker: SandboxInfo, second_broker: SandboxInfo, tmp_path: Path) -> Copy:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Copy(
        site=Site(Cluster(broker.bootstrap), repository, InlineRunner()), target=Cluster(second_broker.bootstrap)
    )


def test_what_a_left_out_transaction_replaced_is_still_there(copy: Copy) -> None:
    site = copy.site
    # numbered() gives records an old timestamp: the broker itself must not clean them away before they are copied
    topic = site.make_topic(cleanup_policy="compact", min_compaction_lag_ms=str(2**63 - 1))
    site.produce(topic, numbered(8))  # keys 0 to 7
    with_transaction(site, topic, numbered(8), commit=True)  # the same keys; marker 16
    site.back_up(topic)
    partition = partition_of(site.backup.sound_state(), topic)
    assert commit_markers(site.backup, partition) == [16]
    left_out = leaving_out(site.backup, partition, [16], floor=8)
    commit_cut(site.backup, CommitCut(partitions=(left_out,), left_out_count=1))
    compact(
        site.backup,
        plan_compaction(site.backup, CompactionRequest(min_dirty_ratio=0.0)),
        runner=InlineRunner(),
    )
    result = copy.restore(topic, cut=CutChoice.AUTO)
    assert result.consistency is not None
    assert result.consistency.left_out_count == 1
    found = read_topic(copy.target.bootstrap, topic, isolation="read_committed")[0]
    assert {each.key for each in found} >= {b"%d" % number for number in range(8)}
