"""Reads declared resources strictly: an error names its path, and a similar valid name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ValidationError

from offsite.model.errors import BadResource
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.model import API_VERSION, Resource
from offsite.operator.resources.restore import Restore
from offsite.operator.resources.schedule import Schedule
from offsite.operator.resources.told import shorten, show_value

KINDS: Mapping[str, type[Resource]] = {"Backup": Backup, "Restore": Restore, "Schedule": Schedule}
_NAMED_MAX = 8
_MEANT_MAX_CHARS = 64
"""No suggested name is longer."""


def parse_resource(document: object, *, source: str) -> Resource:
    """Parse the resource in `document` (YAML or JSON, from `source`). `status` is ignored. Raises `BadResource`."""
    if not isinstance(document, Mapping):
        raise BadResource(
            f"{source}: it contains no resource", hint="begin it with apiVersion, kind, metadata and spec"
        )
    kind = document.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise BadResource(
            f"{source}: {show_value(kind)} is not a kind of resource",
            hint=suggest_name(kind if isinstance(kind, str) else "", tuple(KINDS)),
        )
    if document.get("apiVersion") != API_VERSION:
        version = show_value(document.get("apiVersion"))
        raise BadResource(f"{source}: apiVersion {version} is not known", hint=f"write {API_VERSION}")
    try:
        return model.model_validate({name: value for name, value in document.items() if name != "status"})
    except ValidationError as error:
        raise _bad_resource(error, model, source) from error


def _bad_resource(error: ValidationError, model: type[BaseModel], source: str) -> BadResource:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [f"{_path(detail['loc'])}: {_said(detail['type'], detail['msg'])}" for detail in details[:_NAMED_MAX]]
    more = f"; and {len(details) - _NAMED_MAX} more" if len(details) > _NAMED_MAX else ""
    hints = [
        suggest_name(str(detail["loc"][-1]), _fields_at(model, detail["loc"][:-1]))
        for detail in details[:_NAMED_MAX]
        if detail["type"] == "extra_forbidden"
    ]
    return BadResource(f"{source}: {'; '.join(problems)}{more}", hint=next(filter(None, hints), ""))


def _said(kind: str, message: str) -> str:
    messages = {"extra_forbidden": "there is no such field", "missing": "it is required"}
    return messages.get(kind, shorten(message.removeprefix("Value error, ")))


def _path(place: Sequence[int | str]) -> str:
    return ".".join(shorten(str(part)) for part in place) or "the resource"


def _fields_at(model: type[BaseModel], place: Sequence[int | str]) -> tuple[str, ...]:
    """The names of the fields beside a field at `place`."""
    for name in place:
        field = next((model_field for model_field in model.model_fields.values() if model_field.alias == name), None)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return ()
        model = field.annotation
    return tuple(model_field.alias or name for name, model_field in model.model_fields.items())


def suggest_name(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: the most similar name, or all names."""
    name = name[:_MEANT_MAX_CHARS]
    lower = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f"did you mean {lower[near[0]]}?" if near else f"known are: {', '.join(names)}"
