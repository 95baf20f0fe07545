"""What a resource may write into the pods of its agents, and how that is merged. Agents hold secrets: a field is
allowed because somebody looked at it, and all others are refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from docs.deployed import by_default, operator_manifests
from offsite.operator.decide.backup import QUIET_MS
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.kubernetes.agents import AGENTS, AgentPods, agent_deployment
from offsite.operator.kubernetes.api import ResourceReference, merge_patch, strategic_merge
from offsite.operator.resources.backup import Agents, AgentTemplate
from offsite.repository.declared.history import BackupPhase
from offsite.stores.posix_store import PosixStore
from tests.unit.operator.kubernetes.kubernetes_home import DEPLOYMENT, IMAGE, World, opened_world
from tests.unit.operator.kubernetes.memory_cluster import merge
from tests.unit.operator.resources.documents import POD_TEMPLATE

NAMED = ResourceReference(kind="Backup", namespace="shops", name="shop", uid="u")
CORE = "/api/v1/namespaces/shops"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def made_of(template: dict[str, Any]) -> dict[str, Any]:
    """The pod template that agents get."""
    wanted = DesiredAgents(
        replicas=1,
        template=AgentTemplate.model_validate(template),
        place=RepositoryPlace(account="main", repository="s3://bucket/kafka"),
        cluster="shop",
    )
    found: dict[str, Any] = agent_deployment(AgentPods(named=NAMED, agents=wanted, image=IMAGE))["spec"]["template"]
    return found


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "agent", **fields}]}}


def mounted(path: str, volume: str = "a") -> dict[str, Any]:
    mounts = [{"name": volume, "mountPath": path}]
    return {"spec": {**container(volumeMounts=mounts)["spec"], "volumes": [{"name": "a", "emptyDir": {}}]}}


def volume(**source: Any) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "a", **source}]}}


def affinity(term: dict[str, Any]) -> dict[str, Any]:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
    return {"spec": {"affinity": {"podAntiAffinity": terms}}}


def test_what_is_merged_is_a_deployment_as_people_know_it() -> None:
    pod, plain = made_of(POD_TEMPLATE), made_of({})

    assert pod["metadata"] == {
        "labels": plain["metadata"]["labels"] | {"team": "shop"},
        "annotations": {"example.com/owner": "shop"},
    }
    spec, (agent,), (before,) = pod["spec"], pod["spec"]["containers"], plain["spec"]["containers"]
    for name in ("serviceAccountName", "nodeSelector", "tolerations", "affinity"):
        assert spec[name] == POD_TEMPLATE["spec"][name]
    assert (agent["image"], agent["command"]) == ("mirror/offsite:1", before["command"])
    assert agent["env"] == [*before["env"], {"name": "TZ", "value": "Europe/Zurich"}]
    assert agent["resources"] == POD_TEMPLATE["spec"]["containers"][0]["resources"]
    assert agent["volumeMounts"] == [*before["volumeMounts"], *POD_TEMPLATE["spec"]["containers"][0]["volumeMounts"]]
    assert spec["volumes"][:2] == [
        {"name": "temporary", "emptyDir": {"sizeLimit": "20Gi"}},
        plain["spec"]["volumes"][1],
    ]
    assert spec["volumes"][2:] == POD_TEMPLATE["spec"]["volumes"][1:]


def test_what_keeps_agents_in_their_place_is_the_same_whatever_a_template_says() -> None:
    pod, plain = made_of(POD_TEMPLATE)["spec"], made_of({})["spec"]

    for name in ("securityContext", "automountServiceAccountToken", "terminationGracePeriodSeconds"):
        assert pod[name] == plain[name]
    (agent,), (before,) = pod["containers"], plain["containers"]
    for name in ("command", "envFrom", "securityContext"):
        assert agent[name] == before[name]
    chosen = {"serviceAccountName", "serviceAccount", "nodeSelector", "tolerations", "affinity"}
    assert pod.keys() - plain.keys() == chosen
    assert agent.keys() == before.keys()


def test_without_one_agents_are_as_they_were() -> None:
    """Else all of them would be replaced by an upgrade of the operator."""
    assert made_of({}).keys() == {"metadata", "spec"}
    assert made_of({"resources": {"cpu": "1"}})["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_the_container_says_more_than_the_short_words() -> None:
    short = {
        "image": "offsite:1",
        "environment": {"TZ": "UTC", "LANG": "C"},
        "resources": {"cpu": "1", "memory": "1Gi"},
    }
    told = container(image="mirror/offsite:1", env=[{"name": "TZ", "value": "x"}], resources={"requests": {"cpu": "2"}})
    (agent,) = made_of(short | told)["spec"]["containers"]

    assert agent["image"] == "mirror/offsite:1"
    assert [each["value"] for each in agent["env"] if each["name"] in {"TZ", "LANG"}] == ["x", "C"]
    assert agent["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}


def test_labels_by_which_pods_are_found_cannot_be_changed() -> None:
    labels = {"app.kubernetes.io/name": "web", "offsite.dev/backup-uid": "another"}
    assert made_of({"metadata": {"labels": labels}})["metadata"] == made_of({})["metadata"]


def test_no_variable_is_put_into_one_that_a_template_sets() -> None:
    found = made_of(container(env=[{"name": "OFFSITE_CLIENT_RACK", "value": "$(AWS_SECRET_ACCESS_KEY)"}]))
    assert {"name": "OFFSITE_CLIENT_RACK", "value": "$$(AWS_SECRET_ACCESS_KEY)"} in found["spec"]["containers"][0][
        "env"
    ]


REFUSED: dict[str, dict[str, Any]] = {
    **{
        f"spec.{name}": {"spec": {name: value}}
        for name, value in {
            "hostNetwork": True,
            "hostPID": True,
            "hostIPC": True,
            "hostUsers": True,
            "shareProcessNamespace": True,
            "automountServiceAccountToken": True,
            "securityContext": {"runAsUser": 0},
            "initContainers": [{"name": "a", "image": "offsite:1"}],
            "ephemeralContainers": [{"name": "a"}],
            "nodeName": "control-plane",
            "schedulerName": "mine",
            "priorityClassName": "system-node-critical",
            "runtimeClassName": "weak",
            "imagePullSecrets": [{"name": "of-others"}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["s3.amazonaws.com"]}],
            "dnsConfig": {"nameservers": ["10.0.0.1"]},
            "dnsPolicy": "None",
            "resourceClaims": [{"name": "a"}],
            "overhead": {"cpu": "1"},
            "readinessGates": [{"conditionType": "a"}],
            "terminationGracePeriodSeconds": 0,
            "serviceAccount": "admin",
            "serviceAccountName": "shops/admin",
            "nodeSelector": {"a b": "c"},
            "tolerations": [{"key": "a", "operator": "Like"}],
        }.items()
    },
    **{
        f"container.{name}": container(**{name: value})
        for name, value in {
            "command": ["sh"],
            "args": ["-c"],
            "envFrom": [{"secretRef": {"name": "of-others"}}],
            "securityContext": {"privileged": True},
            "lifecycle": {"postStart": {"exec": {"command": ["sh"]}}},
            "livenessProbe": {"exec": {"command": ["sh"]}},
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "volumeDevices": [{"name": "a", "devicePath": "/dev/sda"}],
            "workingDir": "/mnt/a",
            "tty": True,
            "imagePullPolicy": "Never",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }.items()
    },
    "a container of its own": {"spec": {"containers": [{"name": "sidecar", "image": "offsite:1"}]}},
    "two containers": {"spec": {"containers": [{"name": "agent"}, {"name": "agent"}]}},
    "a variable out of a secret": container(
        env=[{"name": "TZ", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
    ),
    "a variable twice": container(env=[{"name": "TZ"}, {"name": "TZ"}]),
    **{
        f"volume.{name}": volume(**{name: value})
        for name, value in {
            "hostPath": {"path": "/"},
            "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
            "downwardAPI": {"items": []},
            "csi": {"driver": "secrets-store.csi.k8s.io"},
            "nfs": {"server": "10.0.0.1", "path": "/"},
            "ephemeral": {"volumeClaimTemplate": {"spec": {}}},
            "image": {"reference": "evil/image"},
            "flexVolume": {"driver": "a"},
            "local": {"path": "/"},
        }.items()
    },
    "a volume of nothing": volume(),
    "a volume of two sources": volume(emptyDir={}, secret={"secretName": "a"}),
    "a volume twice": {"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}},
    "the volume of the cluster": {"spec": {"volumes": [{"name": "cluster", "emptyDir": {}}]}},
    "temporary files on a claim": {
        "spec": {"volumes": [{"name": "temporary", "persistentVolumeClaim": {"claimName": "a"}}]}
    },
    "a path within a volume": {
        "spec": {
            **mounted("/mnt/a")["spec"],
            **container(volumeMounts=[{"name": "a", "mountPath": "/mnt/a", "subPath": "b"}])["spec"],
        }
    },
    **{
        f"a mount at {path}": mounted(path)
        for path in (
            *("/", "/mnt", "/mnt/", "/mnt/..", "/mnt/../etc", "/mnt/a/../../usr", "/mnt/.a", "/mntx/a", "mnt/a"),
            *("/usr/lib/python3", "/tmp", "/tmp/cache", "/etc/offsite/cluster", "/mnt/a:b", "/mnt/a\n", "/mnt//a"),
            *("/proc/self", "/mnt/a b", "/mnt/$(TZ)"),
        )
    },
    "a mount of what is not there": mounted("/mnt/a", volume="b"),
    "a mount of the cluster's": mounted("/mnt/a", volume="cluster"),
    "pods of other namespaces": affinity({"namespaces": ["others"]}),
    "pods of all namespaces": affinity({"namespaceSelector": {}}),
    "a name of the pod": {"metadata": {"name": "a"}},
    "an owner of the pod": {"metadata": {"ownerReferences": []}},
    "finalizers of the pod": {"metadata": {"finalizers": ["a"]}},
    "a label that is no name": {"metadata": {"labels": {"-a": "b"}}},
    "a label of two lines": {"metadata": {"labels": {"a": "b\n"}}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_listed_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        AgentTemplate.model_validate(REFUSED[name])


def test_what_is_refused_is_told_and_makes_nothing(world: World) -> None:
    uid = world.make(agents={"template": volume(hostPath={"path": "/"})})
    world.look(world.home())

    assert (
        "agents.template.spec.volumes.0.hostPath: there is no such field" in world.conditions()["MisconfiguredBackup"]
    )
    assert (world.cluster.get(DEPLOYMENT), world.lows(uid)) == (None, ())


@pytest.mark.parametrize("name", ["LD_PRELOAD", "OFFSITE_KAFKA_CONFIG", "AWS_ENDPOINT_URL", "HOME"])
def test_a_variable_that_is_not_listed_is_refused_where_it_is_written(world: World, name: str) -> None:
    world.make(agents={"template": container(env=[{"name": name, "value": "x"}])})
    world.look(world.home())

    assert name in world.conditions()["MisconfiguredBackup"]
    assert world.cluster.get(DEPLOYMENT) is None


def test_an_image_is_listed_wherever_it_is_named(world: World) -> None:
    home = world.home(images=("mirror/offsite:1",))
    world.make(agents={"template": {"image": IMAGE, **container(image="evil/image")}})
    world.look(home)
    assert "'evil/image' is not allowed for agents" in world.conditions()["MisconfiguredBackup"]
    assert world.cluster.get(DEPLOYMENT) is None

    world.change(agents={"template": container(image="mirror/offsite:1")})
    world.look(home)
    assert world.deployment()["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror/offsite:1"


def test_labels_and_annotations_are_those_that_the_operator_lists(world: World) -> None:
    names = {"labels": {"team": "shop"}, "annotations": {"sidecar.istio.io/userVolume": "[]"}}
    world.make(agents={"template": {"metadata": names}})
    world.look(world.home(metadata=("team",)))
    told = world.conditions()["MisconfiguredBackup"]
    assert "'sidecar.istio.io/userVolume' is not allowed for pods of agents; allowed: team" in told
    assert "--allow-metadata" in told
    assert world.cluster.get(DEPLOYMENT) is None

    world.change(agents={"template": {"metadata": {"annotations": None}}})
    world.look(world.home(metadata=("team",)))
    assert world.deployment()["spec"]["template"]["metadata"]["labels"]["team"] == "shop"


def list_service_accounts(world: World, *names: str) -> None:
    accounts = yaml.safe_load((world.root / "accounts.yaml").read_text())
    accounts[0]["serviceAccounts"] = list(names)
    (world.root / "accounts.yaml").write_text(yaml.safe_dump(accounts))


def test_a_service_account_is_one_that_the_account_lists(world: World) -> None:
    list_service_accounts(world, "another")
    world.make(agents={"template": {"spec": {"serviceAccountName": "shop-backup"}}})
    world.look(world.home())
    told = world.conditions()["MisconfiguredBackup"]
    assert "serviceAccountName 'shop-backup' is not allowed for agents" in told
    assert "write into account backups in accounts.yaml: serviceAccounts: [shop-backup]" in told
    assert world.cluster.get(DEPLOYMENT) is None

    list_service_accounts(world, "another", "shop-backup")
    world.look(world.home())
    pod = world.deployment()["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("shop-backup", False)


def test_what_an_account_lists_is_for_its_own_agents(world: World) -> None:
    list_service_accounts(world, "shop-backup")
    template = {"spec": {"serviceAccountName": "shop-backup"}}
    world.make(destination={"account": "elsewhere"}, agents={"template": template})
    world.look(world.home())

    assert "write into account elsewhere" in world.conditions()["MisconfiguredBackup"]
    assert world.cluster.get(DEPLOYMENT) is None


@pytest.mark.parametrize(
    ("source", "plural", "said"),
    [
        ({"secret": {"secretName": "keys"}}, "secrets", "Secret keys"),
        (
            {"persistentVolumeClaim": {"claimName": "keys"}},
            "persistentvolumeclaims",
            "PersistentVolumeClaim keys",
        ),
    ],
)
def test_what_belongs_to_somebody_is_mounted_with_its_label_alone(
    world: World, source: dict[str, Any], plural: str, said: str
) -> None:
    home = world.home()
    world.make(agents={"template": volume(**source)})
    world.look(home)
    assert f"there is no {said} in namespace shops" in world.conditions()["MisconfiguredBackup"]

    world.cluster.create(f"{CORE}/{plural}", {"metadata": {"name": "keys"}})
    world.look(home)
    command = f"kubectl -n shops label {said.split(maxsplit=1)[0].lower()} keys offsite.dev/for-agents=true"
    assert command in world.conditions()["MisconfiguredBackup"]
    assert world.cluster.get(DEPLOYMENT) is None

    world.cluster.objects[f"{CORE}/{plural}/keys"]["metadata"]["labels"] = {"offsite.dev/for-agents": "true"}
    world.look(home)
    assert {"name": "a", **source} in world.deployment()["spec"]["template"]["spec"]["volumes"]


def test_what_is_taken_out_of_a_template_goes_and_what_others_put_there_stays(world: World) -> None:
    """A patch merges maps: a selector that nobody wants any more would stay for ever."""
    template = {"spec": {"nodeSelector": {"disk": "ssd", "zone": "a"}}, "metadata": {"labels": {"team": "shop"}}}
    world.make(agents={"replicas": 1, "template": template})
    home = world.home(metadata=("team",))
    world.look(home)
    world.cluster.patch(DEPLOYMENT, {"spec": {"template": {"metadata": {"annotations": {"restarted": "at"}}}}})
    world.change(agents={"template": {"spec": {"nodeSelector": {"zone": None}}, "metadata": {"labels": None}}})
    world.look(home)

    pod = world.deployment()["spec"]["template"]
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "team" not in pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"] == {"restarted": "at"}

    world.change(agents={"template": {"spec": None}})
    world.look(home)
    assert "nodeSelector" not in world.deployment()["spec"]["template"]["spec"]


def test_of_pods_whose_note_is_lost_nothing_stays_that_nobody_asks_for(world: World) -> None:
    """Another version of the operator may have written it, with fields that this one does not know."""
    world.make(agents={"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}})
    home = world.home()
    world.look(home)
    world.cluster.patch(DEPLOYMENT, {"metadata": {"annotations": {AGENTS: "{}"}}})
    world.change(agents={"template": {"spec": None}})
    world.look(home)

    assert "nodeSelector" not in world.deployment()["spec"]["template"]["spec"]


def test_pods_that_never_run_keep_nobody_else_from_a_first_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes tries for ever what no node takes, and images and volumes that there are not."""
    home, later_ms, now_ms = world.home(), [0], PosixStore.now_ms
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: now_ms(store) + later_ms[0])

    def go_round() -> None:
        for _ in range(5):
            home.round()
            world.clock.sleep(31)

    uid = world.make(agents={"template": {"spec": {"nodeSelector": {"disk": "none"}}}})
    go_round()
    other = world.make("fair")
    go_round()
    assert [each.phase for each in world.lows(uid)] == [BackupPhase.RUNNING]
    assert world.lows(other) == ()

    later_ms[0] = QUIET_MS + 60_000
    go_round()
    assert [each.phase for each in world.lows(uid)] == [BackupPhase.PAUSED]
    assert [each.phase for each in world.lows(other)] == [BackupPhase.RUNNING]
    assert world.conditions()["IncorrectBackupState"].endswith("it waits for the initial copy of other backups")
    assert "describe pods" in world.conditions()["DeploymentRollingOut"]

    world.copy(other)
    go_round()
    assert world.conditions()["IncorrectBackupState"].endswith("none of its agents is running")
    world.look(home)
    assert [each.phase for each in world.lows(uid)] == [BackupPhase.RUNNING]


