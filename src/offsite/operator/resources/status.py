"""What the operator tells of a resource: the shape of `status`, the same in a file beside it and in Kubernetes. Pure.

Everything may be absent: it is not known yet. Every string and every list is bounded, so that a status never grows past
what Kubernetes stores. A field that is not here is pruned there without a word, so what keepers write is tested against
these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from offsite.operator.resources.model import Strict, Text
from offsite.operator.resources.schema import Schema, structural_schema

Word = Annotated[str, StringConstraints(max_length=63)]
Time = Annotated[str, StringConstraints(max_length=40), Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, in UTC."""
Count = Annotated[int, Field(ge=0)]


class Condition(Strict):
    """What is not as declared. A resource without conditions is as it should be; `OlderBackupKept` says that
    more is there than is declared, and `DeclaredOtherwise` may say that only another one differs."""

    type: Word
    """Its kind, as `IncorrectDeployment`."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Word = ""
    """Why, in one word for programs."""
    message: Text = ""
    """Why, for people."""
    last_transition_time: Time | None = None
    """Since when it is so."""
    observed_generation: Count | None = None
    """Of which generation of the resource it is told."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class Status(Strict):
    """What all kinds tell."""

    observed_generation: Count | None = None
    """The generation of the resource that was last looked at."""
    reconciled: bool | None = None
    """Whether all is as declared: its conditions, if there are any, say so of nothing but others."""
    conditions: Conditions | None = None
    """What is not as declared; one of each type."""
    last_look_time: Time | None = None
    """When an operator looked last, or a little later; told in a folder alone, where nobody else watches operators."""


class Point(Strict):
    """A commit, and its time."""

    commit: Count | None = None
    """Its number."""
    timestamp: Time | None = None
    """Its time."""


class KeptBackup(Strict):
    """A backup in a repository: the one that goes on, or one of before that expiry has not deleted yet."""

    tag: Word = ""
    """The tag that it was begun with."""
    repository: Text = ""
    """Where it is."""
    backup: Annotated[str, StringConstraints(max_length=160)] = ""
    """Its name in the repository."""
    account: Word = ""
    """The account that opens the repository."""
    phase: Word = ""
    """How far it is."""
    restorable: bool | None = None
    """Whether a commit held all of its topics once."""
    problem: Text = ""
    """Why it could not be looked at."""
    oldest_data: Point | None = None
    """The oldest restore point."""
    latest_restorable: Point | None = None
    """The newest restore point. Absent while the first copy is under way."""


class MemberTold(Strict):
    """A resource that shares the backup: this one, or one of another Kubernetes cluster."""

    id: Word = ""
    """What names it in the repository."""
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    """Its namespace and name."""
    operator: Text = ""
    """The process that spoke for it last."""
    since: Time | None = None
    """When that was. It says nothing of whether it is there still: only its own word that it lets go does."""
    counts: bool = False
    """Whether what it declares counts."""
    own: bool = False
    """Whether it is this resource: names may be alike in all clusters."""


class AgentCount(Strict):
    """How many processes copy or stand by."""

    replicas: Count = 0
    """As declared."""
    ready: Count = 0
    """That answer."""
    problem: Text = ""
    """Why the others do not, as far as it is known."""


class BackupStatus(Status):
    state: Word = ""
    """What is brought about: `running`, `paused`, `stopped`, `deleting`."""
    backups: Annotated[tuple[KeptBackup, ...], Field(max_length=64)] | None = None
    """The backups of this resource, from the oldest to the newest, which is the one that goes on."""
    agents: AgentCount | None = None
    """The processes that copy."""
    members: Annotated[tuple[MemberTold, ...], Field(max_length=64)] | None = None
    """The resources that share the backup, where it has an identity."""


class Progress(Strict):
    """How far a restore is."""

    tasks_done: Count = 0
    """Ranges that are restored."""
    tasks_total: Count = 0
    """Ranges in all."""
    records: Count = 0
    """Records written so far."""


class RestoreStatus(Status):
    phase: Word = ""
    """How far it is."""
    attempts: Count = 0
    """Jobs that were begun for it: another one only where the process of the one before vanished."""
    progress: Progress | None = None
    """In numbers."""
    job: Annotated[str, StringConstraints(max_length=160)] = ""
    """The job that carries it out."""
    failure_reason: Text = ""
    """Why it failed."""
    verified: bool | None = None
    """Whether both ends were read again and are the same. Absent: not compared."""


class Run(Strict):
    """A time that was due."""

    time: Time
    """When it was due."""
    phase: Word = ""
    """What became of it."""
    job: Annotated[str, StringConstraints(max_length=160)] = ""
    """The job that carried it out."""
    message: Text = ""
    """What came of it, or why not."""


class ScheduleStatus(Status):
    state: Word = ""
    """`running`, `waiting` for its next time, `suspended`, or `over`: no time of it comes again."""
    last_schedule_time: Time | None = None
    """The last time that was due and begun."""
    next_schedule_time: Time | None = None
    """The next time that is due."""
    runs: Annotated[tuple[Run, ...], Field(max_length=100)] | None = None
    """The last runs, from the oldest to the newest; as many as `spec.history` says."""


def fitted(status: Mapping[str, Any], model: type[Status]) -> dict[str, Any]:
    """`status` within the bounds of its model: of a text the beginning, of a list the newest entries, which are the
    last. One that is longer would be refused as a whole."""
    found: dict[str, Any] = _fitted(status, _schema(model))
    return found


@cache
def _schema(model: type[BaseModel]) -> Schema:
    return structural_schema(model)


def _fitted(value: Any, schema: Schema) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, str):
        return value[: schema.get("maxLength")]
    if isinstance(value, list | tuple):
        return [_fitted(each, schema.get("items", {})) for each in value[-schema.get("maxItems", len(value)) :]]
    if isinstance(value, Mapping):
        children = schema.get("properties", {})
        return {name: _fitted(each, children.get(name, {})) for name, each in value.items()}
    return value
