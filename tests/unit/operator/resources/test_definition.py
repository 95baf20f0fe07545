"""The definitions for Kubernetes: structural, bounded, and of the same mind as the models.

That a real API server takes them, and what its rules do, is tested in tests/integration/operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from offsite.model.errors import BadResource
from offsite.model.units import UNIT_MS
from offsite.operator.resources.definition import DEFINITIONS, resource_definition
from offsite.operator.resources.jobs import RestoreSpec
from offsite.operator.resources.model import INT_OR_STRING, Schema
from offsite.operator.resources.parse import KINDS, parse_resource
from tests.unit.operator.resources.documents import ACCEPTED, REFUSED

MADE = {kind: resource_definition(definition) for kind, definition in DEFINITIONS.items()}
SCHEMAS: dict[str, Schema] = {
    kind: made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind, made in MADE.items()
}
FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "const", "title", "propertyNames", "nullable"}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}[]")


ALL = [(f"{kind}{path}", node) for kind, schema in SCHEMAS.items() for path, node in nodes(schema)]


def rules(kind: str) -> list[str]:
    return [each["rule"] for each in SCHEMAS[kind]["properties"]["spec"].get("x-kubernetes-validations", [])]


def strict(schema: Schema) -> Schema:
    """As the API server reads with `fieldValidation=Strict`."""
    made = deepcopy(schema)
    for _, node in list(nodes(made)):
        if "properties" in node:
            node["additionalProperties"] = False
    return made


def filled_in(value: Any, schema: Schema) -> Any:
    """With the defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [filled_in(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    children = schema.get("properties", {})
    given = {name: child["default"] for name, child in children.items() if "default" in child} | value
    return {name: filled_in(each, children.get(name, {})) for name, each in given.items()}


def as_sent(document: dict[str, Any]) -> dict[str, Any]:
    """What the schema of a definition is asked about."""
    return {name: value for name, value in document.items() if name not in {"apiVersion", "kind"}}


def test_there_is_a_definition_for_each_kind() -> None:
    assert list(MADE) == list(KINDS)
    assert [made["metadata"]["name"] for made in MADE.values()] == [
        "backups.offsite.dev",
        "restores.offsite.dev",
        "schedules.offsite.dev",
    ]


def test_every_node_is_structural() -> None:
    for path, node in ALL:
        assert isinstance(node.get("type"), str) != (INT_OR_STRING in node), path
        assert not FORBIDDEN & node.keys(), path
        assert not {"properties", "additionalProperties"} <= node.keys(), path
        assert node.get("default", "") is not None, path


def test_every_string_every_list_and_every_map_is_bounded() -> None:
    for path, node in ALL:
        if node.get("type", "string") == "string":
            assert "maxLength" in node or "enum" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_every_field_says_what_it_is_for() -> None:
    known = ("[]", ".spec", ".status", ".metadata", ".cpu", ".memory", ".ephemeral-storage")
    assert [path for path, node in ALL if "description" not in node and not path.endswith(known)] == []


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_models_take_is_taken_with_the_same_defaults(name: str) -> None:
    given = ACCEPTED[name]
    schema = SCHEMAS[given["kind"]]
    sent = filled_in(as_sent(given), schema)
    Draft202012Validator(strict(schema)).validate(sent)
    meant = parse_resource(given, source="a").model_dump(mode="json", by_alias=True)
    assert sent["spec"] == meant["spec"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_models_refuse_is_refused(name: str) -> None:
    schema = SCHEMAS[REFUSED[name]["kind"]]
    assert not Draft202012Validator(strict(schema)).is_valid(filled_in(as_sent(REFUSED[name]), schema))


def test_the_cluster_of_a_backup_is_immutable() -> None:
    rule, *_ = rules("Backup")
    assert (
        rule == "has(self.cluster) == has(oldSelf.cluster) && (!has(self.cluster) || self.cluster == oldSelf.cluster)"
    )


def test_the_identity_of_a_backup_is_immutable_and_none_is_given_later() -> None:
    rule = rules("Backup")[-1]
    assert "has(self.identity) == has(oldSelf.identity)" in rule
    assert "self.identity == oldSelf.identity" in rule


@pytest.mark.parametrize("identity", ["short", "Shop-Everywhere", "shop_everywhere", "-everywhere", "x" * 64])
def test_an_identity_is_a_word_that_names_a_folder(identity: str) -> None:
    with pytest.raises(BadResource, match=r"spec\.identity"):
        parse_resource(
            {"apiVersion": "offsite.dev/v1alpha1", "kind": "Backup", "metadata": {"name": "shop"}}
            | {"spec": {"identity": identity}},
            source="test",
        )


def test_of_a_restore_all_is_immutable_but_its_state_which_may_be_stopped() -> None:
    immutable, state, *_ = rules("Restore")
    fields = [field.alias for name, field in RestoreSpec.model_fields.items() if name != "state"]
    assert all(f"self.{field} == oldSelf.{field}" in immutable for field in fields)
    assert "self.state" not in immutable
    assert "oldSelf.state == 'running' && self.state == 'stopped'" in state


def test_a_time_to_restore_needs_its_cluster_unless_a_commit_is_given() -> None:
    assert rules("Restore")[2] == "self.timestamp == '' || self.commit > 0 || self.sourceCluster != ''"


def test_a_size_of_new_batches_needs_topics_that_get_some() -> None:
    assert rules("Restore")[3] == "self.batchBytes == '' || size(self.repartition) > 0"


def test_durations_are_compared_in_the_units_that_the_models_know() -> None:
    (rule,) = [rule for rule in rules("Backup") if "minimumRestorable" in rule]
    assert all(f"'{unit}': {float(size_ms)}" in rule for unit, size_ms in UNIT_MS.items())


def test_names_in_maps_are_bounded_by_a_rule() -> None:
    parameters = SCHEMAS["Backup"]["properties"]["spec"]["properties"]["parameters"]
    assert parameters["x-kubernetes-validations"][0]["rule"] == "self.all(key, size(key) <= 40)"


def test_conditions_are_a_map_by_their_type() -> None:
    for schema in SCHEMAS.values():
        conditions = schema["properties"]["status"]["properties"]["conditions"]
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert set(conditions["items"]["properties"]) == {
            *("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"),
        }


def test_a_list_of_backups_shows_what_the_design_asks_for() -> None:
    version = MADE["Backup"]["spec"]["versions"][0]
    shown = [each["name"] for each in version["additionalPrinterColumns"] if "priority" not in each]
    assert shown == ["Generation", "Reconciled", "Oldest", "Restorable", "Age"]  # the name is always there


def test_the_status_is_a_subresource_of_its_own() -> None:
    assert all(made["spec"]["versions"][0]["subresources"] == {"status": {}} for made in MADE.values())


def test_nothing_is_filled_in_into_a_status() -> None:
    for schema in SCHEMAS.values():
        assert [path for path, node in nodes(schema["properties"]["status"]) if "default" in node] == []


def test_short_names_are_no_others() -> None:
    names = [made["spec"]["names"] for made in MADE.values()]
    assert [each["shortNames"] for each in names] == [["obk"], ["ors"], ["osc"]]
    assert all(each["categories"] == ["offsite"] for each in names)
