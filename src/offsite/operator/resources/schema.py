"""Schemas of the declared resources, made from their models: JSON Schema for editors, and the structural form of
Kubernetes. Pure.

The structural form of Kubernetes: a type at every node, no references, no alternatives, no null, and no
`additionalProperties` beside `properties`. Further rules are in CEL.
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
    """Return the JSON Schema (draft 2020-12) of a whole document: as strict as the model, except for rules in code."""
    made = _without_words_of_kubernetes(_untitled(model.model_json_schema()))
    properties = {**made.pop("properties"), "status": _STATUS}
    return {"$schema": DIALECT, "$id": f"urn:offsite:{VERSION}:{model.__name__}", **made, "properties": properties}


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model. An object with a default gets `{}`: Kubernetes fills in the defaults of
    its fields."""
    made = _untitled(model.model_json_schema())
    return _structural(made, made.get("$defs", {}))


def without_defaults(schema: Schema) -> Schema:
    """Remove the defaults, for a status: absent fields stay absent. An API server would fill in defaults, and the
    stored status would differ from the written one."""
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
    """Resolve references and remove null: keys beside a reference override keys of its target."""
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
    """A rule instead of `properties`: with `properties` an API server would prune other keys silently."""
    return {
        "rule": f"self.all(key, key in [{', '.join(map(repr, names))}])",
        "message": f"a resource may set no others than {', '.join(names)}",
    }


def _untitled(schema: Schema) -> Schema:
    """Remove titles equal to names, and join descriptions to a single line."""
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
    """Remove Kubernetes' extensions: editors do not know them."""
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
    """CEL: the milliseconds of a duration such as `1.5h`. CEL's own durations end at hours."""
    units = ", ".join(f"'{unit}': {float(size_ms)}" for unit, size_ms in UNIT_MS.items())
    return f"double({field}.find('^[0-9.]+')) * {{{units}}}[{field}.find('[a-z]+$')]"


def unchanged(fields: Sequence[str]) -> str:
    """CEL: whether all `fields` are unchanged; adding or removing a field is a change."""
    return " && ".join(
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
        for name in fields
    )
