"""What all resources have in common: envelope, strictness, types of values, and the schemas made from the models. Pure.

A resource is a person's declaration. Reading is strict: an unknown field is an error and never dropped. Otherwise a
misspelt field would become a default. The same models make the JSON Schema for editors, the definitions for
Kubernetes and the reference page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)

from offsite.model.errors import check
from offsite.model.units import UNIT_MS
from offsite.model.untrusted.text import shorten

GROUP = "offsite.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

NAME_MAX = 63
"""Characters of a resource name: the name becomes a part of process names and Kubernetes names."""

NUMBER_MAX = 2**53 - 1
"""The greatest integer that every JSON reader preserves."""

ResourceKey = tuple[str, str]
"""Kind and name."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=NAME_MAX)]
"""A resource name in the form of Kubernetes (RFC 1123)."""
OptionalName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=NAME_MAX)]
Duration = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d|w)$", max_length=20)]
"""Such as `90s`, `12h`, `7d`."""
OptionalDuration = Annotated[str, StringConstraints(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))?$", max_length=20)]
_SIZE = r"[0-9]{1,15}(\.[0-9]{1,6})? ?[kKmMgGtT]?[iI]?[bB]"
OptionalSize = Annotated[str, StringConstraints(pattern=rf"^({_SIZE})?$", max_length=40)]
"""Such as `64kB`, `1.5MiB`."""
OptionalRate = Annotated[str, StringConstraints(pattern=rf"^({_SIZE}(/s)?)?$", max_length=40)]
"""A size, per second."""
Text = Annotated[str, StringConstraints(max_length=1024)]
Line = Annotated[str, StringConstraints(pattern=r"^[^\n\r\x00]*$", max_length=1024)]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=256)]
"""Topics: names, globs, `regex:PATTERN`."""

INT_OR_STRING = "x-kubernetes-int-or-string"
"""In a schema: a text that may be written as a whole number."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KEYWORDS = (
    *("description", "type", "format", "default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "maxProperties", "required"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", INT_OR_STRING),
)
_STATUS: Schema = {"type": "object", "description": "The last report of the operator. Ignored in a declaration."}


def camel(name: str) -> str:
    """`snapshot_duration` → `snapshotDuration`."""
    first, *words = name.split("_")
    return first + "".join(word.capitalize() for word in words)


class Strict(BaseModel):
    """A frozen model with camelCase field names; docstrings below fields describe the fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=False,
        alias_generator=camel,
        validate_by_name=False,
        use_attribute_docstrings=True,
        ser_json_inf_nan="null",
    )


class Sparse(Strict):
    """Absent fields stay absent, as in Kubernetes: `emptyDir: {}` differs from no `emptyDir`."""

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class Metadata(BaseModel):
    """The used fields of a resource's metadata. Other fields of Kubernetes are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=camel, use_attribute_docstrings=True)

    name: Name
    """The name: unique within a kind."""
    namespace: OptionalName = ""
    """In Kubernetes."""
    uid: Annotated[str, StringConstraints(max_length=64)] = ""
    """Assigned at creation. A resource created again under an old name is another resource."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Counts the changes of `spec`."""
    deletion_timestamp: str | None = None
    """The time of the deletion request."""
    finalizers: tuple[str, ...] = ()
    """The finalizers that must be cleared before the deletion."""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class Resource(Strict):
    """The envelope. The operator writes `status`."""

    api_version: Literal["offsite.dev/v1alpha1"]
    metadata: Metadata


def show_value(value: object) -> str:
    """Return text in quotes. For any further value return only its kind, because the value may hold anything."""
    if isinstance(value, str):
        return f"'{shorten(value)}'"
    kinds = {type(None): "nothing", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")


Schema = dict[str, Any]


def json_schema(model: type[Resource]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a whole document: as strict as the model, except for rules in code."""
    schema = _without_words_of_kubernetes(_untitled(model.model_json_schema()))
    properties = {**schema.pop("properties"), "status": _STATUS}
    return {"$schema": DIALECT, "$id": f"urn:offsite:{VERSION}:{model.__name__}", **schema, "properties": properties}


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model. An object with a default gets `{}`: Kubernetes fills in the defaults of
    its fields.

    The structural form of Kubernetes has a type at every node, and no references, no alternatives, no null, and no
    `additionalProperties` beside `properties`. Further rules are in CEL. Messages show foreign values short, on one
    line, and never in full size.
    """
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
