"""The repository that a request means, by its path: `/r/NAME/…`. Found once, before any rule is applied. Pure.

A proxy in front may read a path differently, and may have rules of its own. So a path that has two readings is refused:
one with an encoded name, with dots as a segment, or with an empty segment. Routes take a line break at the end for
the end, and the rules do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
"""The name of a repository: without characters that have a meaning in an address."""
_OF_REPOSITORY = re.compile(rf"(?P<base>/r/(?P<name>{NAME.pattern}))(?P<path>/.*)?", re.DOTALL)
_STRANGE = re.compile(r"//|/\.\.?(?:/|\Z)|[\\\x00]|\n\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """`path`: decoded, without the prefix of the repository. `repository`: its name; empty for the pages of the whole
    coordinator, and where a coordinator has one repository without a name."""

    path: str
    repository: str = ""
    read_only: bool = False


def base_of(name: str) -> str:
    """Return the start of all addresses of a repository."""
    return f"/r/{name}" if name else ""


def split_path(path: str, raw_path: bytes) -> Address | None:
    """Return the address of a request. `path`: decoded; `raw_path`: as sent, without query. None: it has two
    readings."""
    if _STRANGE.search(path):
        return None
    if (match := _OF_REPOSITORY.fullmatch(path)) is None:
        return Address(path=path)
    base = match["base"].encode()
    if raw_path != base and not raw_path.startswith(base + b"/"):
        return None
    return Address(repository=match["name"], path=match["path"] or "/")
