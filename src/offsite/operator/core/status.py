"""The status of a resource: the last observation of an operator, the same in all homes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.observed import ObservedBackup, ObservedLowLevel
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.status import fit_to_model
from offsite.repository.declared.members import BackupMember

Fields = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition: a difference from the spec, with a message. `is_note`: no difference, but information for a
    person."""

    type: str
    message: str
    is_note: bool = False


def build_status(  # noqa: PLR0913  # a status has so many parts
    kind: str, generation: int, conditions: Sequence[Condition], fields: Fields | None, *, before: Fields, now_ms: int
) -> dict[str, JsonValue]:
    """Build the status of a resource in any home, within the bounds of its model. `fields`: other observed fields;
    None: nothing was observed, and the fields of `before` stay. A condition that existed before keeps its time."""
    since = {condition.get("type"): condition.get("lastTransitionTime") for condition in _conditions(before)}
    current = before if fields is None else fields
    status: dict[str, JsonValue] = {
        **current,
        "observedGeneration": generation,
        "reconciled": all(condition.is_note for condition in conditions),
        "conditions": [
            {
                "type": condition.type,
                "status": "True",
                "reason": condition.type,
                "message": condition.message,
                "lastTransitionTime": since.get(condition.type) or format_time(now_ms),
                "observedGeneration": generation,
            }
            for condition in conditions
        ],
    }
    return fit_to_model(status, DEFINITIONS[kind].status)


def describe_backups(observed: ObservedBackup) -> list[JsonValue]:
    return [_backup(backup) for backup in observed.backups]


def describe_members(members: Sequence[BackupMember], counts: BackupMember | None, *, own: str) -> list[JsonValue]:
    """The resources that share a backup. `counts`: the resource with the spec in force. `own`: the id of the resource
    with this status."""
    return [
        {
            "id": member.id,
            "name": member.name,
            "operator": member.by,
            "since": format_time(member.at_ms),
            "counts": member is counts,
            "own": member.id == own,
        }
        for member in members
    ]


def _backup(observed: ObservedLowLevel) -> Fields:
    fields: dict[str, JsonValue] = {
        "tag": observed.low.beginning.tag,
        "account": observed.place.account,
        "repository": observed.place.repository,
        "backup": observed.low.beginning.backup,
        "phase": observed.low.phase.value,
        "restorable": observed.is_whole,
    }
    if observed.oldest_commit:
        fields["oldestData"] = {"commit": observed.oldest_commit, "timestamp": format_time(observed.oldest_ms)}
    if observed.latest_commit:
        fields["latestRestorable"] = {"commit": observed.latest_commit, "timestamp": format_time(observed.latest_ms)}
    if observed.problem:
        fields["problem"] = observed.problem
    return fields


def _conditions(status: Fields) -> list[Fields]:
    listed = status.get("conditions")
    conditions = (
        [condition for condition in listed if isinstance(condition, Mapping)] if isinstance(listed, list) else []
    )
    return [condition for condition in conditions if isinstance(condition.get("type"), str)]
