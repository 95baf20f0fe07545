"""What a restore's report says is what was put into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedObject
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RepartitionedTopic,
    RestoredPartition,
    RestoreOutcome,
    get_outcome,
    put_outcome,
)
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.backups import new_backup

SOURCE = PartitionId(topic="orders", topic_id="id-orders", partition=3)
OUTCOME = RestoreOutcome(
    records=10,
    size_bytes=1000,
    verified=False,
    findings=("orders/3: missing: 1 record",),
    partitions=(
        RestoredPartition(
            source=SOURCE,
            source_end=20,
            target=TopicPartition(topic="back", partition=3),
            target_start=5,
            same_offsets=True,
            digest="blake3:aa",
        ),
    ),
    repartitioned=(RepartitionedTopic(target="wide", partitions=9, keyless_in_turn=True, sources=((SOURCE, 20),)),),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "repository"))


def layout_in(store: Store) -> RestoreLayout:
    return RestoreLayout(backup=new_backup(store).layout, restore="20261121-150000-0123abcd")


@pytest.mark.parametrize("verified", [True, False, None])
def test_an_outcome_comes_back_as_it_was_put(store: Store, verified: bool | None) -> None:
    layout = layout_in(store)
    outcome = RestoreOutcome(
        records=OUTCOME.records,
        size_bytes=OUTCOME.size_bytes,
        verified=verified,
        findings=OUTCOME.findings,
        partitions=OUTCOME.partitions,
        repartitioned=OUTCOME.repartitioned,
    )
    assert get_outcome(store, layout) is None
    put_outcome(store, layout, outcome)
    assert get_outcome(store, layout) == outcome


def test_a_report_that_is_none_is_damaged(store: Store) -> None:
    layout = layout_in(store)
    store.put_if_absent(layout.report_key, b'{"format":1,"records":"many"}\n')
    with pytest.raises(DamagedObject, match="records"):
        get_outcome(store, layout)
