"""The definitions of the resources for Kubernetes (`CustomResourceDefinition`), made from their models. Pure.

A definition has the rules of the model. In addition a definition has rules about changes: an API server can check
changes, a model cannot. Every rule has a message for a person who breaks the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from offsite.operator.resources.backup import Backup
from offsite.operator.resources.jobs import FACTORY, NO_NEW_BATCHES, Restore, RestoreSpec, Schedule
from offsite.operator.resources.model import (
    GROUP,
    VERSION,
    Metadata,
    Resource,
    Schema,
    duration_ms,
    structural_schema,
    unchanged,
    without_defaults,
)
from offsite.operator.resources.pod_template import (
    CLUSTER,
    MOUNT_OF_NOTHING,
    ONE_SOURCE,
    TEMPORARY,
    VOLUME_TAKEN,
    Volume,
)
from offsite.operator.resources.status import (
    BackupResourceStatus,
    ResourceStatus,
    RestoreResourceStatus,
    ScheduleResourceStatus,
)

CATEGORY = "offsite"
_POD = "self.agents.template.spec"
_SOURCES = ", ".join(f"has(v.{field.alias})" for name, field in Volume.model_fields.items() if name != "name")
_RESTORE_FIELDS = [field.alias or name for name, field in RestoreSpec.model_fields.items() if name != "state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A CEL rule of `spec`. A rule with `oldSelf` is checked for changes only."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. Columns that are not `wide` are always shown."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The needs of Kubernetes for a kind, beside its fields."""

    model: type[Resource]
    status: type[ResourceStatus]
    short_name: str
    rules: tuple[Rule, ...] = ()
    columns: tuple[Column, ...]

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_GENERATION = Column("Generation", ".metadata.generation", "integer", "Counts the changes of spec.")


def _filled_in(field: str, rule: str, message: str) -> Rule:
    """Guard a rule: the default of a whole spec, `{}`, is validated before its fields are filled in."""
    return Rule(rule=f"!has(self.{field}) || {rule}", message=message)


BACKUP = Definition(
    model=Backup,
    status=BackupResourceStatus,
    short_name="obk",
    rules=(
        Rule(rule=unchanged(["cluster"]), message="cluster is immutable: create another Backup"),
        _filled_in(
            "expiry",
            f"self.expiry.maximumRetention == '' || self.expiry.minimumRestorable == '' || "
            f"{duration_ms('self.expiry.minimumRestorable')} <= {duration_ms('self.expiry.maximumRetention')}",
            "expiry.minimumRestorable is longer than expiry.maximumRetention: are the two values swapped?",
        ),
        _filled_in(
            "agents",
            f"{_POD}.volumes.all(v, v.name != '{CLUSTER}' && (v.name != '{TEMPORARY}' || has(v.emptyDir)))",
            VOLUME_TAKEN,
        ),
        _filled_in("agents", f"{_POD}.volumes.all(v, [{_SOURCES}].exists_one(is_given, is_given))", ONE_SOURCE),
        _filled_in(
            "agents",
            f"{_POD}.containers.all(c, c.volumeMounts.all(m, {_POD}.volumes.exists(v, v.name == m.name)))",
            MOUNT_OF_NOTHING,
        ),
        Rule(rule=unchanged(["identity"]), message="identity is immutable: create another Backup"),
    ),
    columns=(
        _GENERATION,
        Column("Reconciled", ".status.reconciled", "boolean", "Whether everything is as declared."),
        Column("Oldest", ".status.backups[*].oldestData.timestamp", description="The oldest restore point of all."),
        Column(
            "Restorable",
            ".status.backups[-1:].latestRestorable.timestamp",
            description="The newest restore point of the current backup; empty during its first copy.",
        ),
        Column("State", ".spec.state", description="The declared state.", wide=True),
        Column(
            "Condition",
            ".status.conditions[*].type",
            description="The first difference from the declaration.",
            wide=True,
        ),
        _AGE,
    ),
)
RESTORE = Definition(
    model=Restore,
    status=RestoreResourceStatus,
    short_name="ors",
    rules=(
        Rule(rule=unchanged(_RESTORE_FIELDS), message="a Restore is immutable: create another Restore"),
        Rule(
            rule="self.state == oldSelf.state || (oldSelf.state == 'running' && self.state == 'stopped')",
            message="a stopped Restore cannot run again: create another Restore",
        ),
        Rule(
            rule="self.timestamp == '' || self.commit > 0 || self.sourceCluster != ''",
            message="timestamp needs sourceCluster: the timestamp is a time of that cluster",
        ),
        Rule(rule="self.batchBytes == '' || size(self.repartition) > 0", message=NO_NEW_BATCHES),
    ),
    columns=(
        Column("Phase", ".status.phase", description="How far it is."),
        Column("Cluster", ".spec.cluster", description="The destination."),
        Column("Records", ".status.progress.records", "integer", "Records written so far."),
        Column("Verified", ".status.verified", "boolean", "Whether both ends were compared and are the same."),
        Column("Backup", ".spec.backupUrl", description="What is restored.", wide=True),
        Column("Reason", ".status.failureReason", description="Why it failed.", wide=True),
        _AGE,
    ),
)
SCHEDULE = Definition(
    model=Schedule,
    status=ScheduleResourceStatus,
    short_name="osc",
    rules=(
        Rule(rule=f"self.timeZone != '{FACTORY}'", message="timeZone is a placeholder: write Europe/Zurich, or UTC"),
    ),
    columns=(
        Column("Backup", ".spec.backup", description="What it is about."),
        Column("Action", ".spec.action", description="What is done."),
        Column("Cron", ".spec.cron", description="When."),
        Column("Suspended", ".spec.suspend", "boolean", "Whether it is left out for now."),
        Column("Last", ".status.lastScheduleTime", "date", "How long ago it began last."),
        Column("Next", ".status.nextScheduleTime", description="When it is due next."),
        Column("Zone", ".spec.timeZone", description="Of the times of cron.", wide=True),
        _AGE,
    ),
)
DEFINITIONS: Mapping[str, Definition] = {definition.kind: definition for definition in (BACKUP, RESTORE, SCHEDULE)}


def resource_definition(definition: Definition) -> dict[str, Any]:
    """Return the `CustomResourceDefinition` (apiextensions.k8s.io/v1), in the form of its YAML."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                "shortNames": [definition.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _whole(definition)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in definition.columns],
                }
            ],
        },
    }


def _whole(definition: Definition) -> Schema:
    envelope = structural_schema(definition.model)
    spec = envelope["properties"]["spec"]
    if definition.rules:
        spec["x-kubernetes-validations"] = [{"rule": rule.rule, "message": rule.message} for rule in definition.rules]
    return {
        "description": envelope["description"],
        "type": "object",
        **({"required": ["spec"]} if "spec" in envelope["required"] else {}),
        "properties": {
            "metadata": _metadata(),
            "spec": spec,
            "status": without_defaults(structural_schema(definition.status)),
        },
    }


def _metadata() -> Schema:
    """A definition may restrict only the name in metadata."""
    name = structural_schema(Metadata)["properties"]["name"]
    return {"type": "object", "properties": {"name": name}}


def _column(column: Column) -> dict[str, Any]:
    fields = {"name": column.name, "type": column.type, "jsonPath": column.path, "description": column.description}
    return {key: value for key, value in fields.items() if value} | ({"priority": 1} if column.wide else {})
