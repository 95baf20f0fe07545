"""A map is about one making of a target topic, and never survives into the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import ObjectTaken, RestoreTakenOver
from offsite.repository.json_form import encode_canonical
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreTargets, get_targets, put_targets
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.backups import new_backup

SOURCE = PartitionId(topic="orders", topic_id="id", partition=3)
TARGET = TopicPartition(topic="back", partition=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "repository"))


@pytest.fixture
def layout(store: Store) -> RestoreLayout:
    return RestoreLayout(backup=new_backup(store).layout, restore="r")


def built(target_start: int) -> OffsetMap:
    builder = OffsetMapBuilder(source_start=10, target_start=target_start)
    builder.add(10, target_start, 5)
    return builder.build()


def test_the_map_of_a_topic_made_again_is_another_one(store: Store, layout: RestoreLayout) -> None:
    layout.put_map(store, SOURCE, built(0))
    assert layout.get_map(store, SOURCE, making=2) is None
    layout.put_map(store, SOURCE, built(7), making=2)
    assert layout.get_map(store, SOURCE) == built(0)
    assert layout.get_map(store, SOURCE, making=2) == built(7)


def test_a_map_that_says_otherwise_is_not_passed_over(store: Store, layout: RestoreLayout) -> None:
    layout.put_map(store, SOURCE, built(0))
    layout.put_map(store, SOURCE, built(0))
    with pytest.raises(ObjectTaken, match="does not match the written records"):
        layout.put_map(store, SOURCE, built(7))


def test_maps_and_targets_of_older_versions_are_of_the_first_making(store: Store, layout: RestoreLayout) -> None:
    assert layout.map_key(SOURCE) == f"{layout.prefix}maps/orders/3.map"
    old = {"format": 1, "topic_ids": {"back": "x"}, "starts": [{"topic": "back", "partition": 3, "start": 7}]}
    store.put_if_absent(layout.targets_key(1), encode_canonical(old))
    assert get_targets(store, layout) == RestoreTargets(topic_ids=(("back", "x"),), starts=((TARGET, 7),))


def test_of_two_that_make_targets_at_the_same_time_one_is_told(store: Store, layout: RestoreLayout) -> None:
    first = RestoreTargets(topic_ids=(("back", "x"),), starts=((TARGET, 0),))
    second = RestoreTargets(topic_ids=(("back", "y"),), starts=((TARGET, 0),), makings=(("back", 2),))
    put_targets(store, layout, first, number=1)
    with pytest.raises(RestoreTakenOver):
        put_targets(store, layout, second, number=1)
    put_targets(store, layout, second, number=2)
    assert get_targets(store, layout) == second
