"""The allowed fields of a resource in the pods of its agents: a subset of Kubernetes' pod template.

Fields have the names, types and meanings of Kubernetes. Further fields are refused by name, because agents hold
secrets: no field of a resource may lead to the node, to the API, to foreign secrets, to code, or to the placement of
foreign pods. Hence a template has no host paths and namespaces, no security context, no further containers, commands
and probes, no host names, and no affinity to pods of foreign namespaces. Of the allowed fields, the operator lists
images, service accounts, and names of labels and annotations; Secrets and claims need a label.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)

from offsite.model.untrusted.text import shorten
from offsite.operator.resources.model import INT_OR_STRING, Sparse, Text

VARIABLE_NAMES = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME"),
    *("MALLOC_ARENA_MAX", "OFFSITE_CLIENT_RACK", "OMP_NUM_THREADS", "TZ"),
)
"""Variables that a resource may set. A list of forbidden variables would never be complete."""
AGENT = "agent"
"""The container of an agent, the only container of its pod."""
TEMPORARY = "temporary"
"""The volume for temporary files: a template may set its size."""
CLUSTER = "cluster"
"""The volume with the connection of the cluster: reserved for the operator."""
KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
"""The name of a label or an annotation, in the form of Kubernetes."""
_KEY_MAX = 317
Part = TypeVar("Part", bound=BaseModel)
_DNS = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_KEYS = {"propertyNames": {"maxLength": _KEY_MAX, "pattern": f"^{KEY}$"}}
VOLUME_TAKEN = f"volume name {CLUSTER} is reserved, and {TEMPORARY} must be an emptyDir: use another name"
ONE_SOURCE = "a volume needs exactly one of emptyDir, configMap, secret and persistentVolumeClaim"
MOUNT_OF_NOTHING = "a volumeMount names a volume that the template does not have"


def _key(name: str) -> str:
    if not re.fullmatch(KEY, name):
        raise ValueError(f"{shorten(name)} is not a name of a label or an annotation")
    return name


def _by(field: str) -> AfterValidator:
    """Require distinct values of a field in a list. Kubernetes merges such lists by the field."""

    def once(parts: Sequence[Part]) -> Sequence[Part]:
        values: list[Hashable] = [getattr(part, field) for part in parts]
        if twice := [value for value in values if values.count(value) > 1]:
            raise ValueError(f"{shorten(str(twice[0]))} is given twice")
        return parts

    return AfterValidator(once)


def _listed(most: int, key: str = "") -> Any:  # noqa: ANN401  # what pydantic calls a field's information
    """A list that Kubernetes merges by a key, or replaces as a whole without a key."""
    by: dict[str, Any] = {"x-kubernetes-list-map-keys": [key]} if key else {}
    return Field(max_length=most, json_schema_extra={"x-kubernetes-list-type": "map" if key else "atomic"} | by)


def _text_of_number(value: object) -> object:
    return str(value) if type(value) is int else value


NUMBER_OR_TEXT = (BeforeValidator(_text_of_number), Field(json_schema_extra={INT_OR_STRING: True, "minimum": 0}))
"""An amount: `cpu: 2` is a number in YAML, and `cpu: "2"` is a text. Both are known from Deployments."""
Quantity = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=20),
    *NUMBER_OR_TEXT,
]
Amounts = Annotated[dict[Literal["cpu", "memory", "ephemeral-storage"], Quantity], Field()]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Key = Annotated[str, StringConstraints(pattern=rf"^{KEY}$", max_length=_KEY_MAX)]
"""The name of a label of nodes and pods."""
_MapKey = Annotated[str, StringConstraints(max_length=_KEY_MAX), AfterValidator(_key)]
ObjectName = Annotated[str, StringConstraints(pattern=rf"^{_DNS}$", max_length=253)]
"""The name of a Kubernetes object (RFC 1123 subdomain)."""
OptionalObjectName = Annotated[str, StringConstraints(pattern=rf"^({_DNS})?$", max_length=253)]
Short = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""The name of a volume (RFC 1123 label)."""
Labels = Annotated[dict[_MapKey, LabelValue], Field(max_length=32, json_schema_extra=_KEYS)]
Weight = Annotated[int, Field(ge=1, le=100, strict=True)]
_File = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=253)]
Mode = Annotated[int, Field(ge=0, le=0o777, strict=True)]


