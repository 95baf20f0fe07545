"""What whoever may declare resources in one namespace cannot cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsite.operator.kubernetes.record import PLACE
from offsite.repository.declared.history import Phase
from tests.unit.operator.kubernetes.kubernetes_home import DEPLOYMENT, SHOP, World, opened_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def bind(world: World, **namespaces: list[str] | None) -> None:
    """Accounts for these namespaces; for None without a word of them."""
    entries = [
        {"name": name, "endpoint": str(world.root / name), **({} if bound is None else {"namespaces": bound})}
        for name, bound in namespaces.items()
    ]
    (world.root / "accounts.yaml").write_text(yaml.safe_dump(entries))


def test_an_account_of_another_namespace_opens_nothing_and_is_told_with_the_line_to_add(world: World) -> None:
    bind(world, backups=["others"])
    uid = world.make(destination={"account": "backups"})
    world.look(world.home())

    assert world.lows(uid) == ()
    assert world.cluster.get(DEPLOYMENT) is None
    told = world.conditions()["MisconfiguredBackup"]
    assert "account backups is not for namespace shops" in told
    assert 'in accounts.yaml: namespaces: ["others", "shops"]' in told


def test_an_account_that_names_no_namespace_is_for_the_only_one_that_is_looked_after(world: World) -> None:
    bind(world, backups=None)
    uid = world.make()
    world.look(world.home())
    assert world.lows(uid) == ()
    assert 'namespaces: ["shops"]' in world.conditions()["MisconfiguredBackup"]

    world.look(world.home(namespaces=["shops"]))
    assert len(world.lows(uid)) == 1


@pytest.mark.parametrize("bound", [["shops"], ["others", "shops"], ["*"]])
def test_an_account_opens_for_the_namespaces_that_it_names(world: World, bound: list[str]) -> None:
    bind(world, elsewhere=["others"], backups=bound)
    uid = world.make()
    world.look(world.home())

    assert len(world.lows(uid)) == 1, "who names no account gets the first one of his namespace"


@pytest.mark.parametrize("note", ["annotation", "status"])
def test_a_place_that_somebody_noted_is_opened_by_no_account_that_does_not_list_it(
    world: World, note: str, tmp_path: Path
) -> None:
    home, _ = world.running()
    shop, place = world.cluster.objects[SHOP], {"account": "elsewhere", "repository": str(tmp_path / "of-others")}
    if note == "annotation":
        shop["metadata"].setdefault("annotations", {})[f"{PLACE}0123456789abcdef"] = json.dumps(place)
    else:
        shop["status"]["backups"].append({**place, "backup": "shop"})
    world.clock.sleep(31)
    world.look(home)

    assert "account elsewhere does not open" in world.conditions()["MisconfiguredBackup"]


def restored(world: World, **spec: Any) -> dict[str, str]:
    world.declare("Restore", "back", backupUrl=f"{world.root / 'backups'}#shop", cluster="shop", **spec)
    world.look(world.home())
    return world.conditions("back", "Restore")


def test_a_restore_with_the_account_of_another_namespace_begins_nothing(world: World) -> None:
    bind(world, backups=["others"])

    assert "account backups is not for namespace shops" in restored(world, account="backups")["MisconfiguredRestore"]
    assert world.jobs.begun == {}


def test_what_was_accepted_once_and_is_refused_now_goes_on_and_can_be_deleted(world: World) -> None:
    home, uid = world.running()
    world.change(destination={"endpoint": "s3://bucket/kafka?endpoint=http://127.0.0.1:1"})
    world.look(home)
    assert "what follows ? belongs to the account" in world.conditions()["MisconfiguredBackup"]
    assert [low.phase for low in world.lows(uid)] == [Phase.RUNNING]

    world.let_go(home, world.delete())
    assert [low.phase for low in world.lows(uid)] == [Phase.STOPPED]
