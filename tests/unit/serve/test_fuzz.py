"""The API asked with whatever its own description allows, and with what it does not: no 500, no undocumented answer."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from offsite.checkpoint.request import request_checkpoint as take
from offsite.checkpoint.serve import CheckpointServer
from offsite.serve import actuator
from offsite.serve.app import make_app
from offsite.serve.browsers import Hosts
from offsite.serve.gate import GateRules
from offsite.serve.sessions import Sessions
from tests.examples import IS_QUICK
from tests.fake_cluster.site import Site
from tests.unit.serve.conftest import FakedClusters

EXAMPLES = int(os.environ.get("OFFSITE_FUZZ_EXAMPLES", "2" if IS_QUICK else "15"))
"""Requests for each operation."""
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture
def described(coordinator: FakedClusters, site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The API of a coordinator of one backup with a checkpoint."""
    monkeypatch.setattr(actuator, "STARTS_WITHIN_S", 0.01)
    monkeypatch.setattr(actuator, "LOOK_S", 0.001)
    take(site.backup, 7)
    CheckpointServer(
        repository=site.repository, backup=site.backup, cluster=site.source.connected, runner=site.runner
    ).serve()
    hosts = Hosts.of(["testserver"])
    app = make_app(coordinator, GateRules(hosts=hosts, sessions=Sessions(), tokens=None, read_only=False))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.slow
def test_no_request_breaks_it_or_surprises(described: Any) -> None:
    operations = [each.ok() for each in described.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            assert case.call_and_validate(checks=CHECKS).status_code != HTTPStatus.INTERNAL_SERVER_ERROR

        ask()
