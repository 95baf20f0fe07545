"""Agents as pods: a Deployment per backup, with the name of the resource, and owned by the resource.

The pod template of a resource is merged into the pod made here (`resources.pod_template` lists the allowed fields).

An annotation records the configuration of the agents, so an observation reads only the Deployment. A person may change,
scale or delete the Deployment: the next reconciliation restores the Deployment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from offsite.model.errors import BadResource, OffsiteError, ResourceConflict
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.kubernetes.api import Body, KubernetesApi, ResourceReference, merge_patch, strategic_merge
from offsite.operator.kubernetes.strimzi import StrimziAccess, find_access
from offsite.operator.resources.backup import AgentTemplate, StrimziListener
from offsite.operator.resources.model import API_VERSION, GROUP

Manifest = dict[str, Any]

USER_ID = 65532
"""The user of the image (deploy/image/Dockerfile)."""
TEMPORARY_FOLDER = "/tmp"  # noqa: S108  # a folder of the container's own
FOLDERS = {
    "HOME": TEMPORARY_FOLDER,
    "XDG_CACHE_HOME": f"{TEMPORARY_FOLDER}/cache",
    "XDG_STATE_HOME": f"{TEMPORARY_FOLDER}/state",
}
"""Variables of writable folders: the rest of a container is read-only."""
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
    "runAsGroup": USER_ID,
    "fsGroup": USER_ID,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
AGENTS = f"{GROUP}/agents"
"""Annotation: configuration of the agents of a Deployment."""
SPEC_HASH = f"{GROUP}/made-of"
"""Annotation: hash of all fields set by the operator. Another version of the operator may set other fields."""
UID = f"{GROUP}/backup-uid"
"""Label: the resource of the agents."""
FOR_AGENTS = f"{GROUP}/for-agents"
"""Label of a Secret or a claim, `true`: agents may mount the object. Only a person with write access to the object can
set the label."""
PROPERTIES = f"{GROUP}/client-properties"
"""Annotation of pods: the file `client.properties` for a listener of Strimzi, without a secret."""
LOGIN = f"{GROUP}/login"
"""Annotation of pods: the version of the Secret of a KafkaUser. So another password or certificate replaces the agents,
one after the other."""
REPLICAS_DIFFER = -1
"""The reported replicas of a Deployment that differs from the Deployment of this operator: made by another version,
scaled by hand, or with an unlabelled Secret. So the Deployment is configured again."""
CLUSTER_FOLDER = "/etc/offsite/cluster"
CLUSTER_FILE = "client.properties"
_SECRET_MODE = 0o440  # for the group of the agent (`fsGroup`), where Kubernetes has all users by default
_SECONDS_TO_END = 45  # an agent commits what it has and lets its lease go within 30 s


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAgents:
    """Implements `AgentRuntime`. `image`: image of agents whose template names none. `named`: the managed resources by
    uid."""

    cluster: KubernetesApi
    image: str
    named: dict[str, ResourceReference] = field(default_factory=dict)

    def observe(self, uid: str) -> ObservedAgents:
        deployment = self._own(uid)
        if (
            deployment is None
            or deployment["metadata"].get("deletionTimestamp")
            or (agents := parse_agents(deployment)) is None
        ):
            return ObservedAgents()
        pods = self._pods(self.named[uid], agents, deployment)
        expected = agent_deployment(pods)
        is_same = _made_of(deployment) == _made_of(expected) and deployment["spec"].get("replicas") == agents.replicas
        is_same = is_same and not self._unlabelled(pods)
        return ObservedAgents(
            configured=agents if is_same else replace(agents, replicas=REPLICAS_DIFFER),
            ready=_ready(deployment),
            problem=pods.problem,
        )

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        named = self.named[uid]
        deployment = self.cluster.get(named.deployment_path)
        is_own = deployment is not None and _uid(deployment) == uid
        if agents is None:
            if deployment is not None and is_own:
                self.cluster.delete(named.deployment_path, uid=deployment["metadata"]["uid"])
            return
        pods = self._pods(named, agents, deployment if is_own else None)
        if problem := self._unlabelled(pods):
            raise BadResource(problem)
        if deployment is not None and is_own:
            self._patch(deployment, pods)
        elif self._is_there(named):  # of one that is gone nothing is made, and nothing of its name is touched
            if deployment is not None:
                self._make_room(named, deployment)
            self.cluster.create(named.deployments_path, agent_deployment(pods))

    def alive(self, uid: str) -> int:
        """Return how many agents may still run: a Deployment exists until its last pod ended."""
        deployment = self._own(uid)
        return 0 if deployment is None else max(1, int(deployment.get("status", {}).get("replicas") or 0))

    def unseen(self, uid: str) -> int:  # noqa: ARG002  # as the port has it: `alive` tells of all nodes
        return 0

    def problem(self, uid: str) -> str:
        """Return the problem reported by Kubernetes: an exhausted quota, or no progress for ten minutes."""
        conditions = (self._own(uid) or {}).get("status", {}).get("conditions") or ()
        bad = {("ReplicaFailure", "True"), ("Progressing", "False")}
        said = [
            str(condition.get("message", ""))
            for condition in conditions
            if (condition.get("type"), condition.get("status")) in bad
        ]
        return "; ".join(filter(None, said))

    def _pods(self, named: ResourceReference, agents: DesiredAgents, deployment: Body | None) -> AgentPods:
        """Return what the pods are made of. While a listener of Strimzi cannot be found, agents that run keep the way
        to it that they have. Raises the errors of `find_access` where there is none."""
        pods = AgentPods(named=named, agents=agents, image=self.image)
        if agents.strimzi is None:
            return pods
        access, problem = self._access(named, agents.strimzi, deployment)
        secret = self.cluster.metadata(named.core_path("secrets", access.secret)) if access.secret else None
        login = str((secret or {}).get("resourceVersion", ""))
        return replace(pods, access=access, login=login, problem=problem)

    def _access(
        self, named: ResourceReference, source: StrimziListener, deployment: Body | None
    ) -> tuple[StrimziAccess, str]:
        """Return the way to the listener; and why it is an earlier one, empty if it is not."""
        try:
            return find_access(self.cluster, source, named.namespace, folder=CLUSTER_FOLDER), ""
        except OffsiteError as error:
            before = parse_agents(deployment) if deployment is not None else None
            access = parse_access(deployment) if deployment is not None else None
            if access is None or before is None or before.strimzi != source:
                raise
            return access, f"agents go on with an earlier address and login: {error.id}: {error.message}"

    def _unlabelled(self, pods: AgentPods) -> str:
        """Return what is wrong with the Secrets and claims of the agents; empty: nothing."""
        named = pods.named
        for kind, name in pods.labelled_objects:
            metadata = self.cluster.metadata(named.core_path(f"{kind.lower()}s", name))
            if metadata is None:
                return (
                    f"there is no {kind} {name} in namespace {named.namespace}: create it with label {FOR_AGENTS}=true"
                )
            if (metadata.get("labels") or {}).get(FOR_AGENTS) != "true":
                command = f"kubectl -n {named.namespace} label {kind.lower()} {name} {FOR_AGENTS}=true"
                return f"{kind} {name} is not for agents; to allow it: {command}"
        return ""

    def _own(self, uid: str) -> Body | None:
        deployment = self.cluster.get(self.named[uid].deployment_path)
        return deployment if deployment is not None and _uid(deployment) == uid else None

    def _is_there(self, named: ResourceReference) -> bool:
        now = self.cluster.get(named.path)
        return now is not None and ResourceReference.of(now) == named

    def _patch(self, deployment: Body, pods: AgentPods) -> None:
        """Patch the Deployment like `kubectl apply`: fields that the operator set before and no longer sets are
        removed, and fields of others stay. If the earlier fields of the operator are unknown, all other fields of the
        pod template are removed."""
        before, after = parse_agents(deployment), agent_deployment(pods)
        own = {"spec": {"template": deployment["spec"]["template"]}}
        patch = merge_patch(own if before is None else agent_deployment(_former(pods, before, deployment)), after)
        patch["metadata"]["uid"] = deployment["metadata"]["uid"]
        self.cluster.patch(pods.named.deployment_path, patch)

    def _make_room(self, named: ResourceReference, deployment: Body) -> None:
        """Delete the Deployment of a deleted resource with the same name. Raises `ResourceConflict` until the former
        Deployment is gone, and for a Deployment of another owner, which stays."""
        if _uid(deployment):
            self.cluster.delete(named.deployment_path, uid=deployment["metadata"]["uid"])
            if self.cluster.get(named.deployment_path) is None:
                return
            raise ResourceConflict(
                f"agents of a former backup {named.name} are still stopping", hint="wait for their end"
            )
        raise ResourceConflict(
            f"there is a Deployment {named.name} that does not belong to this backup",
            hint="give the backup another name",
        )


def parse_agents(deployment: Body) -> DesiredAgents | None:
    """Parse the configuration of the agents; None if the annotation cannot be read."""
    try:
        noted = json.loads(deployment["metadata"]["annotations"][AGENTS])
        return DesiredAgents(
            replicas=int(noted["replicas"]),
            template=AgentTemplate.model_validate(noted["template"]),
            place=RepositoryPlace(account=str(noted["account"]), repository=str(noted["repository"])),
            cluster=str(noted["cluster"]),
            maximum_retention=str(noted.get("maximumRetention", "")),
            minimum_restorable=str(noted.get("minimumRestorable", "")),
            identity=str(noted.get("identity", "")),
            strimzi=StrimziListener.model_validate(noted["strimzi"]) if noted.get("strimzi") else None,
        )
    except (KeyError, TypeError, ValueError):
        return None


def parse_access(deployment: Body) -> StrimziAccess | None:
    """Parse the way to a listener of Strimzi; None for agents that reach their cluster by a Secret of their own."""
    try:
        noted = json.loads(deployment["metadata"]["annotations"][AGENTS])["access"]
        return StrimziAccess(
            properties=str(noted["properties"]), secret=str(noted["secret"]), keys=tuple(map(str, noted["keys"]))
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPods:
    """What the pods of a backup are made of. `access`: the way to a listener of Strimzi; None: as the Secret of the
    cluster says. `login`: the version of the Secret of the KafkaUser. `problem`: why `access` is an earlier one, empty
    if it is not."""

    named: ResourceReference
    agents: DesiredAgents
    image: str
    access: StrimziAccess | None = None
    login: str = ""
    problem: str = ""

    @property
    def account_secret(self) -> str:
        """The Secret that opens the repository; empty for none."""
        account = self.agents.place.account
        return f"offsite-account-{account}" if account else ""

    @property
    def cluster_secret(self) -> str:
        """The Secret by which agents log in; empty for a listener without authentication."""
        return self.access.secret if self.access is not None else f"offsite-cluster-{self.agents.cluster}"

    @property
    def labelled_objects(self) -> tuple[tuple[str, str], ...]:
        """The kinds and names of all objects that must have the label."""
        volumes = self.agents.template.spec.volumes
        secrets = (self.cluster_secret, self.account_secret, *(v.secret.secret_name for v in volumes if v.secret))
        claims = (v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim)
        return (
            *(("Secret", secret) for secret in secrets if secret),
            *(("PersistentVolumeClaim", claim) for claim in claims),
        )


def agent_deployment(pods: AgentPods) -> Manifest:
    """Make the whole Deployment. Pods are selected by uid: pods of a former resource are never taken for pods of this
    one.

    Agents read Secrets in the namespace of the resource, by name: `offsite-account-<account>` holds the variables that
    open the repository, `offsite-cluster-<cluster>` holds the file `client.properties` that reaches the brokers. For a
    listener of Strimzi, the Secret of the KafkaUser holds the files that `client.properties` names. All must have a
    label for agents: a name in a resource alone mounts nothing. The same label is needed on Secrets and claims named by
    the pod template. The operator reads only the metadata of these objects, and no data.
    """
    named, agents = pods.named, pods.agents
    selected = {"app.kubernetes.io/name": "offsite", "app.kubernetes.io/component": "agent", UID: named.uid}
    labels = {**selected, "app.kubernetes.io/instance": named.name, "app.kubernetes.io/managed-by": "offsite"}
    spec: Manifest = {
        "replicas": agents.replicas,
        "selector": {"matchLabels": selected},
        # one more would only stand by: the backup goes on while agents are replaced one after the other
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": _pod_template(pods, labels),
    }
    owner = {"apiVersion": API_VERSION, "kind": "Backup", "name": named.name, "uid": named.uid}
    metadata = {
        "name": named.name,
        "namespace": named.namespace,
        "labels": labels,
        "annotations": {AGENTS: json.dumps(_fields(pods), sort_keys=True), SPEC_HASH: _hash(spec)},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _former(pods: AgentPods, agents: DesiredAgents, deployment: Body) -> AgentPods:
    """What the pods of an existing Deployment are made of, as far as fields may have to go: values do not count."""
    return replace(pods, agents=agents, access=parse_access(deployment), login="before")


def _pod_template(pods: AgentPods, labels: Mapping[str, str]) -> Manifest:
    """Merge the pod template of the resource into the pod of the operator. The operator's own labels and annotations
    stay."""
    login = {LOGIN: pods.login} if pods.login else {}
    annotations = {PROPERTIES: pods.access.properties, **login} if pods.access is not None else {}
    own = {"labels": {**labels}, "annotations": annotations}
    base = {"metadata": own, "spec": _pod(pods)}
    overrides = pods.agents.template.model_dump(
        mode="json", by_alias=True, include={"metadata", "spec"}, exclude_defaults=True
    )
    for container in overrides.get("spec", {}).get("containers", ()):
        for variable in container.get("env", ()):
            variable["value"] = _as_it_is(variable.get("value", ""))
    merged = strategic_merge(base, overrides)
    merged["metadata"] = strategic_merge(merged["metadata"], own)
    if name := merged["spec"].get("serviceAccountName"):
        merged["spec"]["serviceAccount"] = name  # its old name: an API server takes one from the other, and keeps it
    return merged


def _pod(pods: AgentPods) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _SECONDS_TO_END,
        "securityContext": {**POD_SECURITY},
        "containers": [_container(pods)],
        "volumes": [{"name": "temporary", "emptyDir": {}}, {"name": "cluster", **_cluster_volume(pods)}],
    }


def _cluster_volume(pods: AgentPods) -> Manifest:
    """`client.properties` in a Secret, or in an annotation of the pod, and then beside it a Secret of a KafkaUser."""
    if pods.access is None:
        return {
            "secret": {"secretName": pods.cluster_secret, "items": _items(CLUSTER_FILE), "defaultMode": _SECRET_MODE}
        }
    file = {"path": CLUSTER_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{PROPERTIES}']"}}
    of_user = {"secret": {"name": pods.access.secret, "items": _items(*pods.access.keys)}}
    sources = [{"downwardAPI": {"items": [file]}}, *([of_user] if pods.access.secret else [])]
    return {"projected": {"sources": sources, "defaultMode": _SECRET_MODE}}


def _items(*keys: str) -> list[Manifest]:
    return [{"key": key, "path": key} for key in keys]


def _container(pods: AgentPods) -> Manifest:
    agents, place, template = pods.agents, pods.agents.place, pods.agents.template
    reach = {"OFFSITE_KAFKA_CONFIG": f"{CLUSTER_FOLDER}/{CLUSTER_FILE}"}
    environment = {**template.environment, **FOLDERS, **reach, **template.spark_environment()}
    account = [{"secretRef": {"name": pods.account_secret}}] if pods.account_secret else []
    whose = ("--repo", place.repository, "--uid", agents.identity or pods.named.uid)
    words = ("offsite", "operator", "agent", *whose, *agents.retention_words)
    return {
        "name": "agent",
        "image": template.image or pods.image,
        "command": [*map(_as_it_is, words)],
        "env": variables({name: _as_it_is(value) for name, value in environment.items()}),
        "envFrom": account,
        "resources": {"requests": {**template.resources}},
        "securityContext": {**CONTAINER_SECURITY},
        "volumeMounts": [
            {"name": "temporary", "mountPath": TEMPORARY_FOLDER},
            {"name": "cluster", "mountPath": CLUSTER_FOLDER, "readOnly": True},
        ],
    }


def variables(values: Mapping[str, str]) -> list[Manifest]:
    """Return the variables in the form of a container."""
    return [{"name": name, "value": value} for name, value in values.items()]


def _as_it_is(text: str) -> str:
    """Escape `$`: Kubernetes expands `$(NAME)` to the value of a variable, after all checks, and also for a variable
    from a Secret."""
    return text.replace("$", "$$")


def _ready(deployment: Body) -> int:
    """The number of ready pods of the newest template; 0 until Kubernetes has observed the template."""
    status, metadata = deployment.get("status", {}), deployment["metadata"]
    if metadata.get("deletionTimestamp") or status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return 0
    return min(int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0))


def _uid(deployment: Body) -> str:
    """The uid of the owning resource; empty: a foreign Deployment."""
    return str(deployment["metadata"].get("labels", {}).get(UID, ""))


def _made_of(deployment: Body) -> str:
    return str(deployment["metadata"].get("annotations", {}).get(SPEC_HASH, ""))


def _hash(spec: Manifest) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]


def _fields(pods: AgentPods) -> Mapping[str, Any]:
    agents, strimzi = pods.agents, pods.agents.strimzi
    source = {"strimzi": strimzi.model_dump(mode="json", by_alias=True)} if strimzi is not None else {}
    access = {"access": asdict(pods.access)} if pods.access is not None else {}
    return {
        "replicas": agents.replicas,
        "template": agents.template.model_dump(mode="json", by_alias=True),
        "account": agents.place.account,
        "repository": agents.place.repository,
        "cluster": agents.cluster,
        "maximumRetention": agents.maximum_retention,
        "minimumRestorable": agents.minimum_restorable,
        "identity": agents.identity,
        **source,
        **access,
    }
