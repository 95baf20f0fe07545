"""What the files of a folder declare, as they are now. Read strictly, and never taken for less than it is: a file that
cannot be read, or not to its end, is told apart from one that declares nothing."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from offsite.model.errors import BadOption, BadResource
from offsite.operator.folder.layout import ACCOUNTS, STATUS_SUFFIX
from offsite.operator.resources.model import NAME_MAX, Resource
from offsite.operator.resources.parse import KINDS, parse_resource
from offsite.stores.posix_errors import wrapped

FILE_MAX_BYTES = 1024 * 1024
"""Of a file with resources: some hundreds fit."""
_NAME = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?")
_TIMESTAMP = "tag:yaml.org,2002:timestamp"

OF_VALUES = (RecursionError, ValueError, TypeError, KeyError, AttributeError)
"""What the reader of YAML raises where it means that a value is wrong: `!!int x`, a number of 5,000 digits."""

Key = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document that tells its kind and name. `resource`: None where `problem` says what is wrong with it."""

    key: Key
    source: str
    resource: Resource | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """`unclear`: by the name of a file, why it is not known what it declares."""

    documents: tuple[Document, ...]
    unclear: Mapping[str, str]


def read_declared(root: Path) -> Declared:
    """All that the files in `root` declare. Raises `BadOption` where there is no such folder, and what files raise."""
    if not root.is_dir():
        raise BadOption(f"there is no folder {root}", hint="make it, and put resources into it")
    with wrapped("list", str(root)):
        paths = sorted(path for path in root.iterdir() if _may_declare(path))
    documents, unclear = list[Document](), dict[str, str]()
    for path in paths:
        try:
            documents += list(read_file(path))
        except BadResource as error:
            unclear[path.name] = f"{error.message}{'; ' if error.hint else ''}{error.hint}"
    return Declared(documents=tuple(documents), unclear=unclear)


def read_file(path: Path) -> Iterator[Document]:
    """The documents of one file. Raises `BadResource` where it cannot be told what it declares."""
    for document in load_documents(read_text(path), source=path.name):
        yield _document(document, path.name)


def read_text(path: Path) -> str:
    """Raises `BadResource`."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise BadResource(f"{path.name} is no file")
        if found.st_size > FILE_MAX_BYTES:
            raise BadResource(f"{path.name} is larger than 1 MiB", hint="put resources into several files")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadResource(f"{path.name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadResource(f"{path.name} is no text in UTF-8") from error


def load_documents(text: str, *, source: str) -> list[object]:
    """The YAML documents in `text`, at least one. Raises `BadResource`."""
    try:
        found = [each for each in yaml.load_all(text, Loader=_Loader) if each is not None]
    except yaml.YAMLError as error:
        raise BadResource(f"{source} is no YAML: {_said(error)}") from error
    except OF_VALUES as error:
        raise BadResource(f"{source} is no YAML: it nests too deeply, or a value is not what it says") from error
    if not found:  # an editor that saves it leaves it empty for a moment
        raise BadResource(f"{source} is empty", hint="remove the file if it is to declare nothing")
    return found


def _may_declare(path: Path) -> bool:
    """A link that leads nowhere, or a pipe, may: it is not known what it declares, or did."""
    is_own = path.name.endswith(STATUS_SUFFIX) or path.name == ACCOUNTS or path.name.startswith(".")
    return path.suffix in {".yaml", ".yml"} and not is_own and not path.is_dir()


def _document(document: object, source: str) -> Document:
    key = _key(document)
    try:
        resource = parse_resource(document, source=source)
    except BadResource as error:
        if key is None:
            raise
        return Document(key=key, source=source, problem=f"{error.message}{'; ' if error.hint else ''}{error.hint}")
    return Document(key=(str(resource.kind), resource.metadata.name), source=source, resource=resource)  # type: ignore[attr-defined]  # all kinds have it


def _key(document: object) -> Key | None:
    """The kind and the name of what may be wrong otherwise."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(metadata, Mapping):
        return None
    kind, name = document.get("kind"), metadata.get("name")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(name, str):
        return None
    return (kind, name) if _NAME.fullmatch(name) else None


def _said(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or 'it cannot be read'}{where}"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
    """Times stay as they are written, and a name that comes twice is an error: YAML would take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} comes twice", node.start_mark)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
