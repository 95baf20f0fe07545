"""Whether a place lies below another one, by whole components of their names. Pure: links are for others to follow. All
raise `BadResource` for what is no URL."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from offsite.model.errors import BadResource

_NOT_PLAIN = frozenset({"", ".", ".."})


def folder_of(url: str) -> str | None:
    """The path that `url` names as `open_store` takes it; None: it is no folder."""
    if "://" not in url or not (parts := _split(url)).scheme:
        return url
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in {"", "localhost"} else None


def query_of(url: str) -> str:
    """What follows `?`: where a store is reached, and how. Folders have none."""
    return "" if folder_of(url) is not None else _split(url).query


def with_query(url: str, query: str) -> str:
    """`url` with another query, or none."""
    return url.partition("?")[0] + (f"?{query}" if query else "") if folder_of(url) is None else url


def is_below(prefix: str, url: str) -> bool:
    """Whether `url` is `prefix`, or lies below it, and is reached in the same way. What is not written plainly (`..`,
    `//`, `%2F`, blanks at its end, which clients take away: `.. `) lies below nothing."""
    above, inside = _components(prefix), _components(url)
    return bool(above) and inside[: len(above)] == above and query_of(prefix) == query_of(url)


def _components(url: str) -> tuple[str, ...]:
    """Empty where they are not written plainly."""
    if (folder := folder_of(url)) is not None:
        parts = PurePosixPath(folder).parts
        return () if ".." in parts else ("file", *parts)
    place = _split(url)
    names = place.path.strip("/").split("/") if place.path.strip("/") else []
    if not place.path.isprintable() or place.path != place.path.strip():
        return ()
    if any(unquote(name) in _NOT_PLAIN or "/" in unquote(name) for name in names):
        return ()
    return place.scheme, place.netloc, *names


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise BadResource(f"{url!r} is no URL: {error}", hint="write it as s3://bucket/prefix, or a folder") from error
