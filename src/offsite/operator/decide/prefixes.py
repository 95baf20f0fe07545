"""Whether a place lies below another place, by whole path components. Pure: links are resolved elsewhere. All functions
raise `BadResource` for an invalid URL."""

from __future__ import annotations

from pathlib import PurePosixPath

from offsite.model.errors import BadRepositoryUrl, BadResource
from offsite.model.untrusted.place import FILE, StoragePlace, parse_place


def folder_of(url: str) -> str | None:
    """Return the path that `url` names, as `open_store` reads the URL; None: not a folder."""
    place = _place(url)
    return place.path if place.scheme == FILE else None


def query_of(url: str) -> str:
    """Return the part after `?`: host and options of a store. Folders have none."""
    return _place(url).query


def with_query(url: str, query: str) -> str:
    """Return `url` with another query, or without one."""
    return url.partition("?")[0] + (f"?{query}" if query else "") if folder_of(url) is None else url


def is_below(prefix: str, url: str) -> bool:
    """Whether `url` is `prefix` or lies below, and is reached in the same way. A path with `..`, or with blanks at its
    end (clients strip them: `.. `), lies below nothing."""
    above, inside = _components(prefix), _components(url)
    return bool(above) and inside[: len(above)] == above and query_of(prefix) == query_of(url)


def _components(url: str) -> tuple[str, ...]:
    """Return the components; empty if the path is not written plainly."""
    place = _place(url)
    if place.scheme == FILE:
        parts = PurePosixPath(place.path).parts
        return () if ".." in parts else (FILE, *parts)
    if not place.path.isprintable() or place.path != place.path.strip():
        return ()
    return place.scheme, place.host, *(place.path.split("/") if place.path else ())


def _place(url: str) -> StoragePlace:
    try:
        return parse_place(url) if url else StoragePlace(scheme=FILE)  # an empty URL lies below nothing
    except BadRepositoryUrl as error:
        named = "a place" if "@" in url else repr(url)  # there may be a password
        raise BadResource(f"{named}: {error.message}", hint=error.hint) from error
