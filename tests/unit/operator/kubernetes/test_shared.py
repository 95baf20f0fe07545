"""A resource in each of two Kubernetes clusters, with one identity in one repository: they are one backup."""

from __future__ import annotations

import copy
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsite.model.bounds import MAX_OFFSET
from offsite.operator.core import backup_keeper
from offsite.operator.kubernetes.home import KubernetesHome
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    DeclaredEntryKind,
    MemberStatement,
)
from offsite.repository.declared.history import BackupPhase, DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.declared.members import member_in_force
from offsite.stores.posix_store import PosixStore
from tests.unit.operator.folder.home import end_processes
from tests.unit.operator.kubernetes.kubernetes_home import DEPLOYMENT, SHOP, World, opened_world, write_configuration
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster
from tests.unit.operator.work.declared import Declared

IDENTITY = "shop-everywhere"
LISTED = [{"name": IDENTITY, "namespaces": ["shops"]}]


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, World]]:
    """Two clusters, each with an operator and accounts of its own; the repositories are below the first one."""
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
    with opened_world(roots[0], monkeypatch) as one:
        two = World(root=roots[1], cluster=MemoryCluster(_numbers=itertools.count(0x1000)))
        shutil.copy(one.root / "script.py", two.root)
        for world in (one, two):
            write_configuration(world.root, places=one.root, identities=LISTED)
        two.declare_secrets("shops")
        yield one, two
        end_processes("FAKE_HOME", str(one.root))


def history(world: World, ledger: str = IDENTITY) -> DeclaredHistory:
    store = PosixStore(root=world.root.parent / "one" / "backups")
    return declared_ledger(store, ledger).read()


def kinds(world: World) -> list[DeclaredEntryKind]:
    store = PosixStore(root=world.root.parent / "one" / "backups")
    found = store.list(DeclaredLayout(uid=IDENTITY).ledger_prefix)
    return [DECLARED_ENTRY.decode(store.get(info.key) or b"", key=info.key).kind for info in found]


def phases(world: World) -> list[BackupPhase]:
    return [low.phase for low in history(world).backups]


def both(worlds: tuple[World, World], **spec: Any) -> tuple[KubernetesHome, KubernetesHome]:
    """Both declare it, it was copied once, and all is as declared."""
    one, two = worlds
    homes = one.home(), two.home()
    for world in worlds:
        world.make(identity=IDENTITY, **spec)
    rounds(worlds, homes)
    one.copy(IDENTITY)
    rounds(worlds, homes)
    assert one.conditions() == two.conditions() == {}
    return homes


def rounds(worlds: tuple[World, World], homes: tuple[KubernetesHome, KubernetesHome], times: int = 4) -> None:
    for _ in range(times):
        for world, home in zip(worlds, homes, strict=True):
            world.look(home, times=1)


def test_they_are_one_backup_with_agents_in_both(worlds: tuple[World, World]) -> None:
    both(worlds)

    assert phases(worlds[0]) == [BackupPhase.RUNNING]
    assert kinds(worlds[0]) == [DeclaredEntryKind.JOINED, DeclaredEntryKind.JOINED, DeclaredEntryKind.STARTED]
    for world in worlds:
        (container,) = world.deployment()["spec"]["template"]["spec"]["containers"]
        assert container["command"][-2:] == ["--uid", IDENTITY]
        (low,) = world.status()["backups"]
        assert low["latestRestorable"]["commit"] == 1
    assert PosixStore(root=worlds[0].root / "backups").get(f"declared-names/{low['backup']}.json") is not None


def test_its_uid_is_nowhere_in_the_repository_while_it_shares_it(worlds: tuple[World, World]) -> None:
    both(worlds, state="paused")

    store = PosixStore(root=worlds[0].root / "backups")
    uids = [world.body()["metadata"]["uid"] for world in worlds]
    for info in store.list(""):
        data = (store.get(info.key) or b"") + info.key.encode()
        assert not any(uid.encode() in data for uid in uids), info.key


def test_without_an_identity_two_resources_are_two_backups(worlds: tuple[World, World]) -> None:
    homes = worlds[0].home(), worlds[1].home()
    uids = [world.make(f"shop-{number}") for number, world in enumerate(worlds)]
    rounds(worlds, homes)

    assert [[low.phase for low in worlds[0].lows(uid)] for uid in uids] == [
        [BackupPhase.RUNNING],
        [BackupPhase.RUNNING],
    ]


