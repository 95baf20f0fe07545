"""Reads the declarations in the files of a folder. Strict: a file that cannot be read completely is never taken for a
file that declares nothing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.errors import BadOption, BadResource
from offsite.model.untrusted.text import NotUtf8, decode_text, printable
from offsite.operator.folder.layout import ACCOUNTS, STATUS_SUFFIX
from offsite.operator.resources.model import NAME_MAX, Resource
from offsite.operator.resources.parse import KINDS, parse_resource
from offsite.operator.resources.yaml_text import TEXT_MAX_BYTES, load_documents
from offsite.stores.plain_files import wrap_errors

_NAME = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?")

ResourceKey = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document with kind and name. `resource`: None if `problem` explains an error. `digest`: hash of all bytes of
    the file."""

    key: ResourceKey
    source: str
    resource: Resource | None = None
    problem: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDocuments:
    """`unclear`: by file name, why the declarations of a file are unknown."""

    documents: tuple[Document, ...]
    unclear: Mapping[str, str]


def read_declared(root: Path) -> DeclaredDocuments:
    """Read all declarations in the files of `root`. Raises `BadOption` if the folder does not exist, and the errors of
    files."""
    if not root.is_dir():
        raise BadOption(f"there is no folder {root}", hint="create the folder, and put resources into it")
    with wrap_errors("list", str(root)):
        paths = sorted(path for path in root.iterdir() if _may_declare(path))
    documents, unclear = list[Document](), dict[str, str]()
    for path in paths:
        if (name := printable(path.name)) != path.name:  # a record holds the name, and is JSON
            unclear[name] = "its name is not valid text: rename the file"
            continue
        try:
            documents += list(read_file(path))
        except BadResource as error:
            unclear[path.name] = f"{error.message}{'; ' if error.hint else ''}{error.hint}"
    return DeclaredDocuments(documents=tuple(documents), unclear=unclear)


def read_file(path: Path) -> Iterator[Document]:
    """Yield the documents of one file. Raises `BadResource` if the declarations cannot be read."""
    yield from documents_of(read_text(path), path.name)


def documents_of(text: str, source: str) -> Iterator[Document]:
    """Yield the documents in `text`, the content of the file `source`. Raises `BadResource`."""
    digest = digest_of(text.encode())
    for document in load_documents(text, source=source):
        yield replace(_document(document, source), digest=digest)


def digest_of(data: bytes) -> str:
    """Return a hash that shows whether a file holds exactly the bytes that were written."""
    return hashlib.sha256(data).hexdigest()


def read_text(path: Path) -> str:
    """Return the text of a file. Raises `BadResource`."""
    try:
        with open(path, "rb", opener=_at_once) as file:  # Path.open has no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadResource(f"{path.name} is not a file")
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
    """Open without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _may_declare(path: Path) -> bool:
    """Whether a path may declare resources. True for a broken link or a pipe: its declarations are unknown."""
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


def _key(document: object) -> ResourceKey | None:
    """Return kind and name of a document that may be wrong otherwise."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(metadata, Mapping):
        return None
    kind, name = document.get("kind"), metadata.get("name")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(name, str):
        return None
    return (kind, name) if _NAME.fullmatch(name) else None
