"""YAML of strangers, read strictly, with the line of every value. Any defect is a single error.

Our files need no anchors, aliases, merge keys and tags, hence all four are refused: time and memory of the reader
grow with the text only, and values form a tree. No writer of a file can stall the reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import yaml  # type: ignore[import-untyped]

from offsite.model.untrusted.text import shorten

TEXT_MAX_BYTES = 256 * 1024
"""Limit of a text: some hundreds of resources. The reader takes up to a second per MiB."""
NODES_MAX = 10_000
"""Limit over all documents of a text: some hundreds of resources, in half a second."""
DEPTH_MAX = 32
"""Nesting of mappings and lists; our files have less than ten levels."""
NUMBER_MAX_CHARS = 40
"""A longer value is text: no 64-bit number is longer."""
_PLAIN_TAGS = {None, "!", "tag:yaml.org,2002:str"}
_STR, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_Untyped = Any
"""A value of the reader, which has no types."""
YamlPath: TypeAlias = tuple[str | int, ...]
"""Keys of mappings, and indexes of lists."""


class BadYaml(ValueError):
    """The text is no acceptable YAML. The message names the line, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """A document. `lines`: by the path of a value, the line of its key, from 1."""

    value: object
    lines: Mapping[YamlPath, int]

    def line_of(self, path: YamlPath) -> int:
        """Return the line of the value at `path`; of the nearest value around it, if there is none."""
        return self.lines.get(path) or (self.line_of(path[:-1]) if path else 1)


def parse_yaml(text: str) -> list[YamlDocument]:
    """Return the documents in `text`, without empty ones. Raises `BadYaml`."""
    if len(text) > TEXT_MAX_BYTES:
        raise BadYaml(f"it is larger than {TEXT_MAX_BYTES // 1024} KiB")
    try:
        return [document for document in _documents(text) if document.value is not None]
    except yaml.YAMLError as error:
        raise BadYaml(_problem(error)) from error
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BadYaml("it nests too deeply, or a value does not match its tag") from error


def dump_yaml(document: object) -> str:
    """Return a text that `parse_yaml` accepts: a repeated value is written repeatedly."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False)
    return text


def _documents(text: str) -> Iterator[YamlDocument]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield YamlDocument(value=loader.construct_document(node), lines=dict(_lines(node, (), 1)))
    finally:
        loader.dispose()


def _lines(node: _Untyped, path: YamlPath, line: int) -> Iterator[tuple[YamlPath, int]]:
    yield path, line
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*path, str(key.value)), key.start_mark.line + 1)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*path, index), value.start_mark.line + 1)


def _problem(error: yaml.YAMLError) -> str:
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
                _refuse(f"{shorten(key.value)!r} comes twice", key)
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