def test_one_goes_on_when_the_other_one_is_never_heard_of_again(worlds: tuple[World, World]) -> None:
    _, home = both(worlds)
    worlds[1].change(state="paused")
    worlds[1].look(home)
    assert phases(worlds[1]) == [BackupPhase.PAUSED]

    worlds[1].change(state="running")
    worlds[1].look(home)
    assert phases(worlds[1]) == [BackupPhase.RUNNING]
    assert "no old data is deleted" not in str(worlds[1].conditions())


def test_what_is_changed_last_counts_and_the_other_one_stands_by_and_says_so(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    worlds[0].change(state="paused", topics=["orders"])
    rounds(worlds, homes)

    assert phases(worlds[0]) == [BackupPhase.PAUSED]
    told = worlds[1].conditions()["DeclaredOtherwise"]
    assert "state, topics" in told
    assert "shops/shop" in told
    assert not worlds[1].status()["reconciled"]
    assert "the values of this resource are in force" in worlds[0].conditions()["DeclaredOtherwise"]
    assert worlds[0].status()["reconciled"], "it is a note"
    before = kinds(worlds[0])
    rounds(worlds, homes, times=6)
    assert kinds(worlds[0]) == before, "none undoes what the other one does"

    worlds[1].change(topics=["payments"])
    rounds(worlds, homes)
    assert phases(worlds[0]) == [BackupPhase.RUNNING]
    assert history(worlds[0]).backups[0].beginning.topics == ("payments",)
    assert "state, topics" in worlds[0].conditions()["DeclaredOtherwise"]

    worlds[0].change(state="running", topics=["payments"])
    rounds(worlds, homes)
    worlds[0].copy(IDENTITY)
    rounds(worlds, homes)
    assert worlds[0].conditions() == worlds[1].conditions() == {}


def test_who_only_joins_changes_nothing(worlds: tuple[World, World]) -> None:
    one, two = worlds
    homes = one.home(), two.home()
    one.make(identity=IDENTITY)
    rounds(worlds, homes)
    two.make(identity=IDENTITY, state="stopped", tag="other", expiry={"maximumRetention": "1d"})
    rounds(worlds, homes)

    assert phases(one) == [BackupPhase.RUNNING]
    assert "expiry.maximumRetention, state, tag" in two.conditions()["DeclaredOtherwise"]
    assert history(one).backups[0].beginning.tag == "default"


def test_a_change_of_what_is_its_own_makes_nothing_count(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    worlds[0].change(tag="other")
    rounds(worlds, homes)
    worlds[1].change(agents={"replicas": 2})
    rounds(worlds, homes)

    assert history(worlds[0]).live is not None
    assert history(worlds[0]).live.beginning.tag == "other"  # type: ignore[union-attr]
    assert worlds[1].deployment()["spec"]["replicas"] == 2


@pytest.mark.slow
def test_old_data_goes_only_where_all_declare_the_same_expiry(worlds: tuple[World, World]) -> None:
    homes = both(worlds, expiry={"maximumRetention": "30d"})
    rounds(worlds, homes)
    before = len(worlds[0].begun())
    assert before, "it goes while they agree"

    worlds[0].change(expiry={"maximumRetention": "1d"})
    for world in worlds:
        world.clock.sleep(3600)
    rounds(worlds, homes)
    assert not any("--maximum-retention 1d" in job for job in worlds[0].begun())
    for world in worlds:
        assert "no old data is deleted until all declare the same expiry" in world.conditions()["DeclaredOtherwise"]

    worlds[1].change(expiry={"maximumRetention": "1d"})
    for _ in range(3):
        rounds(worlds, homes)
        for world in worlds:
            world.clock.sleep(600)
    assert any("--maximum-retention 1d" in job for job in worlds[0].begun())
    assert f"--uid {IDENTITY}" in worlds[0].begun()[-1]


def test_the_deletion_of_one_deletes_nothing_while_the_other_one_is_there(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    worlds[0].let_go(homes[0], worlds[0].delete())

    assert worlds[0].left() == []
    assert worlds[0].begun() == [], "no job"
    assert phases(worlds[0]) == [BackupPhase.RUNNING]
    rounds(worlds, homes)
    assert worlds[1].conditions() == {}

    body = worlds[1].delete()
    worlds[1].let_go(homes[1], body)
    (job,) = worlds[0].begun()
    assert f"--delete --member {body['metadata']['uid']}" in job
    assert phases(worlds[0]) == [BackupPhase.STOPPED], "the script deletes nothing"


def test_who_is_not_heard_of_keeps_the_backup(worlds: tuple[World, World]) -> None:
    """The other cluster may be gone, or away for a month."""
    homes = both(worlds)
    del worlds[0].cluster.objects[SHOP]
    worlds[1].clock.sleep(40 * 86_400)
    worlds[1].let_go(homes[1], worlds[1].delete())

    assert worlds[1].begun() == []
    assert phases(worlds[1]) == [BackupPhase.RUNNING]


def test_one_that_leaves_takes_its_word_with_it(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    worlds[0].change(state="paused")
    rounds(worlds, homes)
    worlds[0].let_go(homes[0], worlds[0].delete())
    rounds(worlds, homes)

    assert phases(worlds[1]) == [BackupPhase.RUNNING]
    assert worlds[1].conditions() == {}


def test_one_that_joins_while_the_last_one_goes_keeps_it(worlds: tuple[World, World]) -> None:
    one, two = worlds
    homes = one.home(), two.home()
    one.make(identity=IDENTITY)
    rounds(worlds, homes)
    one.copy(IDENTITY)
    rounds(worlds, homes)
    (one.root / "hangs").touch()
    body = one.delete()
    for _ in range(3):
        assert not homes[0].let_go(body)
        one.look(homes[0], times=1)
    two.make(identity=IDENTITY)
    two.look(homes[1])
    (one.root / "hangs").unlink()
    one.let_go(homes[0], body)

    assert one.left() == []
    assert BackupPhase.RUNNING in phases(two)
    assert two.status()["backups"][0]["phase"] == "stopped"


def test_the_identity_of_others_is_nobody_s_key(worlds: tuple[World, World]) -> None:
    """A tenant of another namespace, or of another cluster, whose operator opens the same repository."""
    both(worlds)
    before = history(worlds[0])
    for world in worlds:
        write_configuration(world.root, places=worlds[0].root, identities=[{"name": IDENTITY, "namespaces": ["mine"]}])
    home = worlds[1].home()
    uid = worlds[1].make("thief", identity=IDENTITY, state="stopped", expiry={"maximumRetention": "1ms"})
    place = {"account": "backups", "repository": str(worlds[0].root / "backups")}
    path = f"{SHOP.removesuffix('shop')}thief"
    noted = {"annotations": {"place.offsite.dev/x": json.dumps(place)}}
    worlds[1].cluster.patch(path, {"metadata": noted})
    worlds[1].declare("Schedule", "nightly", backup="thief", action="drill", cron="* * * * *")
    worlds[1].look(home)

    told = worlds[1].conditions("thief")["MisconfiguredBackup"]
    assert f"identities: [{{name: {IDENTITY}}}]" in told
    assert "mine" not in told, "whose it is, is nobody else's business"
    assert "backups" not in worlds[1].status("thief")
    assert worlds[1].cluster.get(DEPLOYMENT.replace("shop", "thief")) is None
    assert "MisconfiguredSchedule" in worlds[1].conditions("nightly", "Schedule")

    body = worlds[1].delete("thief")
    for _ in range(5):
        assert not home.let_go(body), "it cannot be told who shares it: somebody takes the finalizer away"
        worlds[1].look(home, times=1)
    assert history(worlds[0]) == before
    assert uid not in str(worlds[0].begun())


def test_an_identity_that_is_listed_and_was_never_joined_gives_no_right_to_delete(worlds: tuple[World, World]) -> None:
    """As the uid of a resource of somebody else, that an account lists by mistake."""
    one, two = worlds
    home, uid = one.running()
    write_configuration(two.root, places=one.root, identities=[{"name": uid, "namespaces": ["shops"]}])
    theirs = two.home()
    two.make(identity=uid)
    two.look(theirs)

    assert "owns the backup and does not share it" in str(two.conditions())
    two.let_go(theirs, two.delete())
    one.look(home)
    assert [low.phase for low in one.lows(uid)] == [BackupPhase.RUNNING]
    assert two.begun() == []


def test_another_repository_is_refused_and_what_runs_goes_on(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    worlds[0].change(destination={"account": "elsewhere"})
    rounds(worlds, homes)

    assert "with an identity cannot move" in worlds[0].conditions()["MisconfiguredBackup"]
    assert phases(worlds[0]) == [BackupPhase.RUNNING]
    worlds[0].change(destination={"account": "backups"})
    rounds(worlds, homes)
    assert worlds[0].conditions() == {}


def test_another_source_has_no_part_in_it_while_something_of_it_is_left(worlds: tuple[World, World]) -> None:
    """Also once the other one has gone: its backups stay, and would go with this resource."""
    one, two = worlds
    homes = one.home(), two.home()
    one.make(identity=IDENTITY, expiry={"deletionFinalizer": False})
    one.look(homes[0])
    one.copy(IDENTITY)
    (two.root / "fair.properties").write_text("bootstrap.servers=localhost:9092\n")
    two.make(identity=IDENTITY, cluster="fair")
    rounds(worlds, homes)
    assert (
        "its backups belong to cluster shop, but this resource belongs to fair"
        in two.conditions()["IncorrectBackupState"]
    )
    assert two.cluster.get(DEPLOYMENT) is None

    body = one.delete()
    homes[0].note_deletion(body)
    rounds(worlds, homes)
    assert phases(one) == [BackupPhase.STOPPED]
    two.let_go(homes[1], two.delete())
    assert phases(one) == [BackupPhase.STOPPED]
    assert one.begun() == two.begun() == []


def test_two_sources_do_not_begin_one_backup(worlds: tuple[World, World]) -> None:
    one, two = worlds
    homes = one.home(), two.home()
    one.make(identity=IDENTITY, agents={"replicas": 0})
    rounds(worlds, homes)
    (two.root / "fair.properties").write_text("bootstrap.servers=localhost:9092\n")
    two.make(identity=IDENTITY, cluster="fair")
    rounds(worlds, homes)
    assert "declares another cluster than fair" in two.conditions()["IncorrectBackupState"]
    assert kinds(one) == [DeclaredEntryKind.JOINED]


def test_no_agents_in_one_cluster_rest_nothing_in_the_other(worlds: tuple[World, World]) -> None:
    """The first copy is under way: alone a resource without agents would let it rest."""
    one, two = worlds
    homes = one.home(), two.home()
    one.make(identity=IDENTITY)
    rounds(worlds, homes)
    two.make(identity=IDENTITY, agents={"replicas": 0})
    rounds(worlds, homes)
    assert phases(one) == [BackupPhase.RUNNING]

    two.make("other")
    two.look(homes[1])
    assert two.lows(str(two.body("other")["metadata"]["uid"]), "../one/backups") != (), "its slot is free"


def test_a_cluster_whose_slots_are_taken_rests_nothing_in_the_other(worlds: tuple[World, World]) -> None:
    one, two = worlds
    homes = one.home(), two.home()
    two.make("other")
    rounds(worlds, homes)
    one.make(identity=IDENTITY)
    rounds(worlds, homes)
    two.make(identity=IDENTITY)
    rounds(worlds, homes)

    assert phases(one) == [BackupPhase.RUNNING]
    assert two.cluster.get(DEPLOYMENT) is None, "its agents wait for a slot of their own cluster"
    one.copy(IDENTITY)
    rounds(worlds, homes)
    assert two.deployment()["spec"]["replicas"] == 1


def strange(world: World, kind: DeclaredEntryKind, **parts: Any) -> None:
    """As whoever may create objects in the repository writes it."""
    store = PosixStore(root=world.root.parent / "one" / "backups")
    Declared(store, uid=IDENTITY).decide(kind, **{"generation": history(world).generation + 1, **parts})


def test_a_stranger_who_joins_and_declares_ends_no_agents(worlds: tuple[World, World]) -> None:
    homes = both(worlds)
    for kind in (DeclaredEntryKind.JOINED, DeclaredEntryKind.DECLARED):
        fields = {"cluster": "x", "state": kind.value}
        word = MemberStatement(id="0" * 32, name="shops/shop", generation=len(kind), fields=tuple(fields.items()))
        strange(worlds[0], kind, member=word, by="process 1 of root on pod")
    rounds(worlds, homes)

    for world in worlds:
        told = world.conditions()["DeclaredOtherwise"]
        assert f"offsite operator members {IDENTITY} --repo " in told
        assert f" --gone {'0' * 32} --reason WHY" in told
        assert world.deployment()["spec"]["replicas"] == 1
    assert phases(worlds[0]) == [BackupPhase.RUNNING]
    worlds[0].change(tag="mine")
    rounds(worlds, homes)
    assert history(worlds[0]).live.beginning.tag == "mine"  # type: ignore[union-attr]


def test_a_stranger_who_speaks_in_the_name_of_a_resource_silences_it_until_it_is_changed_again(
    worlds: tuple[World, World],
) -> None:
    homes = both(worlds)
    mine = member_in_force(history(worlds[0]).members)
    assert mine is not None
    word = MemberStatement(id=mine.id, generation=MAX_OFFSET, fields=(("state", "made up"), ("tag", "made up")))
    strange(worlds[0], DeclaredEntryKind.DECLARED, member=word, by="who")
    rounds(worlds, homes)
    assert "somebody else wrote in its name" in worlds[0].conditions()["DeclaredOtherwise"]
    worlds[0].change(tag="mine")
    rounds(worlds, homes)
    assert history(worlds[0]).live.beginning.tag == "mine"  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_cluster_that_is_brought_back_as_it_was_is_heard_when_something_is_changed_in_it(
    worlds: tuple[World, World],
) -> None:
    homes = both(worlds)
    before = copy.deepcopy(worlds[0].body())
    for tag in ("a", "b", "c"):
        worlds[0].change(tag=tag)
        rounds(worlds, homes)
    body = worlds[0].cluster.objects[SHOP]
    body["spec"], body["metadata"]["generation"] = before["spec"], before["metadata"]["generation"]
    rounds(worlds, homes)
    assert history(worlds[0]).live.beginning.tag == "c", "nobody has changed anything"  # type: ignore[union-attr]
    assert "restored to an older state" in worlds[0].conditions()["DeclaredOtherwise"]

    worlds[0].change(tag="d")
    rounds(worlds, homes)
    assert history(worlds[0]).live.beginning.tag == "d"  # type: ignore[union-attr]
    assert "DeclaredOtherwise" in worlds[1].conditions()


def test_one_that_is_deleted_while_its_operator_sleeps_does_not_join(
    worlds: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would ever say that it let go: it would keep the backup for good."""
    one, two = worlds
    both(worlds)
    new = two.home()
    two.make("again", identity=IDENTITY)
    path = f"{SHOP.removesuffix('shop')}again"
    speaks, slept = backup_keeper.enter_news, list[bool]()

    def sleeps(*given: Any) -> DeclaredHistory:
        body = two.body("again")
        if body["metadata"]["name"] == "again" and not slept:
            slept.append(True)
            two.cluster.patch(path, {"metadata": {"finalizers": None}})
            two.cluster.delete(path, uid=body["metadata"]["uid"])
        return speaks(*given)

    monkeypatch.setattr(backup_keeper, "enter_news", sleeps)
    new.keep(two.body("again"))
    assert slept
    assert kinds(one) == [DeclaredEntryKind.JOINED, DeclaredEntryKind.JOINED, DeclaredEntryKind.STARTED]


def test_who_let_go_and_is_there_again_is_told_how_to_go_on(worlds: tuple[World, World]) -> None:
    """Its cluster was restored to an older state its deletion."""
    one, _ = worlds
    homes = both(worlds)
    before = copy.deepcopy(one.body())
    one.let_go(homes[0], one.delete())
    one.cluster.objects[SHOP] = before
    rounds(worlds, homes)
    told = one.conditions()["IncorrectBackupState"]
    assert "declare a new resource under another name; when the new resource shares the backup, delete this one" in told
    one.let_go(homes[0], one.delete())
    assert phases(one) == [BackupPhase.RUNNING]


def test_a_state_by_a_lock_that_nobody_held_is_told(worlds: tuple[World, World]) -> None:
    """Nothing can follow it: all would wait for ever, and not know why."""
    homes = both(worlds)
    strange(worlds[0], DeclaredEntryKind.PAUSED, generation=0, fence=MAX_OFFSET)
    rounds(worlds, homes)
    assert "which never existed" in worlds[0].conditions()["MisconfiguredBackup"]
    worlds[1].change(state="stopped")
    rounds(worlds, homes)
    told = worlds[1].conditions()["IncorrectBackupState"]
    assert "which never existed: no entry can follow it" in told
    assert "a bug" not in told
