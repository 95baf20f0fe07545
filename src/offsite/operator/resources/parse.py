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
from offsite.operator.resources.told import shortened, shown

KINDS: Mapping[str, type[Resource]] = {"Backup": Backup, "Restore": Restore, "Schedule": Schedule}
_NAMED_MAX = 8
_MEANT_MAX_CHARS = 64
"""No suggested name is longer."""


def parse_resource(document: object, *, source: str) -> Resource:
    """Parse the resource in `document` (YAML or JSON, from `source`). `status` is ignored. Raises `BadResource`."""
    if not isinstance(document, Mapping):
        raise BadResource(f"{source}: it holds no resource", hint="begin it with apiVersion, kind, metadata and spec")
    kind = document.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise BadResource(
            f"{source}: {shown(kind)} is no kind of resource",
            hint=meant(kind if isinstance(kind, str) else "", tuple(KINDS)),
        )
    if document.get("apiVersion") != API_VERSION:
        given = shown(document.get("apiVersion"))
        raise BadResource(f"{source}: apiVersion {given} is not known", hint=f"write {API_VERSION}")
    try:
        return model.model_validate({name: value for name, value in document.items() if name != "status"})
    except ValidationError as error:
        raise _told(error, model, source) from error


def _told(error: ValidationError, model: type[BaseModel], source: str) -> BadResource:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [f"{_path(each['loc'])}: {_said(each['type'], each['msg'])}" for each in found[:_NAMED_MAX]]
    more = f"; and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    hints = [
        meant(str(each["loc"][-1]), _fields_at(model, each["loc"][:-1]))
        for each in found[:_NAMED_MAX]
        if each["type"] == "extra_forbidden"
    ]
    return BadResource(f"{source}: {'; '.join(problems)}{more}", hint=next(filter(None, hints), ""))


def _said(kind: str, message: str) -> str:
    known = {"extra_forbidden": "there is no such field", "missing": "it is needed"}
    return known.get(kind, shortened(message.removeprefix("Value error, ")))


def _path(place: Sequence[int | str]) -> str:
    return ".".join(shortened(str(each)) for each in place) or "the resource"


def _fields_at(model: type[BaseModel], place: Sequence[int | str]) -> tuple[str, ...]:
    """The names of the fields beside a field at `place`."""
    for name in place:
        field = next((each for each in model.model_fields.values() if each.alias == name), None)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return ()
        model = field.annotation
    return tuple(each.alias or name for name, each in model.model_fields.items())


def meant(name: str, known: Sequence[str]) -> str:
    """A hint for an unknown name: the most similar name, or all names."""
    name = name[:_MEANT_MAX_CHARS]
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f"did you mean {lower[near[0]]}?" if near else f"known are: {', '.join(known)}"
