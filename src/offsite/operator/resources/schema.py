"""Schemas of the declared resources, made from their models: JSON Schema for editors, and the structural form of
Kubernetes. Pure.

The structural form of Kubernetes: a type at every node, no references, no alternatives, no null, and no
`additionalProperties` beside `properties`. Further rules are in CEL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from offsite.model.errors import check
from offsite.model.units import UNIT_MS
from offsite.operator.resources.model import INT_OR_STRING, VERSION, Resource

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KEYWORDS = (
    *("description", "type", "format", "default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "maxProperties", "required"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", INT_OR_STRING),
)
_STATUS: Schema = {"type": "object", "description": "The last report of the operator. Ignored in a declaration."}


def json_schema(model: type[Resource]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a whole document: as strict as the model, except for rules in code."""
    schema = _without_words_of_kubernetes(_untitled(model.model_json_schema()))
    properties = {**schema.pop("properties"), "status": _STATUS}
    return {"$schema": DIALECT, "$id": f"urn:offsite:{VERSION}:{model.__name__}", **schema, "properties": properties}


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model. An object with a default gets `{}`: Kubernetes fills in the defaults of
    its fields."""
    schema = _untitled(model.model_json_schema())
    return _structural(schema, schema.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """Remove the defaults, for a status: absent fields stay absent. An API server would fill in defaults, and the
    stored status would differ from the written one."""
    cleaned = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in cleaned:
        cleaned["properties"] = _map_values(cleaned["properties"], without_defaults)
    for name in ("items", "additionalProperties"):
        if name in cleaned:
            cleaned[name] = without_defaults(cleaned[name])
    return cleaned


def _structural(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    node = _resolved(node, definitions)
    names = node.get("propertyNames", {})
    children = {name: _structural(child, definitions) for name, child in node.get("properties", {}).items()}
    additional = node.get("additionalProperties")
    if additional and "enum" in names and "maxLength" not in names:
        children, additional = {name: _structural(additional, definitions) for name in names["enum"]}, None
    structural = {key: node[key] for key in _KEYWORDS if node.get(key) is not None}
    if "const" in node:
        structural["enum"] = [node["const"]]
    if children:
        structural |= {"properties": children} | ({"default": {}} if "default" in structural else {})
    if additional:
        structural["additionalProperties"] = _structural(additional, definitions)
    if "maxLength" in names:
        structural["x-kubernetes-validations"] = [_short_keys(names["maxLength"])]
    if additional and "enum" in names:
        structural["x-kubernetes-validations"].append(_listed_keys(names["enum"]))
    if "items" in node:
        structural["items"] = _structural(node["items"], definitions)
    if node.get("type") == "integer":
        structural["format"] = "int64"
    if INT_OR_STRING in structural:
        del structural["type"]
    check("type" in structural or INT_OR_STRING in structural, "each node of a structural schema has a type")
    return structural


def _resolved(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Resolve references and remove null: keys beside a reference override keys of its target."""
    alternatives = [alternative for alternative in node.get("anyOf", ()) if alternative.get("type") != "null"]
    if alternatives:
        check(len(alternatives) == 1, "a field is of one type, or absent")
        node = {
            **_resolved(alternatives[0], definitions),
            **{key: value for key, value in node.items() if key != "anyOf"},
        }
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
    """A rule instead of `properties`: with `properties` an API server would prune other keys silently."""
    return {
        "rule": f"self.all(key, key in [{', '.join(map(repr, names))}])",
        "message": f"a resource may set no others than {', '.join(names)}",
    }


def _untitled(schema: Schema) -> Schema:
    """Remove titles equal to names, and join descriptions to a single line."""
    cleaned = {key: value for key, value in schema.items() if key != "title"}
    if "description" in cleaned:
        cleaned["description"] = " ".join(cleaned["description"].split())
    for key in ("properties", "$defs"):
        if key in cleaned:
            cleaned[key] = _map_values(cleaned[key], _untitled)
    for key in ("items", "additionalProperties"):
        if isinstance(cleaned.get(key), dict):
            cleaned[key] = _untitled(cleaned[key])
    return cleaned


def _without_words_of_kubernetes(schema: Schema) -> Schema:
    """Remove Kubernetes' extensions: editors do not know them."""
    cleaned = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if INT_OR_STRING in schema:
        cleaned["type"] = ["integer", "string"]
    for key in ("properties", "$defs"):
        if key in cleaned:
            cleaned[key] = _map_values(cleaned[key], _without_words_of_kubernetes)
    if isinstance(cleaned.get("additionalProperties"), dict):
        cleaned["additionalProperties"] = _without_words_of_kubernetes(cleaned["additionalProperties"])
    if "anyOf" in cleaned:
        cleaned["anyOf"] = [_without_words_of_kubernetes(one) for one in cleaned["anyOf"]]
    return cleaned


def _map_values(schemas: Mapping[str, Schema], change: Callable[[Schema], Schema]) -> Schema:
    return {name: change(schema) for name, schema in schemas.items()}


def duration_ms(field: str) -> str:
    """CEL: the milliseconds of a duration such as `1.5h`. CEL's own durations end at hours."""
    units = ", ".join(f"'{unit}': {float(size_ms)}" for unit, size_ms in UNIT_MS.items())
    return f"double({field}.find('^[0-9.]+')) * {{{units}}}[{field}.find('[a-z]+$')]"


def unchanged(fields: Sequence[str]) -> str:
    """CEL: whether all `fields` are unchanged; adding or removing a field is a change."""
    return " && ".join(
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
        for name in fields
    )
