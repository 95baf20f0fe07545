"""What whoever may declare resources in one namespace cannot cause."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsite.model.errors import KubernetesDenied
from offsite.operator.core.backup_keeper import STUCK_MS
from offsite.operator.kubernetes.api import ResourceReference, resources_path
from offsite.operator.kubernetes.record import PLACE
from offsite.operator.resources.backup import FINALIZER
from offsite.repository.declared.history import BackupPhase
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.unit.operator.kubernetes.kubernetes_home import (
    DEPLOYMENT,
    IMAGE,
    SECRETS,
    SHOP,
    World,
    begin_in_the_past,
    opened_world,
)


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
    assert "add shops to its namespaces in accounts.yaml" in told
    assert "others" not in told, "whose it is, is nobody else's business"


def test_an_account_that_names_no_namespace_is_for_the_only_one_that_is_looked_after(world: World) -> None:
    bind(world, backups=None)
    uid = world.make()
    world.look(world.home())
    assert world.lows(uid) == ()
    assert "write into it namespaces: [shops] in accounts.yaml" in world.conditions()["MisconfiguredBackup"]

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


def bind_clusters(world: World, **namespaces: list[str] | None) -> None:
    """Clusters for these namespaces; for None without a word of them."""
    entries = [{"name": name, **({} if bound is None else {"namespaces": bound})} for name, bound in namespaces.items()]
    (world.root / "clusters.yaml").write_text(yaml.safe_dump(entries))


def test_a_restore_into_a_cluster_of_another_namespace_begins_nothing_and_is_told_the_line_to_add(world: World) -> None:
    bind_clusters(world, shop=["others"])
    told = restored(world)["MisconfiguredRestore"]

    assert "OFF-0232: cluster shop is not for namespace shops" in told
    assert "add shops to the namespaces of shop in clusters.yaml" in told
    assert "others" not in told, "whose it is, is nobody else's business"
    assert world.jobs.begun == {}


@pytest.mark.parametrize("bound", [{"shop": None}, {"fair": ["shops"]}, {}])
def test_a_cluster_that_names_no_namespace_is_for_the_only_one_that_is_looked_after(
    world: World, bound: dict[str, list[str] | None]
) -> None:
    bind_clusters(world, **bound)
    line = "write into clusters.yaml {name: shop, namespaces: [shops]}"
    assert line in restored(world)["MisconfiguredRestore"]
    world.look(world.home(namespaces=["shops", "others"]))
    assert line in world.conditions("back", "Restore")["MisconfiguredRestore"]
    assert world.jobs.begun == {}

    world.look(world.home(namespaces=["shops"]))
    assert len(world.jobs.begun) == 1


def test_where_there_are_no_words_of_clusters_one_namespace_alone_may_use_them(world: World) -> None:
    (world.root / "clusters.yaml").unlink()
    assert "cluster shop is not for namespace shops" in restored(world)["MisconfiguredRestore"]

    world.look(world.home(namespaces=["shops"]))
    assert len(world.jobs.begun) == 1


@pytest.mark.parametrize("bound", [["shops"], ["others", "shops"], ["*"]])
def test_a_cluster_is_for_the_namespaces_that_it_names(world: World, bound: list[str]) -> None:
    bind_clusters(world, shop=bound)

    assert "MisconfiguredRestore" not in restored(world)
    assert len(world.jobs.begun) == 1


@pytest.mark.parametrize("text", ["", "{", "shop: [shops]", "- {name: shop, namespaces: shops}", "- {nam: shop}"])
def test_words_of_clusters_that_cannot_be_read_open_none_and_are_told(world: World, text: str) -> None:
    (world.root / "clusters.yaml").write_text(text)

    assert "clusters.yaml" in restored(world)["MisconfiguredRestore"]
    assert world.jobs.begun == {}


@pytest.mark.parametrize("action", ["checkpoint", "drill"])
def test_a_schedule_reaches_no_cluster_of_another_namespace(world: World, action: str) -> None:
    """A checkpoint is taken of the cluster that a Backup names, with the operator's own properties of it. Its agents
    may have copied from a broker of that name which the tenant put into a Secret of his own."""
    home, _ = world.running()
    bind_clusters(world, shop=["others"])
    cluster = {"cluster": "shop"} if action == "drill" else {}
    uid = world.declare("Schedule", "nightly", backup="shop", action=action, cron="* * * * *", **cluster)
    world.look(home, times=1)
    begin_in_the_past(world, uid)
    world.look(home)

    assert world.jobs.begun == {}
    told = world.conditions("nightly", "Schedule")["MisconfiguredSchedule"]
    assert "cluster shop is not for namespace shops" in told


def test_a_restore_that_runs_goes_on_when_its_cluster_is_closed(world: World) -> None:
    restored(world)
    bind_clusters(world, shop=["others"])
    world.look(world.home())

    assert world.status("back", "Restore")["phase"] == "Running"


def test_what_was_accepted_once_and_is_refused_now_goes_on_and_can_be_deleted(world: World) -> None:
    home, uid = world.running()
    world.change(destination={"endpoint": "s3://bucket/kafka?endpoint=http://127.0.0.1:1"})
    world.look(home)
    assert "the part after ? belongs to the account" in world.conditions()["MisconfiguredBackup"]
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.RUNNING]

    world.let_go(home, world.delete())
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.STOPPED]


def image_of(world: World) -> str:
    return str(world.deployment()["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("image", ["evil/image", "offsite:2", f"{IMAGE}@sha256:00", f"{IMAGE} "])
def test_an_image_that_the_operator_does_not_list_runs_nowhere(world: World, image: str) -> None:
    uid = world.make(agents={"replicas": 1, "template": {"image": image}})
    world.look(world.home(images=("mirror/offsite:1",)))

    assert world.cluster.get(DEPLOYMENT) is None
    assert world.lows(uid) == ()
    told = world.conditions()["MisconfiguredBackup"]
    assert "not allowed for agents" in told
    assert IMAGE in told
    assert "mirror/offsite:1" in told


@pytest.mark.parametrize("image", ["", IMAGE, "mirror/offsite:1"])
def test_the_operator_s_own_image_and_those_that_it_lists_run(world: World, image: str) -> None:
    world.make(agents={"replicas": 1, "template": {"image": image}})
    world.look(world.home(images=("mirror/offsite:1",)))

    assert image_of(world) == (image or IMAGE)


def test_what_runs_goes_on_when_somebody_asks_for_another_image(world: World) -> None:
    home, _ = world.running()
    world.change(agents={"replicas": 1, "template": {"image": "evil/image"}})
    world.look(home)

    assert image_of(world) == IMAGE
    assert "evil/image" in world.conditions()["MisconfiguredBackup"]


@pytest.mark.parametrize("name", ["offsite-account-backups", "offsite-cluster-shop"])
@pytest.mark.parametrize("has_label", [None, "false"])
def test_agents_mount_no_secret_without_its_label(world: World, name: str, has_label: str | None) -> None:
    world.cluster.objects[f"{SECRETS}/{name}"]["metadata"]["labels"] = (
        {} if has_label is None else {"offsite.dev/for-agents": has_label}
    )
    home, _ = world.home(), world.make()
    world.look(home)
    assert world.cluster.get(DEPLOYMENT) is None
    told = world.conditions()["MisconfiguredBackup"]
    assert f"kubectl -n shops label secret {name} offsite.dev/for-agents=true" in told

    world.cluster.objects[f"{SECRETS}/{name}"]["metadata"]["labels"] = {"offsite.dev/for-agents": "true"}
    world.look(home)
    assert image_of(world) == IMAGE
    assert "MisconfiguredBackup" not in world.conditions()


def test_a_secret_that_there_is_not_is_named(world: World) -> None:
    del world.cluster.objects[f"{SECRETS}/offsite-cluster-shop"]
    world.make()
    world.look(world.home())

    assert world.cluster.get(DEPLOYMENT) is None
    assert "there is no Secret offsite-cluster-shop in namespace shops" in world.conditions()["MisconfiguredBackup"]


def test_a_label_that_is_taken_away_is_told_and_ends_nothing(world: World) -> None:
    home, _ = world.running()
    world.cluster.objects[f"{SECRETS}/offsite-cluster-shop"]["metadata"]["labels"] = {}
    world.clock.sleep(31)
    world.look(home)

    assert image_of(world) == IMAGE
    assert "offsite-cluster-shop" in world.conditions()["MisconfiguredBackup"]


def test_a_backup_without_the_label_can_be_paused_and_deleted(world: World) -> None:
    home, uid = world.running()
    world.cluster.objects[f"{SECRETS}/offsite-cluster-shop"]["metadata"]["labels"] = {}
    world.change(state="paused")
    world.look(home)
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.PAUSED]

    world.let_go(home, world.delete())
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.STOPPED]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "{}", '{"repository": 1}', "null"])
def test_a_note_that_no_operator_wrote_is_told_and_stops_nobody_else(world: World, text: str) -> None:
    home = world.home(initial_copies=9)
    world.make("aaa", cluster="shop")
    uid = world.make()
    path = f"{resources_path('Backup', 'shops')}/aaa"
    world.cluster.objects[path]["metadata"].setdefault("annotations", {})[f"{PLACE}0123456789abcdef"] = text
    world.look(home)

    assert len(world.lows(uid)) == 1
    assert f"{PLACE}0123456789abcdef" in world.conditions("aaa")["MisconfiguredBackup"]


@pytest.mark.parametrize("account", ["", "elsewhere"])
def test_a_folder_of_another_namespace_s_account_is_opened_in_no_way(world: World, account: str) -> None:
    bind(world, backups=["shops"], elsewhere=["others"])
    home, _ = world.running()
    place = {"account": account, "repository": str(world.root / "elsewhere")}
    world.cluster.objects[SHOP]["metadata"]["annotations"][f"{PLACE}0123456789abcdef"] = json.dumps(place)
    world.clock.sleep(31)
    world.look(home)

    assert {"": "OFF-0218", "elsewhere": "OFF-0231"}[account] in world.conditions()["MisconfiguredBackup"]


def test_accounts_of_other_namespaces_are_not_named(world: World) -> None:
    bind(world, backups=["shops"], elsewhere=["others"])
    world.make(destination={"account": "misspelt"})
    world.look(world.home())

    assert "known: backups" in world.conditions()["MisconfiguredBackup"]
    assert "elsewhere" not in world.conditions()["MisconfiguredBackup"]


def expanded(text: str, environment: dict[str, str]) -> str:
    """As a kubelet does (k8s.io/kubernetes/third_party/forked/golang/expansion): `$$` is a `$`."""
    return re.sub(
        r"\$(?:\$|\(([^)]*)\))",
        lambda found: "$" if found[1] is None else environment.get(found[1], found[0]),
        text,
    )


def test_kubernetes_puts_no_variable_into_the_words_and_variables_of_an_agent(world: World) -> None:
    place = world.root / "backups" / "$(TZ)" / "$$(AWS_SECRET_ACCESS_KEY)"
    Repository.init(PosixStore(root=world.root / "moved"))
    place.parent.mkdir()
    (world.root / "moved").rename(place)
    variables = {"TZ": "x?endpoint=https://evil", "OFFSITE_CLIENT_RACK": "$(TZ)$"}
    world.make(destination={"endpoint": str(place)}, agents={"template": {"environment": variables}})
    world.look(world.home())

    (container,) = world.deployment()["spec"]["template"]["spec"]["containers"]
    had = {"AWS_SECRET_ACCESS_KEY": "s3", **variables}
    assert str(place) in [expanded(word, had) for word in container["command"]]
    told = {each["name"]: expanded(each["value"], had) for each in container["env"]}
    assert {name: told[name] for name in variables} == variables


def test_who_declares_a_place_that_cannot_be_read_keeps_no_slot_from_others(world: World) -> None:
    home, _ = world.home(), world.make()
    world.look(home)
    other = world.make("fair")
    world.change(destination={"endpoint": "s3://[x"})
    world.look(home)
    assert world.lows(other) == (), "the slot is held"

    world.clock.sleep(STUCK_MS / 1000)
    world.look(home)
    assert len(world.lows(other)) == 1


def test_a_tag_that_another_namespace_holds_neither_hinders_nor_is_told(world: World) -> None:
    bind(world, backups=["shops"], elsewhere=["others"])
    world.declare("Restore", "acquisition", "others", backupUrl=f"{world.root / 'elsewhere'}#shop", cluster="shop")
    home = world.home(namespaces=["shops", "others"])
    world.look(home)
    assert len(world.jobs.begun) == 1

    for name in ("back", "second"):
        world.declare("Restore", name, backupUrl=f"{world.root / 'backups'}#shop", cluster="shop")
    world.look(home)
    assert world.status("back", "Restore")["phase"] == "Running"
    told = world.conditions("second", "Restore")["IncorrectRestoreState"]
    assert told == "it waits for restore back with the tag default into shop", "its own namespace counts"


def test_restores_of_one_namespace_make_another_one_wait_for_one_of_them_only(world: World) -> None:
    world.jobs.at_once = 1
    bind(world, backups=["shops", "many"])
    bind_clusters(world, shop=["*"])
    home = world.home(namespaces=["many", "shops"])

    def end_one() -> None:
        (job,) = world.jobs.begun.keys() - world.jobs.ended
        store = PosixStore(root=world.root / "backups")
        world.jobs.ends(store, job, world.jobs.works(store, job, ProcessIdentity.current()))

    for number in range(5):
        name, url = f"many-{number}", f"{world.root / 'backups'}#shop"
        world.declare("Restore", name, "many", backupUrl=url, cluster="shop", tag=name)
    world.look(home)
    world.declare("Restore", "back", backupUrl=f"{world.root / 'backups'}#shop", cluster="shop")
    world.look(home)
    assert world.status("back", "Restore")["phase"] == "Pending"

    end_one()
    world.look(home)
    assert world.status("back", "Restore")["phase"] == "Running"
    end_one()
    world.look(home)
    assert len(world.jobs.begun) == 3, "then the others go on"


def test_the_expiry_queue_knows_whose_jobs_are_whose(world: World) -> None:
    home, uid = world.running(expiry={"maximumRetention": "30d"})
    assert home._keepers.expiry_requests[uid].namespace == "shops"
    body = world.delete()
    while not home._keepers.expiry_requests.get(uid) or not home._keepers.expiry_requests[uid].is_deletion:
        home.let_go(body)
    assert home._keepers.expiry_requests[uid].namespace == "shops"


def test_who_copies_for_the_first_time_for_ever_keeps_nobody_else_s_namespace_from_it(world: World) -> None:
    bind(world, backups=["shops", "others"])
    home = world.home(namespaces=["others", "shops"])
    for name in ("endless", "second"):
        world.declare("Backup", name, "others", agents={"replicas": 1}, cluster="shop")
    world.declare_secrets("others")
    world.look(home)
    uid = world.make()
    world.look(home)
    assert len(world.lows(uid)) == 1
    waits = "no backup runs: it waits for the initial copy of other backups"
    assert waits == world.conditions("second", namespace="others")["IncorrectBackupState"]

    body = world.delete("endless", namespace="others")
    world.cluster.objects.pop(
        ResourceReference.of(body).path
    )  # as with its finalizer taken away, while no operator was there
    world.look(world.home(namespaces=["others", "shops"]))
    assert waits not in str(world.conditions("second", namespace="others")), "what is gone holds none"


def test_a_namespace_that_is_closed_to_the_operator_stops_no_other_and_loses_no_slot(world: World) -> None:
    uid = world.make()
    world.home(namespaces=["shops", "open"]).round()
    assert slots(world) == ["took"]

    world.cluster.closed = "shops"
    path, metadata = resources_path("Backup", "open"), {"name": "fair", "namespace": "open"}
    world.cluster.create(path, {"kind": "Backup", "metadata": {**metadata, "finalizers": [FINALIZER]}, "spec": {}})
    home = world.home(namespaces=["shops", "open"])
    world.look(home)
    found = world.cluster.get(f"{path}/fair")
    assert found is not None
    assert found["status"]["conditions"]
    assert slots(world) == ["took"], "nobody knows whether it is gone"

    world.cluster.closed = ""
    world.look(home)
    assert len(world.lows(uid)) == 1


def slots(world: World) -> list[str]:
    """What became of slots, in order."""
    entries = sorted((world.root / "pod" / "state" / "operator" / "slots-of" / "shops").iterdir())
    return [json.loads(each.read_text())["kind"] for each in entries]


def test_an_operator_that_may_list_nothing_says_so(world: World) -> None:
    world.cluster.closed = "shops"
    with pytest.raises(KubernetesDenied):
        world.home(namespaces=["shops"]).round()