class KeyFile(Sparse):
    """One file of a volume."""

    key: _File
    """The key with the content."""
    path: _File
    """The name of the file."""
    mode: Mode | None = None
    """The mode of the file."""


Items = Annotated[tuple[KeyFile, ...], Field(max_length=32)]


class EmptyDirectory(Sparse):
    """A folder that is empty at the start of the pod."""

    medium: Literal["", "Memory"] = ""
    """Empty: the disk of the node. `Memory`: counts as memory of the container."""
    size_limit: Quantity | None = None
    """The pod is ended if the folder holds more."""


class ConfigFiles(Sparse):
    """Files from a ConfigMap of the namespace."""

    name: ObjectName
    """The name of the ConfigMap."""
    items: Items = ()
    """The keys to mount; none: all."""
    default_mode: Mode | None = None
    """The mode of files."""
    optional: bool = False
    """Whether pods start without the ConfigMap."""


class SecretFiles(Sparse):
    """Files from a Secret of the namespace with the label `offsite.dev/for-agents: "true"`."""

    secret_name: ObjectName
    """The name of the Secret."""
    items: Items = ()
    """The keys to mount; none: all."""
    default_mode: Mode | None = None
    """The mode of files."""


class Claim(Sparse):
    """A PersistentVolumeClaim of the namespace with the label `offsite.dev/for-agents: "true"`."""

    claim_name: ObjectName
    """The name of the claim."""
    read_only: bool = False
    """Whether the mount is read-only."""


class Volume(Sparse):
    """A volume with one source."""

    name: Short
    """The name of the volume. `temporary` is the volume for temporary files; `cluster` is reserved."""
    empty_dir: EmptyDirectory | None = None
    """A folder that is deleted with the pod."""
    config_map: ConfigFiles | None = None
    """Files without secrets."""
    secret: SecretFiles | None = None
    """Files with secrets, such as keys and certificates."""
    persistent_volume_claim: Claim | None = None
    """A persistent volume."""

    @property
    def sources(self) -> tuple[Sparse, ...]:
        candidates = (self.empty_dir, self.config_map, self.secret, self.persistent_volume_claim)
        return tuple(source for source in candidates if source is not None)


class VolumeMount(Sparse):
    """The mount point of a volume."""

    name: Short
    """The name of the volume."""
    mount_path: Annotated[str, StringConstraints(pattern=r"^/mnt(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", max_length=253)]
    """A folder below `/mnt`, where the image has no files: elsewhere a mount could replace code."""
    read_only: bool = False
    """Whether the mount is read-only."""


class Variable(Sparse):
    """An environment variable."""

    name: Annotated[str, StringConstraints(max_length=200), Field(json_schema_extra={"enum": list(VARIABLE_NAMES)})]
    """A variable of language, time zone, rack or threads."""
    value: Text = ""
    """A word, not a path."""


class Resources(Sparse):
    """The resources of a container."""

    requests: Amounts = {}
    """The reserved amounts."""
    limits: Amounts = {}
    """More memory or files end the container, more CPU is throttled."""


class AgentContainer(Sparse):
    """The container of an agent, with the fields that a resource may set."""

    name: Literal["agent"]
    """`agent`: the only container."""
    image: Text = ""
    """An image that the operator lists. Empty: the image of the operator."""
    env: Annotated[tuple[Variable, ...], _listed(64, "name"), _by("name")] = ()
    """More environment variables, by name."""
    resources: Resources = Resources()
    volume_mounts: Annotated[tuple[VolumeMount, ...], _listed(16, "mountPath"), _by("mount_path")] = ()
    """Mount points of volumes, by path."""


class Toleration(Sparse):
    """A tolerated taint of nodes."""

    key: Annotated[str, StringConstraints(pattern=rf"^({KEY})?$", max_length=_KEY_MAX)] = ""
    """The key of the taint. Empty, with `Exists`: every key."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How `value` is compared."""
    value: LabelValue = ""
    """The value of the taint."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """The effect of the taint. Empty: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] | None = None
    """Seconds of toleration, with `NoExecute`; absent: for ever."""


