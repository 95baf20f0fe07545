"""The schemas take what the models take, and refuse what the models refuse."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from offsite.model.errors import BadResource
from offsite.operator.resources.model import json_schema, unchanged
from offsite.operator.resources.parse import KINDS, parse_resource
from tests.unit.operator.resources.documents import (
    ACCEPTED,
    REFUSED,
    REFUSED_BY_KEYS,
    REFUSED_BY_LISTS,
    REFUSED_BY_RULES,
    template,
)

SCHEMAS = {kind: json_schema(model) for kind, model in KINDS.items()}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_models_take_the_schema_takes(name: str) -> None:
    parse_resource(ACCEPTED[name], source="a")
    Draft202012Validator(SCHEMAS[ACCEPTED[name]["kind"]]).validate(ACCEPTED[name])


@pytest.mark.parametrize(("amount", "is_taken"), [(2, True), ("2", True), ("500m", True), (-1, False), (True, False)])
def test_an_amount_is_a_text_or_a_whole_number(amount: object, *, is_taken: bool) -> None:
    given = template({"containers": [{"name": "agent", "resources": {"limits": {"cpu": amount}}}]})
    assert Draft202012Validator(SCHEMAS["Backup"]).is_valid(given) is is_taken
    if not is_taken:
        with pytest.raises(BadResource):
            parse_resource(given, source="a")
        return
    read = parse_resource(given, source="a").model_dump(mode="json", by_alias=True)["spec"]["agents"]["template"]
    assert read["spec"]["containers"][0]["resources"]["limits"] == {"cpu": str(amount)}


@pytest.mark.parametrize("name", REFUSED | REFUSED_BY_KEYS)
def test_what_the_models_refuse_the_schema_refuses(name: str) -> None:
    given = (REFUSED | REFUSED_BY_KEYS)[name]
    with pytest.raises(BadResource):
        parse_resource(given, source="a")
    assert not Draft202012Validator(SCHEMAS[given["kind"]]).is_valid(given)


@pytest.mark.parametrize("name", REFUSED_BY_LISTS)
def test_what_the_models_take_to_read_it_the_schema_refuses(name: str) -> None:
    parse_resource(REFUSED_BY_LISTS[name], source="a")
    assert not Draft202012Validator(SCHEMAS["Backup"]).is_valid(REFUSED_BY_LISTS[name])


@pytest.mark.parametrize("name", REFUSED_BY_RULES)
def test_what_depends_on_other_fields_the_models_alone_refuse(name: str) -> None:
    with pytest.raises(BadResource):
        parse_resource(REFUSED_BY_RULES[name], source="a")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_of_its_dialect_with_a_name_of_its_own(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])
    assert SCHEMAS[kind]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMAS[kind]["$id"] == f"urn:offsite:v1alpha1:{kind}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_is_passed_over_as_the_models_do(kind: str) -> None:
    given: dict[str, Any] = next(each for each in ACCEPTED.values() if each["kind"] == kind)
    Draft202012Validator(SCHEMAS[kind]).validate(given | {"status": {"anything": 1}})


def test_a_field_that_is_added_or_removed_is_a_change() -> None:
    assert unchanged(["a"]) == "has(self.a) == has(oldSelf.a) && (!has(self.a) || self.a == oldSelf.a)"
    assert unchanged(["a", "b"]) == f"{unchanged(['a'])} && {unchanged(['b'])}"
