"""Slots and tags: their stored entries are those of earlier versions, and damage of them says what to do."""

from __future__ import annotations

import json

import pytest

from offsite.model.errors import DamagedObject
from offsite.operator.decide.backup import SlotAvailability
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.world import claims
from offsite.operator.world.claims import SLOTS_PREFIX, Slots, TagHolder, TagName, Tags
from offsite.repository.json_form import encode_object
from tests.memory_store import MemoryStore

PLACE = RepositoryPlace(account="main", repository="s3://b/r")
TAG = TagName(cluster="prod", tag="blue")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def entry(store: MemoryStore, key: str) -> dict[str, object]:
    data = store.get(key)
    assert data is not None
    fields: dict[str, object] = json.loads(data)
    return fields


def test_slots_go_round(store: MemoryStore) -> None:
    one, two = (Slots(store, limit=1) for _ in range(2))  # type: ignore[arg-type]
    assert one.take("a")
    assert not two.take("b")
    assert (one.availability("a"), two.availability("b")) == (SlotAvailability.HELD, SlotAvailability.TAKEN)
    two.keep_only({"b"})
    assert two.take("b")
    assert one.holders() == ("b",)


def test_slots_and_tags_are_stored_as_earlier_versions_stored_them(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "random_id", lambda _: "00112233445566778899aabbccddeeff")
    monkeypatch.setattr(store, "now_ms", lambda: 1_795_766_400_000)
    slots = Slots(store, limit=2)  # type: ignore[arg-type]
    slots.take("a")
    slots.take("b")
    slots.give("a")
    Tags(store).take(TAG, "a", PLACE, name="restore of a")  # type: ignore[arg-type]
    assert store.get(f"{SLOTS_PREFIX}{3:020d}.json") == (
        b'{"format":1,"kind":"gave","limit":2,"previous":"88f192bfd7c849ce3bda1206130dd571ac792c3019a34098218828cd3998396b"'
        b',"seq":3,"uid":"a","word":"00112233445566778899aabbccddeeff",'
        b'"digest":"sha256:455fc1f0bc4324c9f2b47cd858f64cdf0ebb4d835692d9aee129169b18f981c5"}\n'
    )
    assert store.get(f"{TAG.prefix}{1:020d}.json") == (
        b'{"account":"main","at_ms":1795766400000,"format":1,"name":"restore of a","previous":"","repository":"s3://b/r"'
        b',"seq":1,"uid":"a","word":"00112233445566778899aabbccddeeff",'
        b'"digest":"sha256:8c8da51bb1ae889a24e70e90a7352f15ccaa210768a37e55681863d623ef9bf8"}\n'
    )


@pytest.mark.parametrize("change", [{"kind": "gave", "uid": "b"}, {"kind": "kept"}, {"previous": "x"}, {"seq": 7}])
def test_a_slot_that_nobody_could_take_is_damage_that_says_how_to_begin_anew(
    store: MemoryStore, change: dict[str, object]
) -> None:
    slots = Slots(store, limit=2)  # type: ignore[arg-type]
    slots.take("a")
    slots.take("b")
    key = f"{SLOTS_PREFIX}{2:020d}.json"
    fields = {name: value for name, value in entry(store, key).items() if name != "digest"}
    store.delete(key)
    store.put_if_absent(key, encode_object({**fields, **change}))  # type: ignore[arg-type]
    with pytest.raises(DamagedObject, match=f"{key}: entry . does not follow entry 1") as damage:
        Slots(store, limit=2).holders()  # type: ignore[arg-type]
    assert damage.value.hint == f"delete all objects in {SLOTS_PREFIX}: then all slots are free"


def test_slots_that_a_person_freed_are_free_to_an_operator_that_runs(store: MemoryStore) -> None:
    """As the hint of a damaged log says. The next entry left a gap, which stopped all other operators."""
    running, tags = Slots(store, limit=1), Tags(store)  # type: ignore[arg-type]
    running.take("a")
    tags.take(TAG, "a", PLACE)
    store.objects.clear()
    assert running.availability("b") is SlotAvailability.FREE
    assert running.take("b")
    assert tags.take(TAG, "b", PLACE)
    assert Slots(store, limit=1).holders() == ("b",)  # type: ignore[arg-type]


def test_a_tag_is_taken_by_one_restore(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "now_ms", lambda: 1_795_766_400_000)
    one, two = Tags(store), Tags(store)  # type: ignore[arg-type]
    assert one.take(TAG, "a", PLACE, name="restore of a")
    assert one.take(TAG, "a", PLACE)
    assert not two.take(TAG, "b", PLACE)
    assert two.holder(TAG) == TagHolder(uid="a", place=PLACE, since_ms=store.now_ms(), name="restore of a")
    two.give(TAG, "b")
    assert two.holder(TAG) is not None, "only its holder gives a tag"
    two.give(TAG, "a")
    assert one.holder(TAG) is None
    assert one.take(TAG, "b", PLACE)


def test_a_tag_of_another_history_is_damage(store: MemoryStore) -> None:
    Tags(store).take(TAG, "a", PLACE)  # type: ignore[arg-type]
    data = store.get(f"{TAG.prefix}{1:020d}.json")
    store.put_if_absent(f"{TAG.prefix}{2:020d}.json", data)
    with pytest.raises(DamagedObject, match="does not follow"):
        Tags(store).holder(TAG)  # type: ignore[arg-type]
