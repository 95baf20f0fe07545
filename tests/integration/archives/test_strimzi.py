"""What an export writes for Strimzi fits Strimzi's own definitions, in each version of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.fetched_tools import NoTool
from tests.strimzi import VERSIONS, strict_schema
from tests.unit.archives.strimzi.settings import written_resources


@pytest.mark.parametrize("version", VERSIONS)
def test_written_resources_fit_the_definitions_of_strimzi(version: str, tmp_path: Path) -> None:
    try:
        validators = {kind: Draft202012Validator(strict_schema(kind, version)) for kind in ("KafkaTopic", "KafkaUser")}
    except NoTool as error:
        pytest.skip(str(error))
    resources = written_resources(tmp_path, "--api-version", version)
    assert {resource["apiVersion"] for resource in resources} == {f"kafka.strimzi.io/{version}"}
    assert len(resources) == 6
    for resource in resources:
        assert [error.message for error in validators[resource["kind"]].iter_errors(resource)] == []
        odd = {**resource, "spec": {**resource["spec"], "partition": 1}}
        assert not validators[resource["kind"]].is_valid(odd), "the definition says something"
