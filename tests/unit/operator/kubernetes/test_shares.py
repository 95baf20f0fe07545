"""What one namespace cannot take from another one: the time of the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from offsite.model.errors import StoreUnreachable
from offsite.operator.core import accounts
from offsite.operator.core.accounts import Accounts
from offsite.operator.core.keeper import Reconciled
from offsite.operator.core.monitor import SILENT_MAX_S, HomeMonitor
from offsite.operator.core.records import ResourceRecord
from offsite.operator.decide.desired import Account, RepositoryPlace
from offsite.operator.kubernetes import home as homes
from offsite.operator.kubernetes import record as status
from offsite.operator.kubernetes.api import Body, ResourceReference
from offsite.operator.kubernetes.home import DELETED_MAX, ROUND_MAX_S, KubernetesHome
from offsite.operator.kubernetes.pod import LOOK_MAX_S
from offsite.operator.world import observe
from offsite.stores.object_store import CloudStore
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import Store
from tests.unit.operator.kubernetes.kubernetes_home import SHOP, World, opened_world

LOOK_S = 100.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def slow_home(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[KubernetesHome, Counter[str]]:
    """A home that takes long for each resource whose name begins with `slow`, and how often it looked at each."""
    home, looks = world.home(namespaces=["evil", "shops"]), Counter[str]()

    def look_slowly(record: ResourceRecord) -> Reconciled:
        looks[record.name] += 1
        world.clock.sleep(LOOK_S if record.name.startswith("slow") else 0.1)
        return Reconciled(conditions=[])

    monkeypatch.setattr(home._keepers, "look", look_slowly)
    return home, looks


def test_a_namespace_of_many_slow_resources_keeps_no_other_from_a_look_and_no_round_from_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, looks = slow_home(world, monkeypatch)
    for number in range(30):
        world.declare("Backup", f"slow-{number}", "evil")
    for name in ("one", "two", "three"):
        world.make(name)
    for number in range(1, 4):
        began_s = world.clock.monotonic_s()
        home.round()
        assert world.clock.monotonic_s() - began_s <= ROUND_MAX_S + LOOK_S, "or probes end the operator"
        assert all(looks[name] == number for name in ("one", "two", "three"))
        world.clock.sleep(31)
    assert HomeMonitor(home=home, clock=world.clock).health().ok
    for _ in range(40):
        home.round()
        world.clock.sleep(2)
    assert all(looks[f"slow-{number}"] for number in range(30)), "each of them has its turn"


def test_a_round_ends_before_probes_fail_whatever_one_look_takes() -> None:
    assert ROUND_MAX_S + LOOK_MAX_S < SILENT_MAX_S


def test_events_of_a_resource_are_looked_at_in_the_next_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    home, looks = slow_home(world, monkeypatch)
    world.make("one")
    home.round()
    for _ in range(5):
        home.note_change(world.body("one"))
    assert looks["one"] == 1
    home.round()
    assert looks["one"] == 2, "though it was as declared"


def test_deletions_that_take_long_leave_time_to_other_namespaces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    home, looks = slow_home(world, monkeypatch)
    world.declare("Backup", "slow", "evil")
    world.make("one")
    home.round()
    for name, namespace in (("slow", "evil"), ("one", "shops")):
        world.delete(name, namespace=namespace)
    before = looks.copy()
    for _ in range(10):
        home.round()
        world.clock.sleep(2)
    assert looks["one"] - before["one"] >= 9
    assert looks["slow"] - before["slow"] <= 10
    assert not home.may_go(world.body("one"))

    monkeypatch.setattr(home._keepers, "look", lambda _: None)
    home.round()
    assert home.may_go(world.body("one")), "kopf asks, and clears the finalizer"


def test_what_went_without_its_finalizer_is_looked_at_in_the_next_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, looks = slow_home(world, monkeypatch)
    uid = world.make("one", expiry={"deletionFinalizer": False})
    world.make("two")
    home.round()
    body = world.delete("one")
    world.cluster.objects.pop(ResourceReference.of(body).path, None)
    for number in range(DELETED_MAX + 5):
        home.note_deletion(
            {**body, "metadata": {**body["metadata"], "uid": f"{number:08d}"} if number else body["metadata"]}
        )
    assert looks["one"] == 1
    home.round()
    assert looks["one"] == 1 + DELETED_MAX, "many that go at once are not all remembered"
    assert uid not in home._went


def test_a_store_that_answers_slowly_for_ever_ends_a_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger goes on and on, for the tenant's own server makes each entry that is asked for."""
    home, _ = world.running()
    get = PosixStore.get

    def slow(self: PosixStore, key: str) -> bytes | None:
        world.clock.sleep(10)
        return get(self, key)

    def endless(store: Store, _: str) -> NoReturn:
        while True:
            store.get("declared/entry")

    monkeypatch.setattr(PosixStore, "get", slow)
    monkeypatch.setattr(observe, "read_history", endless)
    world.clock.sleep(31)
    began_s = world.clock.monotonic_s()
    home.keep(world.body())
    assert world.clock.monotonic_s() - began_s <= LOOK_MAX_S + 30
    assert "is too slow" in world.conditions()["IncorrectBackupState"]


def test_an_operator_waits_for_no_answer_of_a_store_as_a_copy_does() -> None:
    account = Account(name="main", endpoint="s3://bucket/kafka?region=x", environment=(("AWS_ACCESS_KEY_ID", "k"),))
    place = RepositoryPlace(account="main", repository=account.endpoint)
    waited = list[float]()

    def opened(store: CloudStore) -> None:
        waited.append(store.request_timeout_s)
        raise StoreUnreachable("it does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounts.Repository, "open", opened)
        with pytest.raises(StoreUnreachable):
            Accounts(listed=(account,)).open_store(place)
    assert waited == [15.0]


def test_of_large_resources_a_round_holds_names_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[str]()
    world.make()
    world.cluster.objects[SHOP]["metadata"]["annotations"] = {"large": "x" * 200_000}

    home = world.home()
    monkeypatch.setattr(home, "keep", lambda body: held.append(repr(body)))
    home.round()
    assert [len(each) < 1000 for each in held] == [True]
    assert home.rounds.resources == {"Backup": 1}


def test_a_bug_that_one_resource_meets_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    home = world.home(initial_copies=2)
    world.make("aaa", cluster="shop")
    uid = world.make()
    told = status.build_kubernetes_status

    def fails(body: Body, *parts: Any) -> dict[str, Any]:
        if body["metadata"]["name"] == "aaa":
            raise KeyError("a bug")
        return told(body, *parts)

    monkeypatch.setattr(homes, "build_kubernetes_status", fails)
    world.look(home)
    assert len(world.lows(uid)) == 1
    assert home.rounds.resources == {"Backup": 2}


def test_what_is_kept_of_resources_that_are_gone_has_an_end(world: World) -> None:
    home, _ = world.running()
    keepers = home._keepers
    assert keepers._backups._unchanged
    assert keepers._notes._written
    world.let_go(home, world.delete())
    world.clock.sleep(601)
    world.look(home, times=2)
    assert not keepers._backups._unchanged
    assert not keepers._notes._written
