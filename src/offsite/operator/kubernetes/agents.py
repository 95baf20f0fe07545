"""Agents as pods: a Deployment per backup, with the name of the resource, and owned by the resource.

The pod template of a resource is merged into the pod made here (`resources.pod_template` lists the allowed fields).

An annotation records the configuration of the agents, so an observation reads only the Deployment. A person may change,
scale or delete the Deployment: the next reconciliation restores the Deployment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from offsite.model.errors import BadResource, ResourceConflict
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.kubernetes.api import Body, KubernetesApi, ResourceReference, merge_patch, strategic_merge
from offsite.operator.resources.backup import AgentTemplate
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
        expected = agent_deployment(self.named[uid], agents, self.image)
        is_same = _made_of(deployment) == _made_of(expected) and deployment["spec"].get("replicas") == agents.replicas
        is_same = is_same and not self._unlabelled(self.named[uid], agents)
        return ObservedAgents(
            configured=agents if is_same else replace(agents, replicas=REPLICAS_DIFFER), ready=_ready(deployment)
        )

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        named = self.named[uid]
        deployment = self.cluster.get(named.deployment_path)
        is_own = deployment is not None and _uid(deployment) == uid
        if agents is None:
            if deployment is not None and is_own:
                self.cluster.delete(named.deployment_path, uid=deployment["metadata"]["uid"])
        elif problem := self._unlabelled(named, agents):
            raise BadResource(problem)
        elif deployment is not None and is_own:
            self._patch(named, deployment, agents)
        elif self._is_there(named):  # of one that is gone nothing is made, and nothing of its name is touched
            if deployment is not None:
                self._make_room(named, deployment)
            self.cluster.create(named.deployments_path, agent_deployment(named, agents, self.image))

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

    def _unlabelled(self, named: ResourceReference, agents: DesiredAgents) -> str:
        """Return what is wrong with the Secrets and claims of the agents; empty: nothing."""
        for kind, name in labelled_objects(agents):
            labels = self.cluster.labels(named.core_path(f"{kind.lower()}s", name))
            if labels is None:
                return (
                    f"there is no {kind} {name} in namespace {named.namespace}: create it with label {FOR_AGENTS}=true"
                )
            if labels.get(FOR_AGENTS) != "true":
                command = f"kubectl -n {named.namespace} label {kind.lower()} {name} {FOR_AGENTS}=true"
                return f"{kind} {name} is not for agents; to allow it: {command}"
        return ""

    def _own(self, uid: str) -> Body | None:
        deployment = self.cluster.get(self.named[uid].deployment_path)
        return deployment if deployment is not None and _uid(deployment) == uid else None

    def _is_there(self, named: ResourceReference) -> bool:
        now = self.cluster.get(named.path)
        return now is not None and ResourceReference.of(now) == named

    def _patch(self, named: ResourceReference, deployment: Body, agents: DesiredAgents) -> None:
        """Patch the Deployment like `kubectl apply`: fields that the operator set before and no longer sets are
        removed, and fields of others stay. If the earlier fields of the operator are unknown, all other fields of the
        pod template are removed."""
        before, after = parse_agents(deployment), agent_deployment(named, agents, self.image)
        own = {"spec": {"template": deployment["spec"]["template"]}}
        patch = merge_patch(agent_deployment(named, before, self.image) if before is not None else own, after)
        patch["metadata"]["uid"] = deployment["metadata"]["uid"]
        self.cluster.patch(named.deployment_path, patch)

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
        )
    except (KeyError, TypeError, ValueError):
        return None


def agent_deployment(named: ResourceReference, agents: DesiredAgents, image: str) -> Manifest:
    """Make the whole Deployment. Pods are selected by uid: pods of a former resource are never taken for pods of this
    one.

    Agents read Secrets in the namespace of the resource, by name: `offsite-account-<account>` holds the variables that
    open the repository, `offsite-cluster-<cluster>` holds the file `client.properties` that reaches the brokers. Both
    must have a label for agents: a name in a resource alone mounts nothing. The same label is needed on Secrets and
    claims named by the pod template. The operator reads only the labels of these objects, and no data.
    """
    selected = {"app.kubernetes.io/name": "offsite", "app.kubernetes.io/component": "agent", UID: named.uid}
    labels = {**selected, "app.kubernetes.io/instance": named.name, "app.kubernetes.io/managed-by": "offsite"}
    spec: Manifest = {
        "replicas": agents.replicas,
        "selector": {"matchLabels": selected},
        # one more would only stand by: the backup goes on while agents are replaced one after the other
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": _pod_template(named, agents, image, labels),
    }
    owner = {"apiVersion": API_VERSION, "kind": "Backup", "name": named.name, "uid": named.uid}
    metadata = {
        "name": named.name,
        "namespace": named.namespace,
        "labels": labels,
        "annotations": {AGENTS: json.dumps(_fields(agents), sort_keys=True), SPEC_HASH: _hash(spec)},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def secret_names(agents: DesiredAgents) -> tuple[str, ...]:
    """The names of the Secrets of the agents: one of the cluster, and one of the account, if any."""
    account = (f"offsite-account-{agents.place.account}",) if agents.place.account else ()
    return (f"offsite-cluster-{agents.cluster}", *account)


def labelled_objects(agents: DesiredAgents) -> tuple[tuple[str, str], ...]:
    """The kinds and names of all objects that must have the label."""
    volumes = agents.template.spec.volumes
    return (
        *(("Secret", name) for name in secret_names(agents)),
        *(("Secret", volume.secret.secret_name) for volume in volumes if volume.secret),
        *(
            ("PersistentVolumeClaim", volume.persistent_volume_claim.claim_name)
            for volume in volumes
            if volume.persistent_volume_claim
        ),
    )


def _pod_template(named: ResourceReference, agents: DesiredAgents, image: str, labels: Mapping[str, str]) -> Manifest:
    """Merge the pod template of the resource into the pod of the operator. Labels that select pods stay."""
    base = {"metadata": {"labels": {**labels}}, "spec": _pod(named, agents, image)}
    overrides = agents.template.model_dump(
        mode="json", by_alias=True, include={"metadata", "spec"}, exclude_defaults=True
    )
    for container in overrides.get("spec", {}).get("containers", ()):
        for variable in container.get("env", ()):
            variable["value"] = _as_it_is(variable.get("value", ""))
    merged = strategic_merge(base, overrides)
    merged["metadata"]["labels"] |= labels
    if name := merged["spec"].get("serviceAccountName"):
        merged["spec"]["serviceAccount"] = name  # its old name: an API server takes one from the other, and keeps it
    return merged


def _pod(named: ResourceReference, agents: DesiredAgents, image: str) -> Manifest:
    items = [{"key": CLUSTER_FILE, "path": CLUSTER_FILE}]
    secret = {"secretName": secret_names(agents)[0], "items": items, "defaultMode": _SECRET_MODE}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _SECONDS_TO_END,
        "securityContext": {**POD_SECURITY},
        "containers": [_container(named, agents, image)],
        "volumes": [{"name": "temporary", "emptyDir": {}}, {"name": "cluster", "secret": secret}],
    }


def _container(named: ResourceReference, agents: DesiredAgents, image: str) -> Manifest:
    place, template = agents.place, agents.template
    reach = {"OFFSITE_KAFKA_CONFIG": f"{CLUSTER_FOLDER}/{CLUSTER_FILE}"}
    environment = {**template.environment, **FOLDERS, **reach, **template.spark_environment()}
    account = [{"secretRef": {"name": secret}} for secret in secret_names(agents)[1:]]
    whose = ("--repo", place.repository, "--uid", agents.identity or named.uid)
    words = ("offsite", "operator", "agent", *whose, *agents.retention_words)
    return {
        "name": "agent",
        "image": template.image or image,
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


def _fields(agents: DesiredAgents) -> Mapping[str, Any]:
    return {
        "replicas": agents.replicas,
        "template": agents.template.model_dump(mode="json", by_alias=True),
        "account": agents.place.account,
        "repository": agents.place.repository,
        "cluster": agents.cluster,
        "maximumRetention": agents.maximum_retention,
        "minimumRestorable": agents.minimum_restorable,
        "identity": agents.identity,
    }
