"""What a resource may write into the pods of its agents: a pod template of Kubernetes, as far as it is allowed.

Fields have the names, shapes and meanings that they have in Kubernetes. What is not here is refused by name, for agents
hold secrets: nothing that a resource writes leads to the node, to the API, to other secrets, to code, or to where
others' pods run or do not run. So there are no host paths and namespaces, no security context, no other containers,
commands and probes, no names of hosts, and no affinity to the pods of other namespaces. Of what stays, the operator
lists images, service accounts, and names of labels and annotations; Secrets and claims have a label that says so.
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
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from offsite.operator.resources.model import INT_OR_STRING, Strict, Text
from offsite.operator.resources.told import shortened

VARIABLE_NAMES = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME"),
    *("MALLOC_ARENA_MAX", "OFFSITE_CLIENT_RACK", "OMP_NUM_THREADS", "TZ"),
)
"""Variables that a resource may set. A list of those that it may not would never be whole."""
AGENT = "agent"
"""The container of an agent, the only one of its pod."""
TEMPORARY = "temporary"
"""The volume for temporary files: a template may say how large it is."""
CLUSTER = "cluster"
"""The volume that says how to reach the cluster: it is the operator's."""
KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
"""The name of a label or an annotation, as Kubernetes has them."""
_KEY_MAX = 317
Part = TypeVar("Part", bound=BaseModel)


def _key(name: str) -> str:
    if not re.fullmatch(KEY, name):
        raise ValueError(f"{shortened(name)} is no name of a label or an annotation")
    return name


def _by(field: str) -> AfterValidator:
    """A list of which each has another value of a field. Kubernetes merges such lists by it."""

    def once(parts: Sequence[Part]) -> Sequence[Part]:
        values: list[Hashable] = [getattr(part, field) for part in parts]
        if twice := [value for value in values if values.count(value) > 1]:
            raise ValueError(f"{shortened(str(twice[0]))} is there twice")
        return parts

    return AfterValidator(once)


def _listed(most: int, key: str = "") -> Any:  # noqa: ANN401  # what pydantic calls a field's information
    """A list that Kubernetes merges by a key, or replaces as a whole where there is none."""
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
"""Of labels of nodes and pods."""
_MapKey = Annotated[str, StringConstraints(max_length=_KEY_MAX), AfterValidator(_key)]
_DNS = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
ObjectName = Annotated[str, StringConstraints(pattern=rf"^{_DNS}$", max_length=253)]
"""Of an object of Kubernetes (RFC 1123 subdomain)."""
OptionalObjectName = Annotated[str, StringConstraints(pattern=rf"^({_DNS})?$", max_length=253)]
_KEYS = {"propertyNames": {"maxLength": _KEY_MAX, "pattern": f"^{KEY}$"}}
Short = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""The name of a volume (RFC 1123 label)."""
Labels = Annotated[dict[_MapKey, LabelValue], Field(max_length=32, json_schema_extra=_KEYS)]
Weight = Annotated[int, Field(ge=1, le=100, strict=True)]
_File = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=253)]
Mode = Annotated[int, Field(ge=0, le=0o777, strict=True)]


class _Sparse(Strict):
    """What was not given stays away, as Kubernetes has it: it tells `emptyDir: {}` from no `emptyDir`."""

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class KeyFile(_Sparse):
    """One file of a volume."""

    key: _File
    """The key that holds it."""
    path: _File
    """The name of the file."""
    mode: Mode | None = None
    """Its mode."""


Items = Annotated[tuple[KeyFile, ...], Field(max_length=32)]


class EmptyDirectory(_Sparse):
    """A folder that is empty when the pod begins."""

    medium: Literal["", "Memory"] = ""
    """Empty: the disk of the node. `Memory`: it counts as memory of the container."""
    size_limit: Quantity | None = None
    """With more in it the pod is ended."""


class ConfigFiles(_Sparse):
    """Files out of a ConfigMap of the namespace."""

    name: ObjectName
    """Its name."""
    items: Items = ()
    """Which of its keys; none: all."""
    default_mode: Mode | None = None
    """The mode of files."""
    optional: bool = False
    """Whether pods begin without it."""


class SecretFiles(_Sparse):
    """Files out of a Secret of the namespace that has the label `offsite.dev/for-agents: "true"`."""

    secret_name: ObjectName
    """Its name."""
    items: Items = ()
    """Which of its keys; none: all."""
    default_mode: Mode | None = None
    """The mode of files."""


class Claim(_Sparse):
    """A PersistentVolumeClaim of the namespace that has the label `offsite.dev/for-agents: "true"`."""

    claim_name: ObjectName
    """Its name."""
    read_only: bool = False
    """Whether nothing is written to it."""


class Volume(_Sparse):
    """A volume of one source."""

    name: Short
    """Its name. `temporary` is the one for temporary files; `cluster` is taken."""
    empty_dir: EmptyDirectory | None = None
    """A folder that goes with the pod."""
    config_map: ConfigFiles | None = None
    """Files that hold no secrets."""
    secret: SecretFiles | None = None
    """Files that do, as keys and certificates."""
    persistent_volume_claim: Claim | None = None
    """A volume that stays."""

    @property
    def sources(self) -> tuple[_Sparse, ...]:
        found = (self.empty_dir, self.config_map, self.secret, self.persistent_volume_claim)
        return tuple(source for source in found if source is not None)


class VolumeMount(_Sparse):
    """Where a volume is seen."""

    name: Short
    """The volume."""
    mount_path: Annotated[str, StringConstraints(pattern=r"^/mnt(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", max_length=253)]
    """A folder below `/mnt`, where nothing of the image is: elsewhere it could take the place of code."""
    read_only: bool = False
    """Whether nothing is written there."""


class Variable(_Sparse):
    """An environment variable."""

    name: Annotated[str, StringConstraints(max_length=200), Field(json_schema_extra={"enum": list(VARIABLE_NAMES)})]
    """One of language, time zone, rack and threads."""
    value: Text = ""
    """A word, and no path."""


class Resources(_Sparse):
    """What a container gets."""

    requests: Amounts = {}
    """What is set aside for it."""
    limits: Amounts = {}
    """With more memory or files it is ended, with more CPU it waits."""


class Container(_Sparse):
    """The container of an agent, as far as a resource may say."""

    name: Literal["agent"]
    """`agent`: there is no other one."""
    image: Text = ""
    """One that the operator lists. Empty: that of the operator."""
    env: Annotated[tuple[Variable, ...], _listed(64, "name"), _by("name")] = ()
    """More environment variables, by their names."""
    resources: Resources = Resources()
    volume_mounts: Annotated[tuple[VolumeMount, ...], _listed(16, "mountPath"), _by("mount_path")] = ()
    """Where it sees volumes, by their paths."""


class Toleration(_Sparse):
    """A taint of nodes that pods are not kept away by."""

    key: Annotated[str, StringConstraints(pattern=rf"^({KEY})?$", max_length=_KEY_MAX)] = ""
    """Of the taint. Empty, with `Exists`: each."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How `value` is compared."""
    value: LabelValue = ""
    """Of the taint."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Of the taint. Empty: each."""
    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] | None = None
    """How long, with `NoExecute`; absent: for ever."""