def test_a_deletion_that_waits_for_a_pod_says_so(world: World) -> None:
    """That of a node which is gone ends when somebody says that it is gone."""
    home, _ = world.running()
    world.cluster.objects[DEPLOYMENT]["metadata"]["finalizers"] = ["foregroundDeletion"]
    world.delete()
    world.look(home, times=6)

    assert world.conditions()["IncorrectBackupState"] == "its agents end first"


@pytest.mark.parametrize("pod", [made_of({})["spec"], operator_manifests(by_default)[-1]["spec"]["template"]["spec"]])
def test_no_service_of_the_namespace_becomes_a_variable(pod: dict[str, Any]) -> None:
    """One named `pyspark-gateway` would set PYSPARK_GATEWAY_PORT, and thousands more than a process may have."""
    assert pod["enableServiceLinks"] is False


def test_an_amount_may_be_a_number_as_in_a_deployment() -> None:
    amounts = {"limits": {"cpu": 2, "memory": "1Gi"}}
    size = {"volumes": [{"name": "temporary", "emptyDir": {"sizeLimit": 1073741824}}]}
    pod = made_of({"resources": {"cpu": 1}, "spec": {**container(resources=amounts)["spec"], **size}})["spec"]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    assert pod["volumes"][0] == {"name": "temporary", "emptyDir": {"sizeLimit": "1073741824"}}


