"""What is known of Zeebe's management API, as data, in our own words: the fake is held against it, and so is a broker.

Read in the published `backup-management-api.yaml` and the endpoints' source of camunda/camunda, in several versions up
to 8.9, and seen at a real broker of 8.5.8 with two partitions. Where the two differ, both are allowed.
"""

from __future__ import annotations

import re
from typing import Any

TAKE_CODES = frozenset({202, 400, 409, 500, 502, 503, 504})
LIST_CODES = frozenset({200, 400, 500, 502, 503, 504})
STATUS_CODES = frozenset({200, 400, 404, 500, 502, 503, 504})
DELETE_CODES = frozenset({204, 400, 500, 502, 503, 504})
EXPORTING_CODES = frozenset({200, 204, 500})

STATES = frozenset({"DOES_NOT_EXIST", "IN_PROGRESS", "COMPLETED", "FAILED", "INCOMPLETE", "INCOMPATIBLE"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_INT64, _INT32 = (1 << 63) - 1, (1 << 31) - 1

_BACKUP = {"backupId", "state", "failureReason", "details"}
_PARTITION = {
    "partitionId",
    "state",
    "failureReason",
    "createdAt",
    "lastUpdatedAt",
    "snapshotId",
    "checkpointPosition",
    "brokerId",
    "brokerVersion",
}


def check_error(body: Any) -> None:
    """An error is a text in `message` and nothing else."""
    assert set(body) == {"message"}, body
    assert isinstance(body["message"], str | None)


def check_problem(body: Any) -> None:
    """What the server below says where Zeebe is not asked: no such route, wrong method, a parameter that is none."""
    assert {"type", "title", "status", "instance"} <= set(body) <= {"type", "title", "status", "instance", "detail"}


def check_taken(body: Any) -> None:
    assert set(body) == {"message"}, body


def check_list(body: Any) -> None:
    assert isinstance(body, list)
    for each in body:
        check_backup(each)


def check_backup(body: Any) -> None:
    assert {"backupId", "state", "details"} <= set(body) <= _BACKUP, body
    assert type(body["backupId"]) is int
    assert 0 <= body["backupId"] <= _INT64
    assert body["state"] in STATES
    assert isinstance(body.get("failureReason", ""), str)
    for each in body["details"]:
        _check_partition(each)
    _check_state(body["state"], {each["state"] for each in body["details"]})


def check_exporting(code: int, body: Any) -> None:
    """The code of what was done is in the body, where there is one."""
    if body is not None and code == 200:
        assert set(body) == {"body", "status", "contentType"}
        assert body["status"] in {204, 500}


def _check_partition(body: Any) -> None:
    assert {"partitionId", "state"} <= set(body) <= _PARTITION, body
    assert 1 <= body["partitionId"] <= _INT32
    assert body["state"] in STATES - {"INCOMPLETE"}
    for name in {"createdAt", "lastUpdatedAt"} & set(body):
        assert _TIME.fullmatch(body[name]), body[name]
    assert type(body.get("checkpointPosition", 0)) is int
    assert type(body.get("brokerId", 0)) is int


def _check_state(whole: str, parts: set[str]) -> None:
    """The order in which Zeebe decides."""
    if "FAILED" in parts:
        assert whole == "FAILED"
    elif "DOES_NOT_EXIST" in parts and parts & {"IN_PROGRESS", "COMPLETED"}:
        assert whole == "INCOMPLETE"
    elif "IN_PROGRESS" in parts:
        assert whole == "IN_PROGRESS"
    elif parts == {"COMPLETED"}:
        assert whole == "COMPLETED"
