"""The common parts of all resources: envelope, strictness, and types of values.

A resource is a person's declaration. Reading is strict: an unknown field is an error and never dropped. Otherwise a
misspelt field would become a default. The same models make the JSON Schema, the definitions for Kubernetes and the
reference page.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

GROUP = "offsite.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

NAME_MAX = 63
"""Characters of a resource name: the name becomes a part of process names and Kubernetes names."""

NUMBER_MAX = 2**53 - 1
"""The greatest integer that every JSON reader preserves."""

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
