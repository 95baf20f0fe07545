"""The model of `status`, the same in a file and in Kubernetes. Pure.

Every field may be absent: unknown until now. Every string and list is bounded: a status never exceeds the limits of
Kubernetes. Kubernetes prunes unknown fields silently, hence tests compare the output of keepers with the models.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from offsite.operator.resources.model import Schema, Strict, Text, structural_schema

Word = Annotated[str, StringConstraints(max_length=63)]
Time = Annotated[str, StringConstraints(max_length=40), Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, in UTC."""
Count = Annotated[int, Field(ge=0)]


class StatusCondition(Strict):
    """A difference from the spec. A resource without conditions is as declared. `OlderBackupKept` reports more backups
    than declared, and `DeclaredOtherwise` may report only a different spec of another resource."""

    type: Word
    """The kind of the condition, such as `IncorrectDeployment`."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""
    reason: Word = ""
    """The reason, in one word for programs."""
    message: Text = ""
    """The reason, for people."""
    last_transition_time: Time | None = None
    """The time since when the condition holds."""
    observed_generation: Count | None = None
    """The generation of the resource at the observation."""


StatusConditions = Annotated[
    tuple[StatusCondition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class ResourceStatus(Strict):
    """The common status of all kinds."""

    observed_generation: Count | None = None
    """The last observed generation of the resource."""
    reconciled: bool | None = None
    """Whether the resource is as declared: conditions, if any, only report on other resources."""
    conditions: StatusConditions | None = None
    """The differences from the spec; one of every type."""
    last_look_time: Time | None = None
    """The time of the last round of an operator, or slightly later; only in a folder, where no other program watches
    operators."""


class StatusPoint(Strict):
    """A commit, and its time."""

    commit: Count | None = None
    """Its number."""
    timestamp: Time | None = None
    """Its time."""


class StatusBackup(Strict):
    """A backup in a repository: the running backup, or a former backup not yet deleted by expiry."""

    tag: Word = ""
    """The tag at the start of the backup."""
    repository: Text = ""
    """The repository of the backup."""
    backup: Annotated[str, StringConstraints(max_length=160)] = ""
    """Its name in the repository."""
    account: Word = ""
    """The account that opens the repository."""
    phase: Word = ""
    """The phase of the backup."""
    restorable: bool | None = None
    """Whether a commit held all topics of the backup once."""
    problem: Text = ""
    """Why the backup could not be read."""
    oldest_data: StatusPoint | None = None
    """The oldest restore point."""
    latest_restorable: StatusPoint | None = None
    """The newest restore point. Absent during the first copy."""


class StatusMember(Strict):
    """A member of the shared backup: the resource itself, or a resource of another Kubernetes cluster."""

    id: Word = ""
    """The id of the resource in the repository."""
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    """Its namespace and name."""
    operator: Text = ""
    """The process that entered the newest statement."""
    since: Time | None = None
    """The time of the newest statement. The time does not show whether the resource still exists: only a `left`
    statement shows the end."""
    counts: bool = False
    """Whether the spec of the resource is in force."""
    own: bool = False
    """Whether it is this resource: names may be alike in all clusters."""


class AgentCount(Strict):
    """The number of processes that copy or stand by."""

    replicas: Count = 0
    """The declared number."""
    ready: Count = 0
    """The number of ready processes."""
    problem: Text = ""
    """Why other processes are not ready, as far as known."""


class BackupResourceStatus(ResourceStatus):
    state: Word = ""
    """The state to bring about: `running`, `paused`, `stopped`, `deleting`."""
    backups: Annotated[tuple[StatusBackup, ...], Field(max_length=64)] | None = None
    """The backups of this resource, from the oldest to the newest, which is the running backup."""
    agents: AgentCount | None = None
    """The copying processes."""
    members: Annotated[tuple[StatusMember, ...], Field(max_length=64)] | None = None
    """The resources that share the backup, if the backup has an identity."""


class StatusProgress(Strict):
    """The progress of a restore."""

    tasks_done: Count = 0
    """Restored ranges."""
    tasks_total: Count = 0
    """All ranges."""
    records: Count = 0
    """Records written so far."""


class RestoreResourceStatus(ResourceStatus):
    phase: Word = ""
    """The phase of the restore."""
    attempts: Count = 0
    """Jobs started for the restore: a further job only after the process of the previous job disappeared."""
    progress: StatusProgress | None = None
    """The progress in numbers."""
    job: Annotated[str, StringConstraints(max_length=160)] = ""
    """The job of the restore."""
    failure_reason: Text = ""
    """Why the restore failed."""
    verified: bool | None = None
    """Whether the restored records were read back and equal the backup. Absent: not compared."""


class StatusRun(Strict):
    """A due time."""

    time: Time
    """The due time."""
    phase: Word = ""
    """The result of the time."""
    job: Annotated[str, StringConstraints(max_length=160)] = ""
    """The job of the run."""
    message: Text = ""
    """The outcome, or the reason for no run."""


class ScheduleResourceStatus(ResourceStatus):
    state: Word = ""
    """`running`, `waiting` for the next time, `suspended`, or `over`: no further time."""
    last_schedule_time: Time | None = None
    """The last due time that started."""
    next_schedule_time: Time | None = None
    """The next due time."""
    runs: Annotated[tuple[StatusRun, ...], Field(max_length=100)] | None = None
    """The last runs, from the oldest to the newest; their number is `spec.history`."""


def fit_to_model(status: Mapping[str, Any], model: type[ResourceStatus]) -> dict[str, Any]:
    """Return `status` within the bounds of its model: the beginning of a text, and the newest (last) elements of a
    list. Kubernetes would refuse a longer status as a whole."""
    fitted_status: dict[str, Any] = _fit(status, _schema(model))
    return fitted_status


@cache
def _schema(model: type[BaseModel]) -> Schema:
    return structural_schema(model)


def _fit(value: Any, schema: Schema) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, str):
        return value[: schema.get("maxLength")]
    if isinstance(value, list | tuple):
        return [_fit(part, schema.get("items", {})) for part in value[-schema.get("maxItems", len(value)) :]]
    if isinstance(value, Mapping):
        children = schema.get("properties", {})
        return {name: _fit(part, children.get(name, {})) for name, part in value.items()}
    return value
