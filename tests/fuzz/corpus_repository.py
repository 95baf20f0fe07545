"""Repositories as targets: the released ones, byte by byte, and one made anew that holds one of each object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import LogRange, PartitionId
from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity, ScramUser
from offsite.model.options import CompressionChoice
from offsite.model.selection import TopicSelection
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, CommitChanges, Position, RecordedHole, TopicShape
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.snapshots.group_snapshot import put_group_snapshot
from offsite.repository.snapshots.named_object import put_cluster_snapshot
from offsite.stores.store import Store
from tests.batches import chunk_of, make_batch, make_control_batch, make_log
from tests.fuzz.layers import layers_of
from tests.fuzz.places import MemoryStore, files_below
from tests.fuzz.read_repository import read_repository
from tests.fuzz.renewal import renewed
from tests.fuzz.target import Files, Target, Trust

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SHAPE = TopicShape(
    topic="orders", topic_id="4YQ6qCcFQx2kXQGZ9vX7gA", partitions=2, replication_factor=3, configs=(("a.b", "1"),)
)
FIRST, SECOND = (PartitionId(topic="orders", topic_id=SHAPE.topic_id, partition=nr) for nr in range(2))
GROUPS = {
    "g": GroupOffsets(
        group="g",
        kind="classic",
        state="Empty",
        topics=(TopicOffsets.of("orders", [CommittedOffset(0, 5, 3, "m"), CommittedOffset(1, 7)], topic_id="id"),),
    )
}
SETTINGS = ClusterSettings(
    acls=(
        Acl(
            resource_type="TOPIC",
            resource="orders",
            pattern="LITERAL",
            principal="User:a",
            host="*",
            operation="READ",
            permission="ALLOW",
        ),
    ),
    quotas=(ClientQuota(entity=QuotaEntity(parts=(("user", "a"),)), limits=(("producer_byte_rate", 1.5),)),),
    scram_users=(ScramUser(name="a", mechanism="SCRAM-SHA-256", iterations=4096),),
)


def golden(version: str, *, trust: Trust) -> Target:
    return _target(files_below(GOLDEN / version), trust)


def fresh(*, trust: Trust) -> Target:
    return _target(fresh_repository(), trust)


def commits(*, trust: Trust) -> Target:
    """The same, with changes to its commits alone, and no catalog that could stand in for them."""
    whole = {key: data for key, data in fresh_repository().items() if "/catalog/" not in key}
    chain = {key: data for key, data in whole.items() if "/commits/" in key}
    rest = {key: data for key, data in whole.items() if key not in chain}

    def seal(files: Files, key: str, data: bytes) -> Files:
        return renewed(files, key, data) if trust is Trust.RENEWED else {**files, key: data}

    return Target(
        files=chain,
        read=lambda files: read_repository({**rest, **files}),
        trust=trust,
        seal=seal,
        layers=layers_of if trust is Trust.RENEWED else lambda _key, _data: (),
    )


def fresh_repository() -> dict[str, bytes]:
    """The same bytes each time: nothing in it is random, and its clock stands still."""
    store = MemoryStore({})
    with numbered_attempts(), patch.object(catalog, "COMMITS_PER_CATALOG", 2):
        _make(store)
    return {key: data for key, data in store.objects.items() if not key.startswith("probes/")}


@contextmanager
def numbered_attempts() -> Iterator[None]:
    numbers = count(1)
    with patch("secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}x}"):
        yield


def _make(store: Store) -> None:
    selection = TopicSelection(include=("orders",), exclude=("x-*",))
    repository = Repository.init(store, repository_id="0123456789abcdef")
    backup = repository.create_backup(
        "nightly", cluster_id="MkU3OEVBNTcwNTJENDM2Qg", selection=selection, options=(("compression", "auto"),)
    )
    state = backup.state()
    hole = RecordedHole(partition_id=SECOND, start=0, end=500, reason="retention")
    first = CommitChanges(
        segments=(_written(backup, _range(FIRST, 0, 60), make_log(0, 60), "zstd"),),
        positions=(Position(partition_id=FIRST, log_start=0, end=60, leader_epoch=2),),
        topics=(SHAPE,),
        groups=put_group_snapshot(store, BackupLayout(backup="nightly"), 1, GROUPS),
        metadata=put_cluster_snapshot(store, state, SETTINGS),
        accounted=True,
    )
    state = backup.commit(first, base=state, writer="writer-1")
    second = CommitChanges(
        segments=(_written(backup, _range(SECOND, 500, 530), make_log(500, 530, value=b"v" * 50, codec=4), "auto"),),
        positions=(Position(partition_id=SECOND, log_start=500, end=530),),
        holes=(hole,),
        checkpoint=Checkpoint(id=1, taken_at_ms=1_700_000_000_000, ends=((FIRST, 60),), classes=(("orders", "exact"),)),
        accounted=True,
    )
    state = backup.commit(second, base=state, writer="writer-2")
    marked = make_batch(60) + make_control_batch(70, producer_id=7, committed=True) + make_batch(71)
    third = CommitChanges(
        segments=(_written(backup, _range(FIRST, 60, 81), marked, "none"),),
        positions=(Position(partition_id=FIRST, log_start=0, end=81),),
        topics=(replace(SHAPE, configs=(("a.b", "2"),)),),
        accounted=True,
    )
    backup.commit(third, base=state, writer="writer-3")


def _range(known: PartitionId, start: int, end: int) -> LogRange:
    return LogRange(topic=known.topic, partition=known.partition, start=start, end=end)


def _written(backup: Backup, log_range: LogRange, log: bytes, compression: CompressionChoice) -> Segment:
    with SegmentWriter(
        store=backup.store, layout=backup.layout, log_range=log_range, topic_id=SHAPE.topic_id, compression=compression
    ) as writer:
        writer.append(chunk_of(log))
        return writer.close()[0]


def _target(files: Files, trust: Trust) -> Target:
    seal = renewed if trust is Trust.RENEWED else lambda known, key, data: {**known, key: data}
    layers = layers_of if trust is Trust.RENEWED else lambda _key, _data: ()
    return Target(files=files, read=read_repository, trust=trust, seal=seal, layers=layers)
