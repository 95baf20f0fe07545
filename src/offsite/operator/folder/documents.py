"""Reads the declarations in the files of a folder, and measures how long this process has observed the same
declarations. Strict: a file that cannot be read completely is never taken for a file that declares nothing.

A wall clock may be set, and notes of another process come from foreign observations and a foreign clock. Neither
shows a value to be stable: only observations do. Nothing is observed between two observations, hence a gap counts
for a limited time only: after a stop of an hour, a process has observed nothing of the hour. A new process starts
from zero.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.errors import BadOption, BadResource
from offsite.model.untrusted.text import printable
from offsite.operator.core.files import ACCOUNTS, STATUS_SUFFIX, read_text
from offsite.operator.resources.model import NAME_MAX, Resource, ResourceKey
from offsite.operator.resources.parse import KINDS, load_documents, parse_resource
from offsite.stores.plain_files import wrap_errors

_NAME = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?")


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


LOOKS_MIN = 4
"""Minimum number of observations after the first one, until a value counts as stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """A value that was the same in consecutive observations. `since_ms`: wall-clock time of the first observation, for
    people only. `remaining_s`: seconds until the value counts as stable; 0: stable."""

    value: Hashable
    since_ms: int
    remaining_s: float
    last_look_s: float

    @property
    def is_stable(self) -> bool:
        return self.remaining_s <= 0

    def until_ms(self, now_ms: int) -> int:
        """Return the earliest time at which the value can count as stable."""
        return now_ms + int(max(0.0, self.remaining_s) * 1000)


class StabilizationWindow:
    """The observed values of several keys. `enough_s`: seconds that a value must be the same before the value
    counts."""

    def __init__(self, *, enough_s: float) -> None:
        self._enough_s = enough_s
        self._seen: dict[Hashable, Stability] = {}

    def look(self, key: Hashable, value: Hashable, *, now_s: float, now_ms: int) -> Stability:
        """Record one observation: `value` for `key`. `now_s`: a monotonic clock."""
        before = self._seen.get(key)
        if before is None or before.value != value:
            now = Stability(value=value, since_ms=now_ms, remaining_s=self._enough_s, last_look_s=now_s)
        else:
            counted_s = min(max(0.0, now_s - before.last_look_s), self._enough_s / LOOKS_MIN)
            now = replace(before, remaining_s=max(0.0, before.remaining_s - counted_s), last_look_s=now_s)
        self._seen[key] = now
        return now

    def forget(self, key: Hashable) -> None:
        """Drop the value: the next observation is the first one."""
        self._seen.pop(key, None)

    def keep_only(self, keys: Collection[Hashable]) -> None:
        for key in self._seen.keys() - set(keys):
            del self._seen[key]
