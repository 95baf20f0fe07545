"""The status of a Backup as Kubernetes stores it: the fields of `resources/status.py` and no others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from offsite.model.time import format_time
from offsite.operator.decide.backup import ConditionType
from offsite.operator.folder.status import Told
from offsite.operator.kubernetes.cluster import Body
from offsite.operator.resources.status import BackupStatus, KeptBackup

BACKUPS_MAX = 64
MESSAGE_MAX = 1024
_BACKUP = frozenset(each.alias or name for name, each in KeptBackup.model_fields.items())


def status_of(body: Body, told: Sequence[Told], fields: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """`fields`: what a look saw of backups and agents; of what is not there nothing newer is known, and what was told
    stays."""
    generation = body["metadata"]["generation"]
    before: Mapping[str, Any] = body.get("status") or {}
    since = {each["type"]: each.get("lastTransitionTime") for each in before.get("conditions") or ()}
    found: dict[str, Any] = {
        "observedGeneration": generation,
        "reconciled": not told,
        "conditions": [
            _condition(each, _message(each, fields), generation, since.get(each.type) or format_time(now_ms))
            for each in told
        ],
    }
    found |= {name: before[name] for name in ("backups", "agents") if name in before}
    found |= _seen(fields)
    status = BackupStatus.model_validate(found)
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def status_patch(body: Body, status: Mapping[str, Any]) -> dict[str, Any]:
    """What makes `status` of the one that `body` has; empty where they are the same."""
    before = body.get("status") or {}
    if before == status:
        return {}
    gone = dict.fromkeys(before.keys() - status.keys())
    return {"metadata": {"uid": body["metadata"]["uid"]}, "status": {**gone, **status}}


def _message(told: Told, fields: Mapping[str, Any]) -> str:
    """With the reason why agents do not run, where Kubernetes tells one."""
    agents: Mapping[str, Any] = fields.get("agents") or {}
    is_of_agents = told.type == ConditionType.DEPLOYMENT_ROLLING_OUT
    return f"{told.message}: {agents['problem']}" if is_of_agents and "problem" in agents else told.message


def _condition(told: Told, message: str, generation: int, since: str) -> dict[str, Any]:
    return {
        "type": told.type,
        "status": "True",
        "reason": told.type,
        "message": message[:MESSAGE_MAX],
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def _seen(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "backups" in fields:
        found["backups"] = list(_backups(fields["backups"]))
    if agents := fields.get("agents"):
        found["agents"] = {"wanted": agents["replicas"], "ready": agents["ready"]}
    return found


def _backups(backups: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in backups[-BACKUPS_MAX:]:
        yield {name: value for name, value in each.items() if name in _BACKUP}
