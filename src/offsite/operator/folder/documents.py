"""What the files of a folder declare, as they are now. Read strictly, and never taken for less than it is: a file that
cannot be read, or not to its end, is told apart from one that declares nothing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.errors import BadOption, BadResource
from offsite.model.untrusted.printable import printable
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.operator.folder.layout import ACCOUNTS, STATUS_SUFFIX
from offsite.operator.resources.model import NAME_MAX, Resource
from offsite.operator.resources.parse import KINDS, parse_resource
from offsite.operator.resources.yaml_text import TEXT_MAX_BYTES, load_documents
from offsite.stores.posix_errors import wrapped

_NAME = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?")

Key = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document that tells its kind and name. `resource`: None where `problem` says what is wrong with it.
    `digest`: of all bytes of its file."""

    key: Key
    source: str
    resource: Resource | None = None
    problem: str = ""
    digest: str = ""


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
        if (name := printable(path.name)) != path.name:  # a record holds it, and is JSON
            unclear[name] = "its name is no text: rename it"
            continue
        try:
            documents += list(read_file(path))
        except BadResource as error:
            unclear[path.name] = f"{error.message}{'; ' if error.hint else ''}{error.hint}"
    return Declared(documents=tuple(documents), unclear=unclear)


def read_file(path: Path) -> Iterator[Document]:
    """The documents of one file. Raises `BadResource` where it cannot be told what it declares."""
    yield from documents_of(read_text(path), path.name)


def documents_of(text: str, source: str) -> Iterator[Document]:
    """The documents of the file `source`, which holds `text`. Raises `BadResource`."""
    digest = digest_of(text.encode())
    for document in load_documents(text, source=source):
        yield replace(_document(document, source), digest=digest)


def digest_of(data: bytes) -> str:
    """Tells whether a file holds the very bytes that somebody wrote."""
    return hashlib.sha256(data).hexdigest()


def read_text(path: Path) -> str:
    """Raises `BadResource`."""
    try:
        with open(path, "rb", opener=_at_once) as file:  # a path's own has no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadResource(f"{path.name} is no file")
            data = file.read(TEXT_MAX_BYTES + 1)
    except OSError as error:
        raise BadResource(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > TEXT_MAX_BYTES:
        raise BadResource(f"{path.name} is larger than 256 KiB", hint="put resources into several files")
    try:
        return decode_text(data)
    except NotUtf8 as error:
        raise BadResource(f"{path.name} cannot be read: {error}") from error


def _at_once(path: str, flags: int) -> int:
    """A pipe would be waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _may_declare(path: Path) -> bool:
    """A link that leads nowhere, or a pipe, may: it is not known what it declares, or did."""
    is_own = path.name.endswith(STATUS_SUFFIX) or path.name == ACCOUNTS or path.name.startswith(".")
    return path.suffix in {".yaml", ".yml"} and not is_own and not os.path.isdir(path)  # noqa: PTH112  # never raises


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