Values = Annotated[tuple[LabelValue, ...], Field(max_length=32)]


class NodeRequirement(_Sparse):
    """What a label of a node has to be."""

    key: Key
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared."""
    values: Values = ()
    """With what."""


class NodeTerm(_Sparse):
    """Nodes of which all of this is true."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=16)] = ()
    """Of their labels."""


class Nodes(_Sparse):
    """Nodes of which one term is true."""

    node_selector_terms: Annotated[tuple[NodeTerm, ...], Field(min_length=1, max_length=8)]
    """The terms."""


class PreferredNodes(_Sparse):
    """Nodes that are better than others."""

    weight: Weight
    """By how much."""
    preference: NodeTerm
    """Which."""


class NodeAffinity(_Sparse):
    """On which nodes."""

    required_during_scheduling_ignored_during_execution: Nodes | None = None
    """On no others."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(max_length=16)
    ] = ()
    """Rather there."""


class LabelRequirement(_Sparse):
    """What a label of a pod has to be."""

    key: Key
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How it is compared."""
    values: Values = ()
    """With what."""


class LabelSelector(_Sparse):
    """Pods of which all of this is true."""

    match_labels: Labels = {}
    """Labels as they are."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] = ()
    """What else."""


class PodTerm(_Sparse):
    """Where pods of the same namespace are. Those of others are not for a resource to be drawn to, or to keep away."""

    label_selector: LabelSelector | None = None
    """Which pods."""
    topology_key: Key
    """The label of nodes that says what one place is."""


class WeightedPods(_Sparse):
    """Places that are better than others."""

    weight: Weight
    """By how much."""
    pod_affinity_term: PodTerm
    """Which."""


class PodAffinity(_Sparse):
    """Beside which pods, or not beside which."""

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodTerm, ...], Field(max_length=8)] = ()
    """Nowhere else."""
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[WeightedPods, ...], Field(max_length=16)] = ()
    """Rather there."""


class Affinity(_Sparse):
    """Where pods are put."""

    node_affinity: NodeAffinity | None = None
    """On which nodes."""
    pod_affinity: PodAffinity | None = None
    """Beside which pods of the namespace."""
    pod_anti_affinity: PodAffinity | None = None
    """Not beside which."""


class PodSpec(_Sparse):
    """What agents' pods are beside what the operator makes them."""

    service_account_name: OptionalObjectName = ""
    """Whose rights in a cloud they have: one that `serviceAccounts` of the account lists. No token of the API of
    Kubernetes is mounted. Empty: the `default` one."""
    node_selector: Labels = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], _listed(32)] = ()
    """Taints of nodes that they tolerate."""
    affinity: Affinity | None = None
    """Where they are put."""
    containers: Annotated[tuple[Container, ...], _listed(1, "name"), _by("name")] = ()
    """That of the agent."""
    volumes: Annotated[tuple[Volume, ...], _listed(16, "name"), _by("name")] = ()
    """Volumes, by their names."""

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


VOLUME_TAKEN = f"volume {CLUSTER} is the operator's, and {TEMPORARY} is an emptyDir: give it another name"
ONE_SOURCE = "a volume has one of emptyDir, configMap, secret and persistentVolumeClaim"
MOUNT_OF_NOTHING = "a volumeMount names none of the volumes of the template"


class PodMetadata(_Sparse):
    """Labels and annotations of agents' pods: those that the operator lists by their names, for other programs act by
    them."""

    labels: Labels = {}
    """Beside those that the operator gives them."""
    annotations: Annotated[dict[_MapKey, Text], Field(max_length=32, json_schema_extra=_KEYS)] = {}
    """The same."""