def test_lists_with_names_are_merged_and_others_are_replaced() -> None:
    base = {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}], "command": ["a"]}], "tolerations": [1]}
    patch = {
        "containers": [{"name": "a", "env": [{"name": "y"}, {"name": "x", "value": "2"}], "command": ["b"]}],
        "tolerations": [2],
        "volumes": [{"name": "v"}],
    }
    before = copy.deepcopy(base)

    assert strategic_merge(base, patch) == {
        "containers": [{"name": "a", "env": [{"name": "x", "value": "2"}, {"name": "y"}], "command": ["b"]}],
        "tolerations": [2],
        "volumes": [{"name": "v"}],
    }
    assert base == before


def test_a_patch_makes_one_state_of_another() -> None:
    before, after = {"a": {"b": 1, "c": {"d": 1}}, "e": [1], "f": 1}, {"a": {"c": {"g": 2}}, "e": [2]}
    found = json.loads(json.dumps(before))
    merge(found, merge_patch(before, after))
    assert found == after


def test_the_templates_of_the_how_to_are_taken() -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")
    texts = [block.partition("```")[0] for block in page.split("```yaml\n") if block.startswith("agents:")]
    of_login, whole = [Agents.model_validate(yaml.safe_load(text)["agents"]).template for text in texts]

    assert whole.spec.tolerations
    assert made_of(whole.model_dump(mode="json", by_alias=True))["spec"]["serviceAccountName"]
    (secret,) = [volume.secret for volume in of_login.spec.volumes if volume.secret]
    assert secret.default_mode == 0o440
