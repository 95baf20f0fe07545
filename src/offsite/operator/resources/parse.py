"""Reads declared resources strictly: an error names its path, and a similar valid name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ValidationError

from offsite.model.errors import BadResource
from offsite.model.names import suggest_name
from offsite.model.untrusted.strict_yaml import TEXT_MAX_BYTES, BadYaml, parse_yaml
from offsite.model.untrusted.text import shorten
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.jobs import Restore, Schedule
from offsite.operator.resources.model import API_VERSION, Resource, show_value

KINDS: Mapping[str, type[Resource]] = {"Backup": Backup, "Restore": Restore, "Schedule": Schedule}
_NAMED_MAX = 8


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


def load_documents(text: str, *, source: str) -> list[object]:
    """Return the YAML documents in `text`, at least one. Raises `BadResource`."""
    try:
        documents = [document.value for document in parse_yaml(text)]
    except BadYaml as error:
        hint = "put resources into several files" if len(text) > TEXT_MAX_BYTES else ""
        raise BadResource(f"{source} is not valid YAML: {error}", hint=hint) from error
    if not documents:  # an editor leaves a file empty for a moment while saving
        raise BadResource(f"{source} is empty", hint="remove the file if it should declare nothing")
    return documents