Values = Annotated[tuple[LabelValue, ...], Field(max_length=32)]


class NodeRequirement(Sparse):
    """A condition on a label of a node."""

    key: Key
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """The comparison."""
    values: Values = ()
    """The values to compare with."""


class NodeTerm(Sparse):
    """Nodes that satisfy all conditions."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=16)] = ()
    """Conditions on labels."""


class Nodes(Sparse):
    """Nodes that satisfy one term."""

    node_selector_terms: Annotated[tuple[NodeTerm, ...], Field(min_length=1, max_length=8)]
    """The terms."""


class PreferredNodes(Sparse):
    """Preferred nodes."""

    weight: Weight
    """The weight of the preference."""
    preference: NodeTerm
    """The preferred nodes."""


class NodeAffinity(Sparse):
    """The nodes of the pods."""

    required_during_scheduling_ignored_during_execution: Nodes | None = None
    """Required nodes."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(max_length=16)
    ] = ()
    """Preferred nodes."""


class LabelRequirement(Sparse):
    """A condition on a label of a pod."""

    key: Key
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """The comparison."""
    values: Values = ()
    """The values to compare with."""


class LabelSelector(Sparse):
    """Pods that satisfy all conditions."""

    match_labels: Labels = {}
    """Required labels with their values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] = ()
    """Further conditions."""


class PodTerm(Sparse):
    """The place of pods of the same namespace. Affinity to pods of other namespaces is not allowed."""

    label_selector: LabelSelector | None = None
    """The selected pods."""
    topology_key: Key
    """The label of nodes that defines a place."""


class WeightedPods(Sparse):
    """Preferred places."""

    weight: Weight
    """The weight of the preference."""
    pod_affinity_term: PodTerm
    """The preferred places."""


class PodAffinity(Sparse):
    """Placement beside certain pods, or apart from certain pods."""

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodTerm, ...], Field(max_length=8)] = ()
    """Required places."""
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[WeightedPods, ...], Field(max_length=16)] = ()
    """Preferred places."""


class Affinity(Sparse):
    """The placement of pods."""

    node_affinity: NodeAffinity | None = None
    """Placement on nodes."""
    pod_affinity: PodAffinity | None = None
    """Placement beside pods of the namespace."""
    pod_anti_affinity: PodAffinity | None = None
    """Placement apart from pods of the namespace."""


class PodSpec(Sparse):
    """The fields of agents' pods beside the operator's fields."""

    service_account_name: OptionalObjectName = ""
    """A service account with cloud rights, from `serviceAccounts` of the account. No token of the Kubernetes API is
    mounted. Empty: the `default` service account."""
    node_selector: Labels = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], _listed(32)] = ()
    """Tolerated taints of nodes."""
    affinity: Affinity | None = None
    """The placement of the pods."""
    containers: Annotated[tuple[AgentContainer, ...], _listed(1, "name"), _by("name")] = ()
    """The container of the agent."""
    volumes: Annotated[tuple[Volume, ...], _listed(16, "name"), _by("name")] = ()
    """Volumes, by name."""

    @model_validator(mode="after")
    def _is_whole(self) -> PodSpec:
        names = {volume.name: volume for volume in self.volumes}
        if CLUSTER in names or (TEMPORARY in names and names[TEMPORARY].empty_dir is None):
            raise ValueError(VOLUME_TAKEN)
        if any(len(volume.sources) != 1 for volume in self.volumes):
            raise ValueError(ONE_SOURCE)
        if any(mount.name not in names for container in self.containers for mount in container.volume_mounts):
            raise ValueError(MOUNT_OF_NOTHING)
        return self


class PodMetadata(Sparse):
    """Labels and annotations of agents' pods. The operator lists the allowed names, because foreign programs react to
    labels and annotations."""

    labels: Labels = {}
    """Labels in addition to the operator's."""
    annotations: Annotated[dict[_MapKey, Text], Field(max_length=32, json_schema_extra=_KEYS)] = {}
    """Annotations in addition to the operator's."""
