"""Two Kubernetes clusters, each with a real API server and an operator in a process of its own, over one repository:
their resources are one backup. What agents copy is played by the test; jobs are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.repository.declared.history import BackupPhase
from tests.integration.operator.test_kopf_soak import Cluster, opened_cluster, tool_or_skip
from tests.processes import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]  # the server is compiled once, which takes minutes

IDENTITY = "shop-everywhere"
LISTED = [{"name": IDENTITY, "namespaces": ["default"]}]
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/shop"


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    programs, folders = tool_or_skip(), [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    backups = tmp_path / "backups"
    with (
        opened_cluster(folders[0], programs, backups=backups, identities=LISTED) as one,
        opened_cluster(folders[1], programs, backups=backups, identities=LISTED) as two,
    ):
        yield one, two


def entries(cluster: Cluster) -> int:
    return len(list(cluster.repository.store.list(f"declared/{IDENTITY}/ledger/")))


def told(cluster: Cluster) -> str:
    return str(cluster.get("shop").get("status", {}).get("conditions"))


def begin(cluster: Cluster) -> None:
    cluster.begin(pod=f"pod-of-{cluster.folder.name}")


def test_two_kubernetes_clusters_have_one_backup(clusters: tuple[Cluster, Cluster]) -> None:
    one, two = clusters
    for cluster in clusters:
        begin(cluster)
        cluster.make("shop", identity=IDENTITY)
    wait_until(lambda: one.phases(IDENTITY) == [BackupPhase.RUNNING], "the backup begins", limit_s=120)
    one.copy(IDENTITY)
    for cluster in clusters:
        wait_until(lambda each=cluster: each.is_as_declared("shop", 1), "all is as declared", limit_s=120)
        (container,) = cluster.proxy.deployments.objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"]
        assert container["command"][-2:] == ["--uid", IDENTITY]
        wait_until(lambda each=cluster: len(each.status("Backup", "shop")["members"]) == 2, "both", limit_s=120)
        assert [member.get("own") for member in cluster.status("Backup", "shop")["members"]].count(True) == 1
    assert len(one.repository.backups()) == 1

    one.kill()
    generation = two.change("shop", state="paused")
    wait_until(lambda: two.phases(IDENTITY) == [BackupPhase.PAUSED], "the other one goes on", limit_s=120)
    begin(one)
    wait_until(lambda: "declares other values: state" in told(one), "one that differs says so", limit_s=120)
    wait_until(lambda: two.get("shop")["status"]["reconciled"] is True, "what counts has come about", limit_s=120)
    before = entries(one)
    looked = [cluster.folder / "operator.log" for cluster in clusters]
    assert all(path.exists() for path in looked)
    generation = one.change("shop", agents={"replicas": 2})
    wait_until(lambda: one.status("Backup", "shop")["observedGeneration"] == generation, "it looks on", limit_s=120)
    assert (entries(one), two.phases(IDENTITY)) == (before, [BackupPhase.PAUSED]), "none undoes what the other one does"
    one.change("shop", state="paused")
    wait_until(lambda: one.get("shop")["status"]["reconciled"] is True, "both declare the same", limit_s=120)
    one.change("shop", state="running")
    wait_until(lambda: two.phases(IDENTITY) == [BackupPhase.RUNNING], "what is changed last counts", limit_s=120)
    generation = two.change("shop", state="running")
    wait_until(lambda: two.is_as_declared("shop", generation), "both declare the same", limit_s=120)

    one.delete("shop")
    wait_until(lambda: one.is_gone("shop"), "one of them goes", limit_s=120)
    assert two.phases(IDENTITY) == [BackupPhase.RUNNING]
    one.make("shop", identity=IDENTITY)
    wait_until(lambda: one.is_as_declared("shop", 1), "it joins again", limit_s=120)

    two.kill()
    two.delete("shop")
    one.delete("shop")
    wait_until(lambda: one.is_gone("shop"), "who is not heard of keeps the backup", limit_s=120)
    assert two.phases(IDENTITY) == [BackupPhase.RUNNING]
    assert len(one.repository.backups()) == 1
    begin(two)
    wait_until(lambda: two.is_gone("shop"), "the last one goes", limit_s=240)
    assert two.phases(IDENTITY) == [BackupPhase.REMOVED]
    assert one.repository.backups() == ()


def test_a_cluster_whose_operator_does_not_list_the_identity_has_no_part_in_it(
    clusters: tuple[Cluster, Cluster],
) -> None:
    one, two = clusters
    (two.folder / "accounts.yaml").write_text((two.folder / "accounts.yaml").read_text().replace(IDENTITY, "another"))
    for cluster in clusters:
        begin(cluster)
    one.make("shop", identity=IDENTITY)
    wait_until(lambda: one.phases(IDENTITY) == [BackupPhase.RUNNING], "the backup begins", limit_s=120)
    one.copy(IDENTITY)
    wait_until(lambda: one.is_as_declared("shop", 1), "all is as declared", limit_s=120)
    before = entries(one)
    two.make("shop", identity=IDENTITY, state="stopped")
    wait_until(lambda: "does not list the identity" in told(two), "it is refused", limit_s=120)
    assert DEPLOYMENT not in two.proxy.deployments.objects
    two.delete("shop")
    wait_until(lambda: two.is_gone("shop"), "it goes", limit_s=120)
    assert (entries(one), one.phases(IDENTITY)) == (before, [BackupPhase.RUNNING])
