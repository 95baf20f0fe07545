"""Numbers of attempts: each has one owner, and whoever has a lower one can know it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offsite.log.range import TopicPartition
from offsite.model.errors import WriterFenced
from offsite.repository.restores import fence as restore_fence
from offsite.repository.restores.fence import PartitionFence, restore_producer_id
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.backups import new_backup

TARGET = TopicPartition(topic="back.orders-1", partition=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "repository"))


@pytest.fixture
def layout(store: Store) -> RestoreLayout:
    return RestoreLayout(backup=new_backup(store).layout, restore="r")


@pytest.fixture
def fence(store: Store, layout: RestoreLayout) -> PartitionFence:
    return PartitionFence(store=store, layout=layout, target=TARGET)


def test_numbers_rise_and_each_supersedes_the_ones_before(fence: PartitionFence) -> None:
    first = fence.take(by="a")
    assert not fence.is_superseded(first)
    second = fence.take(by="a")
    assert (first, second) == (1, 2)
    assert fence.is_superseded(first)
    assert not fence.is_superseded(second)


def test_of_many_at_the_same_time_each_gets_a_number_of_its_own(fence: PartitionFence) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: fence.take(by="a"), range(24)))
    assert sorted(taken) == list(range(1, 25))


def test_partitions_count_for_themselves(fence: PartitionFence, store: Store, layout: RestoreLayout) -> None:
    fence.take(by="a")
    other = PartitionFence(store=store, layout=layout, target=TopicPartition(topic="back.orders-1", partition=30))
    assert other.take(by="a") == 1


def test_no_number_goes_beyond_what_an_epoch_holds(fence: PartitionFence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_fence, "ATTEMPTS_MAX", 2)
    assert [fence.take(by="a"), fence.take(by="a")] == [1, 2]
    with pytest.raises(WriterFenced, match="no producer epoch is left"):
        fence.take(by="a")


def test_a_restore_has_one_producer_id_whoever_asks_first(store: Store, layout: RestoreLayout) -> None:
    assert restore_producer_id(store, layout, lambda: 4711) == 4711
    assert restore_producer_id(store, layout, lambda: 4712) == 4711


@pytest.mark.parametrize("name", ["none.json", "9" * 200 + ".json"])
def test_a_name_of_others_among_the_attempts_is_passed_over(
    fence: PartitionFence, store: Store, layout: RestoreLayout, name: str
) -> None:
    store.put_if_absent(f"{layout.attempts_prefix(fence.target)}{name}", b"{}")
    assert fence.take(by="me") == 1
