"""How `format-1-digests` was made, once: `python -m tests.golden.make_format_1_digests FOLDER`. It never changes once
released. It has an object of every kind that a repository can hold, each JSON object with its digest."""

from __future__ import annotations

import sys
from pathlib import Path

from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.cluster_settings import Acl, ClusterSettings
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.repository.restores.fence import PartitionFence, restore_producer_id
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoredPartition,
    RestoreOutcome,
    RestoreRecord,
    RestoreTargets,
    put_outcome,
    put_record,
    put_targets,
)
from offsite.repository.restores.topic_settings import SetAsideSettings, put_aside
from offsite.repository.snapshots.check_records import put_drill_report
from offsite.repository.snapshots.group_change import GroupChange, put_group_change, put_undone
from offsite.repository.snapshots.named_object import put_cluster_snapshot
from offsite.stores.posix_store import open_folder
from tests.golden.make_format_1 import FIRST, GROUPS, make

SETTINGS = ClusterSettings(
    acls=(
        Acl(
            resource_type="TOPIC",
            resource="orders",
            pattern="LITERAL",
            principal="User:billing",
            host="*",
            operation="READ",
            permission="ALLOW",
        ),
    ),
    quotas=(),
    scram_users=None,
)
COPY = TopicPartition(topic="orders-copy", partition=0)


def put_restore(backup: Backup) -> None:
    layout = RestoreLayout(backup=backup.layout, restore="20260101-000000-0123abcd")
    record = RestoreRecord(
        restore=layout.restore,
        commit=2,
        cluster_id="other",
        request=(("bootstrap", "localhost:9092"),),
        isolation="read_committed",
        offsets="translate",
        created_at_ms=1,
        topics=(("orders", "orders-copy"),),
        created=("orders-copy",),
    )
    put_record(backup.store, layout, record)
    terms = layout.lease(backup.store)
    claim = terms.claim(ProcessIdentity.of({"host": "a", "pid": "1"}), "word", take_over=False)
    terms.beat(claim)
    targets = RestoreTargets(topic_ids=(("orders-copy", "id"),), starts=((COPY, 0),))
    put_targets(backup.store, layout, targets, number=1)
    put_aside(
        backup.store,
        layout,
        (SetAsideSettings(topic="orders-copy", meanwhile=(), originals=(("retention.ms", None),)),),
    )
    PartitionFence(store=backup.store, layout=layout, target=COPY).take(by="worker 1")
    restore_producer_id(backup.store, layout, lambda: 7)
    builder = OffsetMapBuilder(source_start=0, target_start=0)
    builder.add(0, 0, 110)
    builder.add(112, 110, 5)
    layout.put_map(backup.store, FIRST, builder.build())
    restored = RestoredPartition(
        source=FIRST, source_end=131, target=COPY, target_start=0, same_offsets=False, digest="blake3:00"
    )
    outcome = RestoreOutcome(records=115, size_bytes=10, verified=True, findings=(), partitions=(restored,))
    put_outcome(backup.store, layout, outcome)
    terms.end(claim)


def put_records(backup: Backup) -> None:
    put_restore(backup)
    put_drill_report(backup.store, backup.layout, "20260101-000001", {"drill": "20260101-000001"}, "<p>PROVEN</p>\n")
    change = GroupChange(change="20260101-000002", cluster_id="other", restore="", commit=2, created_at_ms=1)
    put_group_change(backup.store, backup.layout, change, GROUPS)
    put_undone(backup.store, backup.layout, change)


def make_with_digests(folder: Path) -> None:
    state = make(folder)
    backup = Repository.open(open_folder(folder)).backup("nightly")
    catalog.COMMITS_PER_CATALOG = 100
    settings = put_cluster_snapshot(backup.store, state, SETTINGS)
    backup.commit(CommitChanges(metadata=settings), base=state, writer="golden-3")
    put_records(backup)


if __name__ == "__main__":
    make_with_digests(Path(sys.argv[1]))
