"""The manifests of an installation of the operator in Kubernetes. Pure.

One source for two outputs: plain manifests with the defaults of the settings, and a Helm chart with their expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from offsite.model.version import __version__
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import GROUP

Manifest = dict[str, Any]

PORT = 9464
USER_ID = 65532
"""The user of the image (deploy/image/Dockerfile)."""
CONFIGURATION_FOLDER = "/etc/offsite"
AGENT_IMAGE = "OFFSITE_AGENT_IMAGE"
"""A variable: the image of agents whose resource names none, by default the operator's own image."""
ALLOWED_IMAGES, ALLOWED_METADATA, WATCHED_NAMESPACES = (
    *("OFFSITE_ALLOWED_IMAGES", "OFFSITE_ALLOWED_METADATA", "OFFSITE_NAMESPACES"),
)
"""Variables with words separated by blanks: allowed further images, allowed labels and annotations, watched
namespaces."""
TEMPORARY_FOLDER = "/tmp"  # noqa: S108  # a folder of the container's own
FOLDERS = {
    "HOME": TEMPORARY_FOLDER,
    "XDG_CACHE_HOME": f"{TEMPORARY_FOLDER}/cache",
    "XDG_STATE_HOME": f"{TEMPORARY_FOLDER}/state",
}
"""Variables of writable folders: the rest of a container is read-only."""
MEMORY_FOLDER = "/var/lib/offsite"
"""The folder of the operator's memory about repositories (`XDG_STATE_HOME`): on a volume, because the memory outlives
pods."""
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
_SECONDS_TO_END = 120
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A text that differs between installations. `path`: path in Helm's values."""

    path: str
    default: str
    help: str = ""
    otherwise: Setting | None = None
    """The setting that applies if this one is empty."""

    @property
    def expression(self) -> str:
        """The Helm expression, valid within a loop, too."""
        otherwise = f" | default $.{self.otherwise.path}" if self.otherwise is not None else ""
        return f"{{{{ $.{self.path}{otherwise} }}}}"


RELEASE = Setting(path="Release.Name", default="offsite")
NAMESPACE = Setting(path="Release.Namespace", default="offsite")
VERSION = Setting(path="Chart.AppVersion", default=__version__)
REPOSITORY = Setting(path="Values.image.repository", default="offsite", help="The image, without its tag.")
TAG = Setting(path="Values.image.tag", default=__version__, help="The tag of the image.")
PULL_POLICY = Setting(
    path="Values.image.pullPolicy",
    default="IfNotPresent",
    help="When the image is fetched: Always, IfNotPresent, Never.",
)
CPU = Setting(path="Values.resources.requests.cpu", default="250m", help="CPU request of the operator.")
MEMORY = Setting(path="Values.resources.requests.memory", default="1Gi", help="Memory request of the operator.")
MEMORY_MAX = Setting(
    path="Values.resources.limits.memory",
    default="4Gi",
    help=(
        "Memory limit of the operator; a pod above it is killed. Restores, checkpoints and drills run in this pod, "
        "each with Spark."
    ),
)
STATE = Setting(
    path="Values.state",
    default="",
    help="A store for slots, tags and times of schedules, as s3://bucket/prefix. Empty: they go with the pod.",
)
CONFIGURATION = Setting(
    path="Values.configuration.secret",
    default="offsite-configuration",
    help=f"A Secret (it may come later): accounts.yaml, clusters.yaml, NAME.properties, at {CONFIGURATION_FOLDER}.",
)
NAMESPACES = Setting(
    path="Values.namespaces",
    default="",
    help="The namespaces with managed resources, separated by blanks. Empty: the namespace of the operator.",
    otherwise=NAMESPACE,
)
IMAGES = Setting(
    path="Values.agents.images",
    default="",
    help="Images that a Backup may name for its agents beside the operator's own, with blanks between them.",
)
METADATA = Setting(
    path="Values.agents.metadata",
    default="",
    help="Names of labels and annotations that a Backup may give to pods of its agents, with blanks between them.",
)
REMEMBERED = Setting(
    path="Values.memory.size",
    default="1Gi",
    help="Of the volume on which the operator remembers which state of each backup it has seen. It needs some MB.",
)
VALUES = (
    REPOSITORY,
    TAG,
    PULL_POLICY,
    CPU,
    MEMORY,
    MEMORY_MAX,
    STATE,
    CONFIGURATION,
    NAMESPACES,
    IMAGES,
    METADATA,
    REMEMBERED,
)
"""The settings in `values.yaml`."""

RenderSetting = Callable[[Setting], str]
"""Return the text of a setting."""


def by_default(setting: Setting) -> str:
    return setting.default or ("" if setting.otherwise is None else by_default(setting.otherwise))


