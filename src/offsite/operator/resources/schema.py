"""Schemas of the declared resources, made from their models: JSON Schema for editors, and the structural form of
Kubernetes. Pure.

Structural, as Kubernetes wants it: a type at each node, no references, no alternatives, no null, and no
`additionalProperties` beside `properties`. What such a schema cannot say becomes a rule in CEL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from offsite.model.check import check
from offsite.model.time import UNIT_MS
from offsite.operator.resources.model import INT_OR_STRING, VERSION, Resource

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KEPT = (
    *("description", "type", "format", "default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "maxProperties", "required"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", INT_OR_STRING),
)
_STATUS: Schema = {"type": "object", "description": "What the operator told last. Passed over when it is declared."}


def json_schema(model: type[Resource]) -> Schema:
    """The JSON Schema (draft 2020-12) of a whole document: as strict as the model, but for what only code checks."""
    made = _without_words_of_kubernetes(_untitled(model.model_json_schema()))
    properties = {**made.pop("properties"), "status": _STATUS}
    return {"$schema": DIALECT, "$id": f"urn:offsite:{VERSION}:{model.__name__}", **made, "properties": properties}


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model. An object that has a default gets `{}`: Kubernetes fills in those of its
    fields."""
    made = _untitled(model.model_json_schema())
    return _structural(made, made.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """For a status: what was not told stays away. An API server would fill it in, and the status would never be what
    was written."""
    made = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in made:
        made["properties"] = _each(made["properties"], without_defaults)
    for name in ("items", "additionalProperties"):
        if name in made:
            made[name] = without_defaults(made[name])
    return made


def _structural(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    node = _resolved(node, definitions)
    names = node.get("propertyNames", {})
    children = {name: _structural(child, definitions) for name, child in node.get("properties", {}).items()}
    others = node.get("additionalProperties")
    if others and "enum" in names and "maxLength" not in names:
        children, others = {name: _structural(others, definitions) for name in names["enum"]}, None
    made = {key: node[key] for key in _KEPT if node.get(key) is not None}
    if "const" in node:
        made["enum"] = [node["const"]]
    if children:
        made |= {"properties": children} | ({"default": {}} if "default" in made else {})
    if others:
        made["additionalProperties"] = _structural(others, definitions)
    if "maxLength" in names:
        made["x-kubernetes-validations"] = [_short_keys(names["maxLength"])]
    if others and "enum" in names:
        made["x-kubernetes-validations"].append(_listed_keys(names["enum"]))
    if "items" in node:
        made["items"] = _structural(node["items"], definitions)
    if node.get("type") == "integer":
        made["format"] = "int64"
    if INT_OR_STRING in made:
        del made["type"]
    check("type" in made or INT_OR_STRING in made, "each node of a structural schema has a type")
    return made


def _resolved(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Without reference and without null: what is beside a reference counts more than what it points to."""
    some = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
    if some:
        check(len(some) == 1, "a field is of one type, or absent")
        node = {**_resolved(some[0], definitions), **{key: value for key, value in node.items() if key != "anyOf"}}
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _short_keys(length_max: int) -> Schema:
    return {
        "rule": f"self.all(key, size(key) <= {length_max})",
        "message": f"names have at most {length_max} characters",
    }


def _listed_keys(names: Sequence[str]) -> Schema:
    """A rule, and no `properties`: what is not among those would be pruned without a word."""
    return {
        "rule": f"self.all(key, key in [{', '.join(map(repr, names))}])",
        "message": f"a resource may set no others than {', '.join(names)}",
    }


def _untitled(schema: Schema) -> Schema:
    """Without the titles that are the names again, and with descriptions in one line."""
    made = {key: value for key, value in schema.items() if key != "title"}
    if "description" in made:
        made["description"] = " ".join(made["description"].split())
    for key in ("properties", "$defs"):
        if key in made:
            made[key] = _each(made[key], _untitled)
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _untitled(made[key])
    return made


def _without_words_of_kubernetes(schema: Schema) -> Schema:
    """Editors know none of them."""
    made = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if INT_OR_STRING in schema:
        made["type"] = ["integer", "string"]
    for key in ("properties", "$defs"):
        if key in made:
            made[key] = _each(made[key], _without_words_of_kubernetes)
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _without_words_of_kubernetes(made["additionalProperties"])
    if "anyOf" in made:
        made["anyOf"] = [_without_words_of_kubernetes(one) for one in made["anyOf"]]
    return made


def _each(schemas: Mapping[str, Schema], change: Callable[[Schema], Schema]) -> Schema:
    return {name: change(schema) for name, schema in schemas.items()}


def duration_ms(field: str) -> str:
    """CEL: the milliseconds of a duration such as `1.5h`. An API server reads hours at most by itself."""
    units = ", ".join(f"'{unit}': {float(size_ms)}" for unit, size_ms in UNIT_MS.items())
    return f"double({field}.find('^[0-9.]+')) * {{{units}}}[{field}.find('[a-z]+$')]"


def unchanged(fields: Sequence[str]) -> str:
    """CEL: whether each of these fields is what it was; to add or to remove one is a change."""
    return " && ".join(
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
        for name in fields
    )
