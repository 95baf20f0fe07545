"""The status of a resource in Kubernetes: the status of all homes, merged into the stored status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from offsite.operator.decide.backup import ConditionType
from offsite.operator.folder.keeper import Kept
from offsite.operator.folder.status import Told, status_of
from offsite.operator.kubernetes.agents import UID
from offsite.operator.kubernetes.cluster import Body, Named
from offsite.operator.kubernetes.merge import merge_patch


def status_told(body: Body, kept: Kept, now_ms: int) -> dict[str, Any]:
    """Build the status of the resource `body`."""
    told = [_with_reason(each, kept.fields or {}, body) for each in kept.told]
    return status_of(
        body["kind"],
        body["metadata"]["generation"],
        told,
        kept.fields,
        before=body.get("status") or {},
        now_ms=now_ms,
    )


def status_patch(body: Body, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch from the stored status to `status`; empty if they are equal."""
    before = body.get("status") or {}
    if before == status:
        return {}
    return {"metadata": {"uid": body["metadata"]["uid"]}, "status": merge_patch(before, status)}


def _with_reason(told: Told, fields: Mapping[str, Any], body: Body) -> Told:
    """With the reason why agents do not run, where a Deployment tells one. What becomes of a pod (no node takes it, a
    volume is missing, it is ended for its memory) is told of pods alone, which the operator may not read."""
    if told.type != ConditionType.DEPLOYMENT_ROLLING_OUT:
        return told
    named, problem = Named.of(body), (fields.get("agents") or {}).get("problem")
    look = f"kubectl -n {named.namespace} describe pods -l {UID}={named.uid}"
    return replace(told, message=f"{told.message}{f': {problem}' if problem else ''}; to see why: {look}")
