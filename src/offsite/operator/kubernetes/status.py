"""The status of a resource in Kubernetes: the status of all homes, merged into the stored status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from offsite.operator.decide.backup import ConditionType
from offsite.operator.folder.keeper import Reconciled
from offsite.operator.folder.status import Condition, build_status
from offsite.operator.kubernetes.agents import UID
from offsite.operator.kubernetes.cluster import Body, ResourceReference
from offsite.operator.kubernetes.merge import merge_patch


def build_kubernetes_status(body: Body, reconciled: Reconciled, now_ms: int) -> dict[str, Any]:
    """Build the status of the resource `body`."""
    conditions = [_with_reason(condition, reconciled.status or {}, body) for condition in reconciled.conditions]
    return build_status(
        body["kind"],
        body["metadata"]["generation"],
        conditions,
        reconciled.status,
        before=body.get("status") or {},
        now_ms=now_ms,
    )


def status_patch(body: Body, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch from the stored status to `status`; empty if they are equal."""
    before = body.get("status") or {}
    if before == status:
        return {}
    return {"metadata": {"uid": body["metadata"]["uid"]}, "status": merge_patch(before, status)}


def _with_reason(condition: Condition, fields: Mapping[str, Any], body: Body) -> Condition:
    """Add the reason why agents do not run, if the Deployment has one, and the command that shows the state of the
    pods. Only pods have reasons such as a missing volume or too little memory, and the operator may not read pods."""
    if condition.type != ConditionType.DEPLOYMENT_ROLLING_OUT:
        return condition
    named, problem = ResourceReference.of(body), (fields.get("agents") or {}).get("problem")
    look = f"kubectl -n {named.namespace} describe pods -l {UID}={named.uid}"
    return replace(
        condition, message=f"{condition.message}{f': {problem}' if problem else ''}; see the reason with: {look}"
    )
