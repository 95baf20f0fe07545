"""Reads declared resources strictly: an error names its path, and a similar valid name. Writes and reads the YAML of
resources and statuses.

Manifests need no anchors, aliases, merge keys and tags, hence all four are refused: time and memory of the reader
grow with the text only, and values form a tree. No writer of a file can stall the reader.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ValidationError

from offsite.model.errors import BadResource
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.jobs import Restore, Schedule
from offsite.operator.resources.model import API_VERSION, Resource, shorten, show_value

KINDS: Mapping[str, type[Resource]] = {"Backup": Backup, "Restore": Restore, "Schedule": Schedule}
_NAMED_MAX = 8
_MEANT_MAX_CHARS = 64
"""No suggested name is longer."""
TEXT_MAX_BYTES = 256 * 1024
"""Limit of a text: some hundreds of resources. The reader takes up to a second per MiB."""
NODES_MAX = 10_000
"""Limit over all documents of a text: some hundreds of resources, in half a second."""
DEPTH_MAX = 32
"""Nesting of mappings and lists; resources have less than ten levels."""
NUMBER_MAX_CHARS = 40
"""A longer value is text: no 64-bit number is longer."""
_PLAIN_TAGS = {None, "!", "tag:yaml.org,2002:str"}
_STR, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


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


_Untyped = Any
"""A value of the reader, which has no types."""


def load_documents(text: str, *, source: str) -> list[object]:
    """Return the YAML documents in `text`, at least one. Raises `BadResource`."""
    if len(text) > TEXT_MAX_BYTES:
        raise BadResource(f"{source} is larger than 256 KiB", hint="put resources into several files")
    try:
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise BadResource(f"{source} is not valid YAML: {_yaml_problem(error)}") from error
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BadResource(
            f"{source} is not valid YAML: it nests too deeply, or a value does not match its tag"
        ) from error
    if not documents:  # an editor leaves a file empty for a moment while saving
        raise BadResource(f"{source} is empty", hint="remove the file if it should declare nothing")
    return documents


def dump_document(document: object) -> str:
    """Return a text that `load_documents` accepts: a repeated value is written repeatedly."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False)
    return text


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{shorten(getattr(error, 'problem', None) or 'it cannot be read')}{where}"


def _refuse(problem: str, event: _Untyped) -> NoReturn:
    raise yaml.composer.ComposerError(None, None, problem, event.start_mark)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # untyped
    """Times stay text, and a duplicate key is an error: plain YAML would take the last value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = self._depth = 0

    def compose_node(self, parent: _Untyped, index: _Untyped) -> _Untyped:
        event = self.peek_event()
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            _refuse("anchors and aliases are not supported: write the value out", event)
        if event.tag not in _PLAIN_TAGS:
            _refuse("tags are not supported: write the value without a tag", event)
        if self._nodes > NODES_MAX:
            _refuse(f"there are more than {NODES_MAX} values", event)
        if self._depth >= DEPTH_MAX:
            _refuse(f"it nests deeper than {DEPTH_MAX}", event)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def resolve(self, kind: type, value: _Untyped, implicit: _Untyped) -> _Untyped:
        """`1:30` is text, as in Kubernetes: YAML 1.1 reads a number to the base of 60."""
        if kind is yaml.ScalarNode and implicit[0] and (":" in value or len(value) > NUMBER_MAX_CHARS):
            return _STR
        return super().resolve(kind, value, implicit)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == _MERGE:
                _refuse("merge keys (<<) are not supported: write the fields out", key)
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        names = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in names:
                _refuse(f"{shorten(key.value)!r} comes twice", node)
            names.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # untyped
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True
