"""Whether a place lies below another one, by whole components of their names. Pure: links are for others to follow. All
raise `BadResource` for what is no URL."""

from __future__ import annotations

from pathlib import PurePosixPath

from offsite.model.errors import BadRepositoryUrl, BadResource
from offsite.model.untrusted.place import FILE, Place, parse_place


def folder_of(url: str) -> str | None:
    """The path that `url` names as `open_store` takes it; None: it is no folder."""
    place = _place(url)
    return place.path if place.scheme == FILE else None


def query_of(url: str) -> str:
    """What follows `?`: where a store is reached, and how. Folders have none."""
    return _place(url).query


def with_query(url: str, query: str) -> str:
    """`url` with another query, or none."""
    return url.partition("?")[0] + (f"?{query}" if query else "") if folder_of(url) is None else url


def is_below(prefix: str, url: str) -> bool:
    """Whether `url` is `prefix`, or lies below it, and is reached in the same way. What is not written plainly (`..`,
    blanks at its end, which clients take away: `.. `) lies below nothing."""
    above, inside = _components(prefix), _components(url)
    return bool(above) and inside[: len(above)] == above and query_of(prefix) == query_of(url)


def _components(url: str) -> tuple[str, ...]:
    """Empty where they are not written plainly."""
    place = _place(url)
    if place.scheme == FILE:
        parts = PurePosixPath(place.path).parts
        return () if ".." in parts else (FILE, *parts)
    if not place.path.isprintable() or place.path != place.path.strip():
        return ()
    return place.scheme, place.host, *(place.path.split("/") if place.path else ())


def _place(url: str) -> Place:
    try:
        return parse_place(url) if url else Place(scheme=FILE)  # what is left out lies below nothing
    except BadRepositoryUrl as error:
        named = "a place" if "@" in url else repr(url)  # there may be a password
        raise BadResource(f"{named}: {error.message}", hint=error.hint) from error
