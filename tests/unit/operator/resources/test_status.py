"""A status stays within what Kubernetes stores."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from offsite.operator.core.status import Condition, build_status
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.status import BackupResourceStatus, ScheduleResourceStatus, fit_to_model

TIME = "2026-11-24T12:00:00Z"


def test_what_is_too_long_is_cut_to_what_the_schema_takes() -> None:
    runs = [{"time": TIME, "phase": "failed", "message": "m" * 2000, "job": str(number)} for number in range(150)]
    found = fit_to_model({"runs": runs, "state": "waiting"}, ScheduleResourceStatus)
    ScheduleResourceStatus.model_validate(found)
    assert len(found["runs"]) == 100
    assert found["runs"][-1] == {**runs[-1], "message": "m" * 1024}


def test_what_is_short_enough_stays_as_it_is() -> None:
    status = {"backups": [], "agents": {"replicas": 1, "ready": 0}, "reconciled": True, "conditions": []}
    assert fit_to_model(status, BackupResourceStatus) == status


def test_a_field_that_the_schema_does_not_know_is_found_by_the_models() -> None:
    with pytest.raises(ValidationError):
        BackupResourceStatus.model_validate({"agents": {"wanted": 1}})


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_where_nothing_newer_is_known_what_was_told_stays_with_the_time_of_its_conditions(kind: str) -> None:
    told = [Condition(type="Trouble", message="one")]
    before = build_status(kind, 1, told, {}, before={}, now_ms=0) | {"reconciled": False}
    after = build_status(kind, 2, [Condition(type="Trouble", message="two")], None, before=before, now_ms=99_000)
    (condition,) = DEFINITIONS[kind].status.model_validate(after).conditions or ()
    assert (condition.message, condition.observed_generation) == ("two", 2)
    assert (condition.last_transition_time or "").startswith("1970-01-01T00:00:00")
