"""What all resources share: their envelope, how strict they are, and the kinds of their values.

A resource is what a person declares. It is read strictly: a field that is not known is an error, never dropped, so that
a misspelt one is not taken for its default. The same models make the JSON Schema, the definitions for Kubernetes and
the reference page.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

GROUP = "offsite.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

NAME_MAX = 63
"""Characters of the name of a resource: it becomes a part of names of processes and of Kubernetes objects."""

NUMBER_MAX = 2**53 - 1
"""The greatest whole number that is the same for all who read JSON."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=NAME_MAX)]
"""The name of a resource, as Kubernetes has them (RFC 1123)."""
OptionalName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=NAME_MAX)]
Duration = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d|w)$", max_length=20)]
"""As `90s`, `12h`, `7d`."""
OptionalDuration = Annotated[str, StringConstraints(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))?$", max_length=20)]
_SIZE = r"[0-9]{1,15}(\.[0-9]{1,6})? ?[kKmMgGtT]?[iI]?[bB]"
OptionalSize = Annotated[str, StringConstraints(pattern=rf"^({_SIZE})?$", max_length=40)]
"""As `64kB`, `1.5MiB`."""
OptionalRate = Annotated[str, StringConstraints(pattern=rf"^({_SIZE}(/s)?)?$", max_length=40)]
"""A size, of each second."""
Text = Annotated[str, StringConstraints(max_length=1024)]
Line = Annotated[str, StringConstraints(pattern=r"^[^\n\r\x00]*$", max_length=1024)]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=256)]
"""Topics: names, globs, `regex:PATTERN`."""

INT_OR_STRING = "x-kubernetes-int-or-string"
"""In a schema: a text that may be written as a whole number."""


def camel(name: str) -> str:
    """`snapshot_duration` → `snapshotDuration`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Strict(BaseModel):
    """Frozen, with the names of fields in camelCase; docstrings below fields describe them."""

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
    """Of a resource, as far as it counts here. What else Kubernetes keeps there is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=camel, use_attribute_docstrings=True)

    name: Name
    """The name: one resource of a kind has it."""
    namespace: OptionalName = ""
    """In Kubernetes."""
    uid: Annotated[str, StringConstraints(max_length=64)] = ""
    """Given when the resource is made. A resource made anew under an old name is another one."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Counts the changes of `spec`."""
    deletion_timestamp: str | None = None
    """When somebody asked for the deletion."""
    finalizers: tuple[str, ...] = ()
    """Who must agree before it is gone."""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class Resource(Strict):
    """The envelope. `status` is the operator's."""

    api_version: Literal["offsite.dev/v1alpha1"]
    metadata: Metadata