def by_helm(setting: Setting) -> str:
    return setting.expression


def namespace_manifest(tell: RenderSetting) -> Manifest:
    """The namespace, for plain manifests only: Helm creates the namespace."""
    safe = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": tell(NAMESPACE), "labels": {**_labels(tell), **safe}},
    }


def operator_manifests(tell: RenderSetting) -> tuple[Manifest, ...]:
    """The manifests in the order of application. Cluster-wide the operator may only list and watch definitions."""
    look = _allow(
        "apiextensions.k8s.io", ["customresourcedefinitions"], ["list", "watch"]
    )  # kopf lists the existing kinds
    policy = _manifest(tell, _ADMISSION, "ValidatingAdmissionPolicy")
    binding = {"policyName": _name(tell), "validationActions": ["Deny"]}
    return (
        _manifest(tell, "v1", "ServiceAccount", namespaced=True),
        _manifest(tell, _RBAC, "ClusterRole") | {"rules": [look]},
        _bound(tell, "ClusterRole", _manifest(tell, _RBAC, "ClusterRoleBinding")),
        policy | {"spec": _policy(tell)},
        _manifest(tell, _ADMISSION, "ValidatingAdmissionPolicyBinding") | {"spec": binding},
        _manifest(tell, "networking.k8s.io/v1", "NetworkPolicy", namespaced=True)
        | {"spec": _reached(_selected(tell), PORT)},
        _manifest(tell, "v1", "PersistentVolumeClaim", namespaced=True) | {"spec": _memory(tell)},
        _manifest(tell, "apps/v1", "Deployment", namespaced=True) | {"spec": _deployment(tell)},
    )


def namespace_manifests(tell: RenderSetting, place: Manifest) -> tuple[Manifest, ...]:
    """The manifests of a watched namespace. `place`: its metadata; empty if a command names the namespace."""
    role, binding, network = (
        _manifest(tell, version, kind)
        for version, kind in ((_RBAC, "Role"), (_RBAC, "RoleBinding"), ("networking.k8s.io/v1", "NetworkPolicy"))
    )
    for manifest in (role, binding, network):
        manifest["metadata"] = {**manifest["metadata"], **place}
    network["metadata"]["name"] = f"{tell(RELEASE)}-agents"  # the operator has another one in its own namespace
    return (
        role | {"rules": [*_rules()]},
        _bound(tell, "Role", binding),
        network | {"spec": _reached({"app.kubernetes.io/name": "offsite", "app.kubernetes.io/component": "agent"})},
    )


def _bound(tell: RenderSetting, kind: str, binding: Manifest) -> Manifest:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": _name(tell)}
    subject = {"kind": "ServiceAccount", "name": _name(tell), "namespace": tell(NAMESPACE)}
    return binding | {"roleRef": role, "subjects": [subject]}


def _rules() -> tuple[Manifest, ...]:
    """The minimal rights in one namespace: the operator neither creates nor deletes declared resources. Of Secrets and
    claims the operator reads labels, by name; Kubernetes has no right for labels alone. A holder of the right to create
    Deployments could mount them anyway."""
    kinds = [definition.plural for definition in DEFINITIONS.values()]
    return (
        _allow(GROUP, kinds, ["get", "list", "watch", "patch"]),  # patch: finalizers, and the annotations of kopf
        _allow(GROUP, [f"{kind}/status" for kind in kinds], ["get", "patch"]),
        _allow("apps", ["deployments"], ["get", "list", "watch", "create", "patch", "delete"]),  # of agents
        _allow("", ["secrets", "persistentvolumeclaims"], ["get"]),
    )


def _policy(tell: RenderSetting) -> Manifest:
    """Refuse at declaration what the operator would refuse by its own settings. Rules about the resource alone are in
    the definition. An unchanged spec is not checked: a formerly accepted resource can be managed and deleted."""
    image = f"{tell(REPOSITORY)}:{tell(TAG)}"
    template = "object.spec.agents.template"
    listed = "({0} in ['', '{1}'] || {0} in '{2}'.split(' '))"
    own_image, merged = (listed.format(name, image, tell(IMAGES)) for name in (f"{template}.image", "one.image"))
    images = f"{own_image} && (!has({template}.spec) || {template}.spec.containers.all(one, {merged}))"
    named = f"all(name, name in '{tell(METADATA)}'.split(' '))"
    names = f"{template}.metadata.labels.{named} && {template}.metadata.annotations.{named}"
    names = f"!has({template}.metadata) || ({names})"  # a definition of before has neither
    query = "{} belongs to the account: remove the part after ?"
    operations = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"]}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**operations, "resources": ["backups", "restores"]}]},
        "matchConditions": [
            {"name": "looked-after", "expression": f"request.namespace in '{tell(NAMESPACES)}'.split(' ')"},
            {"name": "news", "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"},
        ],
        "validations": [
            {
                "expression": f"request.kind.kind != 'Backup' || ({images})",
                "message": f"spec.agents.template names an image that agents may not run: leave it away: {image} runs",
            },
            {
                "expression": f"request.kind.kind != 'Backup' || ({names})",
                "message": "spec.agents.template.metadata names a label or annotation that pods of agents may not have",
            },
            {
                "expression": "request.kind.kind != 'Backup' || !object.spec.destination.endpoint.contains('?')",
                "message": query.format("spec.destination.endpoint"),
            },
            {
                "expression": "request.kind.kind != 'Restore' || !object.spec.backupUrl.contains('?')",
                "message": query.format("spec.backupUrl"),
            },
        ],
    }


