"""Agents as pods: a Deployment for each backup, with the name of the resource and owned by it.

What agents need lies in Secrets of the namespace of the resource, by name: `offsite-account-<account>` holds the
variables that open the repository, `offsite-cluster-<cluster>` the file `client.properties` that reaches the brokers.
Both have a label that says they are for agents: a name in a resource alone mounts nothing, nor do the Secrets and
claims that its pod template names. Of them the operator asks for the labels, and reads no data.

What a pod template says is merged into the pod that is made here (`resources.pod_template` has what it may say).

What agents run for is noted in an annotation, so a look needs nothing but the Deployment. It may be changed, scaled or
deleted by hand: the next look puts it right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from offsite.model.errors import BadResource, ResourceConflict
from offsite.operator.decide.seen import AgentsSeen
from offsite.operator.decide.wanted import AgentsWanted, Place
from offsite.operator.kubernetes.cluster import Body, Cluster, Named
from offsite.operator.kubernetes.manifests import (
    CONTAINER_SECURITY,
    FOLDERS,
    POD_SECURITY,
    TEMPORARY_FOLDER,
    Manifest,
    variables,
)
from offsite.operator.kubernetes.merge import merge_patch, strategic_merge
from offsite.operator.resources.backup import AgentTemplate
from offsite.operator.resources.model import API_VERSION, GROUP

AGENTS = f"{GROUP}/agents"
"""Annotation: what the agents of a Deployment run for."""
MADE_OF = f"{GROUP}/made-of"
"""Annotation: a hash of all that the operator gave it. Another version of the operator may give it something else."""
UID = f"{GROUP}/backup-uid"
"""Label: the resource whose agents these are."""
FOR_AGENTS = f"{GROUP}/for-agents"
"""Label of a Secret or a claim, `true`: agents may have what it holds. Whoever may write these says so."""
OTHERWISE = -1
"""The replicas of a Deployment that is not as the operator would make it: another version of it did, or somebody has
scaled it by hand, or taken a label from its Secrets. So it is configured again."""
CLUSTER_FOLDER = "/etc/offsite/cluster"
CLUSTER_FILE = "client.properties"
_SECONDS_TO_END = 45  # an agent commits what it has and lets its lease go within 30 s


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAgents:
    """The port `Agents`. `image`: of agents whose template names none; `named`: the resources that are looked after,
    by their uids."""

    cluster: Cluster
    image: str
    named: dict[str, Named] = field(default_factory=dict)

    def seen(self, uid: str) -> AgentsSeen:
        found = self._own(uid)
        if found is None or found["metadata"].get("deletionTimestamp") or (agents := agents_of(found)) is None:
            return AgentsSeen()
        wanted = agent_deployment(self.named[uid], agents, self.image)
        is_same = _made_of(found) == _made_of(wanted) and found["spec"].get("replicas") == agents.replicas
        is_same = is_same and not self._unlabelled(self.named[uid], agents)
        return AgentsSeen(configured=agents if is_same else replace(agents, replicas=OTHERWISE), ready=_ready(found))

    def configure(self, uid: str, agents: AgentsWanted | None) -> None:
        named = self.named[uid]
        found = self.cluster.get(named.deployment_path)
        is_own = found is not None and _uid(found) == uid
        if agents is None:
            if found is not None and is_own:
                self.cluster.delete(named.deployment_path, uid=found["metadata"]["uid"])
        elif problem := self._unlabelled(named, agents):
            raise BadResource(problem)
        elif found is not None and is_own:
            self._patch(named, found, agents)
        elif self._is_there(named):  # of one that is gone nothing is made, and nothing of its name is touched
            if found is not None:
                self._make_room(named, found)
            self.cluster.create(named.deployments_path, agent_deployment(named, agents, self.image))

    def alive(self, uid: str) -> int:
        """How many may still run: a Deployment stays until its last pod has ended."""
        found = self._own(uid)
        return 0 if found is None else max(1, int(found.get("status", {}).get("replicas") or 0))

    def unseen(self, uid: str) -> int:  # noqa: ARG002  # as the port has it: `alive` tells of all nodes
        return 0

    def problem(self, uid: str) -> str:
        """As Kubernetes tells it: no quota is left, or no progress is made for ten minutes."""
        conditions = (self._own(uid) or {}).get("status", {}).get("conditions") or ()
        bad = {("ReplicaFailure", "True"), ("Progressing", "False")}
        said = [str(each.get("message", "")) for each in conditions if (each.get("type"), each.get("status")) in bad]
        return "; ".join(filter(None, said))

    def _unlabelled(self, named: Named, agents: AgentsWanted) -> str:
        """What is wrong with the Secrets and claims that agents would get; empty: nothing."""
        for kind, name in labelled_of(agents):
            labels = self.cluster.labels(named.core_path(f"{kind.lower()}s", name))
            if labels is None:
                return (
                    f"there is no {kind} {name} in namespace {named.namespace}: make it, with label {FOR_AGENTS}=true"
                )
            if labels.get(FOR_AGENTS) != "true":
                command = f"kubectl -n {named.namespace} label {kind.lower()} {name} {FOR_AGENTS}=true"
                return f"{kind} {name} is not for agents; if it is to be: {command}"
        return ""

    def _own(self, uid: str) -> Body | None:
        found = self.cluster.get(self.named[uid].deployment_path)
        return found if found is not None and _uid(found) == uid else None

    def _is_there(self, named: Named) -> bool:
        now = self.cluster.get(named.path)
        return now is not None and Named.of(now) == named

    def _patch(self, named: Named, found: Body, agents: AgentsWanted) -> None:
        """As `kubectl apply`: what the operator gave it and does not give it any more goes, and what others put there
        stays. Of pods of which nobody can tell what the operator gave them, all that it does not give them goes."""
        before, after = agents_of(found), agent_deployment(named, agents, self.image)
        own = {"spec": {"template": found["spec"]["template"]}}
        patch = merge_patch(agent_deployment(named, before, self.image) if before is not None else own, after)
        patch["metadata"]["uid"] = found["metadata"]["uid"]
        self.cluster.patch(named.deployment_path, patch)

    def _make_room(self, named: Named, found: Body) -> None:
        """For a Deployment whose resource of the same name is gone. Raises `ResourceConflict` for one that is none of
        ours, which stays, and until the former one is gone."""
        if _uid(found):
            self.cluster.delete(named.deployment_path, uid=found["metadata"]["uid"])
            if self.cluster.get(named.deployment_path) is None:
                return
            raise ResourceConflict(f"agents of a former backup {named.name} still end", hint="wait for them")
        raise ResourceConflict(
            f"there is a Deployment {named.name} that is not of this backup", hint="give the backup another name"
        )


def agents_of(deployment: Body) -> AgentsWanted | None:
    """What agents run for; None where that cannot be told."""
    try:
        noted = json.loads(deployment["metadata"]["annotations"][AGENTS])
        return AgentsWanted(
            replicas=int(noted["replicas"]),
            template=AgentTemplate.model_validate(noted["template"]),
            place=Place(account=str(noted["account"]), repository=str(noted["repository"])),
            cluster=str(noted["cluster"]),
            maximum_retention=str(noted.get("maximumRetention", "")),
            minimum_restorable=str(noted.get("minimumRestorable", "")),
            identity=str(noted.get("identity", "")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def agent_deployment(named: Named, agents: AgentsWanted, image: str) -> Manifest:
    """The whole of it. Pods are chosen by the uid: those of a former resource are never taken for these."""
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
        "annotations": {AGENTS: json.dumps(_fields(agents), sort_keys=True), MADE_OF: _hash(spec)},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def secrets_of(agents: AgentsWanted) -> tuple[str, ...]:
    """The names of what they are given: that of the cluster, and of the account if there is one."""
    account = (f"offsite-account-{agents.place.account}",) if agents.place.account else ()
    return (f"offsite-cluster-{agents.cluster}", *account)


def labelled_of(agents: AgentsWanted) -> tuple[tuple[str, str], ...]:
    """The kinds and names of all that has to have the label."""
    volumes = agents.template.spec.volumes
    return (
        *(("Secret", name) for name in secrets_of(agents)),
        *(("Secret", volume.secret.secret_name) for volume in volumes if volume.secret),
        *(
            ("PersistentVolumeClaim", volume.persistent_volume_claim.claim_name)
            for volume in volumes
            if volume.persistent_volume_claim
        ),
    )


def _pod_template(named: Named, agents: AgentsWanted, image: str, labels: Mapping[str, str]) -> Manifest:
    """What the resource asks for is merged into what agents are. Labels by which pods are found stay as they are."""
    own = {"metadata": {"labels": {**labels}}, "spec": _pod(named, agents, image)}
    asked = agents.template.model_dump(mode="json", by_alias=True, include={"metadata", "spec"}, exclude_defaults=True)
    for container in asked.get("spec", {}).get("containers", ()):
        for variable in container.get("env", ()):
            variable["value"] = _as_it_is(variable.get("value", ""))
    made = strategic_merge(own, asked)
    made["metadata"]["labels"] |= labels
    if name := made["spec"].get("serviceAccountName"):
        made["spec"]["serviceAccount"] = name  # its old name: an API server takes one from the other, and keeps it
    return made


def _pod(named: Named, agents: AgentsWanted, image: str) -> Manifest:
    secret = {"secretName": secrets_of(agents)[0], "items": [{"key": CLUSTER_FILE, "path": CLUSTER_FILE}]}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _SECONDS_TO_END,
        "securityContext": {**POD_SECURITY},
        "containers": [_container(named, agents, image)],
        "volumes": [{"name": "temporary", "emptyDir": {}}, {"name": "cluster", "secret": secret}],
    }


def _container(named: Named, agents: AgentsWanted, image: str) -> Manifest:
    place, template = agents.place, agents.template
    reach = {"OFFSITE_KAFKA_CONFIG": f"{CLUSTER_FOLDER}/{CLUSTER_FILE}"}
    own = {**template.environment, **FOLDERS, **reach, **template.spark_environment()}
    account = [{"secretRef": {"name": secret}} for secret in secrets_of(agents)[1:]]
    whose = ("--repo", place.repository, "--uid", agents.identity or named.uid)
    words = ("offsite", "operator", "agent", *whose, *agents.retention_words)
    return {
        "name": "agent",
        "image": template.image or image,
        "command": [*map(_as_it_is, words)],
        "env": variables({name: _as_it_is(value) for name, value in own.items()}),
        "envFrom": account,
        "resources": {"requests": {**template.resources}},
        "securityContext": {**CONTAINER_SECURITY},
        "volumeMounts": [
            {"name": "temporary", "mountPath": TEMPORARY_FOLDER},
            {"name": "cluster", "mountPath": CLUSTER_FOLDER, "readOnly": True},
        ],
    }


def _as_it_is(text: str) -> str:
    """Kubernetes puts the value of a variable for `$(NAME)`, behind all checks and also of one that a Secret holds."""
    return text.replace("$", "$$")


def _ready(deployment: Body) -> int:
    """Those of the newest template; none while Kubernetes has not seen it."""
    status, metadata = deployment.get("status", {}), deployment["metadata"]
    if metadata.get("deletionTimestamp") or status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return 0
    return min(int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0))


def _uid(deployment: Body) -> str:
    """Of the resource whose it is; empty: it is not ours."""
    return str(deployment["metadata"].get("labels", {}).get(UID, ""))


def _made_of(deployment: Body) -> str:
    return str(deployment["metadata"].get("annotations", {}).get(MADE_OF, ""))


def _hash(spec: Manifest) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]


def _fields(agents: AgentsWanted) -> Mapping[str, Any]:
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