def _reached(pods: Mapping[str, str], *ports: int) -> Manifest:
    """Allow ingress at these ports only, or no ingress. Egress depends on stores and brokers."""
    ingress = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}] if ports else []
    return {"podSelector": {"matchLabels": {**pods}}, "policyTypes": ["Ingress"], "ingress": ingress}


def _allow(group: str, resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _deployment(tell: RenderSetting) -> Manifest:
    """One replica; the former pod ends first. Two at once would be safe: locks in the repositories separate them."""
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": _selected(tell)},
        "template": {"metadata": {"labels": _labels(tell)}, "spec": _pod(tell)},
    }


def _memory(tell: RenderSetting) -> Manifest:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": tell(REMEMBERED)}}}


def _pod(tell: RenderSetting) -> Manifest:
    return {
        "serviceAccountName": _name(tell),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _SECONDS_TO_END,
        "securityContext": {**POD_SECURITY},
        "containers": [_container(tell)],
        "volumes": [
            {"name": "temporary", "emptyDir": {"sizeLimit": "2Gi"}},
            {"name": "memory", "persistentVolumeClaim": {"claimName": _name(tell)}},
            {"name": "configuration", "secret": {"secretName": tell(CONFIGURATION), "optional": True}},
        ],
    }


def _container(tell: RenderSetting) -> Manifest:
    image = f"{tell(REPOSITORY)}:{tell(TAG)}"
    return {
        "name": "operator",
        "image": image,
        "imagePullPolicy": tell(PULL_POLICY),
        "command": ["offsite", "operator", "run", "--kubernetes"],
        "args": [f"--state={tell(STATE)}", "--metrics-port", f"0.0.0.0:{PORT}"],
        "env": variables(
            {
                **FOLDERS,
                "XDG_STATE_HOME": MEMORY_FOLDER,
                AGENT_IMAGE: image,
                ALLOWED_IMAGES: tell(IMAGES),
                ALLOWED_METADATA: tell(METADATA),
                WATCHED_NAMESPACES: tell(NAMESPACES),
            }
        ),
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "startupProbe": _probe("/healthz", period_s=5, failures=24),
        "livenessProbe": _probe("/healthz", period_s=20, failures=6),
        "readinessProbe": _probe("/readyz", period_s=10, failures=3),
        "resources": {
            "requests": {"cpu": tell(CPU), "memory": tell(MEMORY)},
            "limits": {"memory": tell(MEMORY_MAX)},
        },
        "securityContext": {**CONTAINER_SECURITY},
        "volumeMounts": [
            {"name": "temporary", "mountPath": TEMPORARY_FOLDER},
            {"name": "memory", "mountPath": MEMORY_FOLDER},
            {"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True},
        ],
    }


def variables(values: Mapping[str, str]) -> list[Manifest]:
    """Return the variables in the form of a container."""
    return [{"name": name, "value": value} for name, value in values.items()]


def _probe(path: str, *, period_s: int, failures: int) -> Manifest:
    request = {"path": path, "port": "metrics"}
    return {"httpGet": request, "periodSeconds": period_s, "timeoutSeconds": 5, "failureThreshold": failures}


def _manifest(tell: RenderSetting, version: str, kind: str, *, namespaced: bool = False) -> Manifest:
    place = {"namespace": tell(NAMESPACE)} if namespaced else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": _name(tell), **place, "labels": _labels(tell)}}


def _name(tell: RenderSetting) -> str:
    return f"{tell(RELEASE)}-operator"


def _labels(tell: RenderSetting) -> Mapping[str, str]:
    return {**_selected(tell), "app.kubernetes.io/version": tell(VERSION)}


def _selected(tell: RenderSetting) -> Mapping[str, str]:
    """The selector labels: a Deployment can never change them."""
    return {
        "app.kubernetes.io/name": "offsite",
        "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/instance": tell(RELEASE),
    }
