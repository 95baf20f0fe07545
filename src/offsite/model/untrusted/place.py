"""A place as a person writes it: a folder, or the URL of a bucket. The only parser of such texts. Pure.

An unlikely folder name is refused: an address with a slip (`s3:/bucket`, quotes of an environment file, an unexpanded
`$REPO`) would make a folder below the working folder, and the backup would go there. Nothing of a URL is dropped in
silence: a forbidden part is refused by name, and never repeated, since somebody may have written a password into it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from offsite.model.errors import BadRepositoryUrl

URL_HINT = "give a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
LOCAL_HINT = "give a file or folder of this machine; mount remote folders first"
FILE, MEMORY = "file", "memory"
_SCHEMES = frozenset({"s3", "gs", "az", MEMORY})

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SLIP = re.compile(r"""[:"'`$%\\\x00-\x1f\x7f]""")
"""Characters in the first name of a relative folder that show a slip."""

_ENDPOINT, _HTTP = "endpoint", frozenset({"http", "https"})
_NOT_IN_WORD = re.compile(r"[\s?;#]")
"""Characters in a value behind `?` that show a missing `&`: the second setting would be dropped."""

_NOT_PLAIN = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlace:
    """A place. `host`: the bucket or container. `path` of a bucket has no slash at its ends. `settings`: names and
    values behind `?`, every name once. A folder has scheme `file`, and only a path."""

    scheme: str
    host: str = ""
    path: str = ""
    query: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """The URL of a bucket, without the part behind `?`."""
        return f"{self.scheme}://{self.host}{'/' if self.path else ''}{self.path}"


def parse_place(text: str) -> StoragePlace:
    """Parse the place in `text`. Raises `BadRepositoryUrl`."""
    if text != text.strip() or _CONTROL.search(text[:1] + text[-1:]):  # from a settings file, or a form
        raise BadRepositoryUrl(
            "the name of a place must not begin or end with a blank or a control character",
            hint="check the place where it is set: quotes or line ends may be part of the value",
        )
    if not is_address(text):
        return StoragePlace(scheme=FILE, path=_checked_folder(text))
    if _CONTROL.search(text):
        raise BadRepositoryUrl("a URL must not contain control characters, such as a line end", hint=URL_HINT)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise BadRepositoryUrl(f"this is not a URL: {error}", hint=URL_HINT) from error
    if not parts.scheme:  # a quote, a variable or a blank in front
        return StoragePlace(scheme=FILE, path=_checked_folder(text))
    if "@" in parts.netloc:
        raise BadRepositoryUrl("credentials are not allowed in a URL", hint="set them in the environment")
    if "#" in text:
        raise BadRepositoryUrl(
            "the URL of a place must not have a part after #: that part would be lost",
            hint="remove #, or use another prefix; ?endpoint=… comes after the prefix",
        )
    if parts.scheme == FILE:
        return _file(parts.netloc, parts.path, has_query="?" in text)
    if parts.scheme not in _SCHEMES or (not parts.netloc and parts.scheme != MEMORY):
        named = f"{parts.scheme}://{parts.netloc}"
        raise BadRepositoryUrl(f"{named!r} is not a place for a repository", hint=URL_HINT)
    return StoragePlace(
        scheme=parts.scheme,
        host=_checked_host(parts.netloc),
        path=_checked_prefix(parts.path),
        query=parts.query,
        settings=_settings(parts.query),
    )


def parse_local(text: str) -> str:
    """Parse the path of a file or folder of this machine. Raises `BadRepositoryUrl` for any other place."""
    try:
        place = parse_place(text)
    except BadRepositoryUrl as error:
        raise BadRepositoryUrl(error.message, hint=LOCAL_HINT) from error
    if place.scheme != FILE:
        raise BadRepositoryUrl(f"{place.url} is not a file or folder of this machine", hint=LOCAL_HINT)
    return place.path


def is_address(text: str) -> bool:
    """Whether `text` is a URL, of whatever kind: nobody names a file in this form."""
    return "://" in text or text.startswith(f"{FILE}:")


def absolute_place(text: str) -> str:
    """Return a place that means the same in every working folder."""
    return text if "://" in text else str(Path(text).absolute())


def _file(host: str, path: str, *, has_query: bool) -> StoragePlace:
    if has_query:
        raise BadRepositoryUrl(
            "the URL of a folder must not have a part after ?", hint="write the folder without file:"
        )
    if host not in {"", "localhost"} or not path.startswith("/"):
        raise BadRepositoryUrl(
            "the URL of a folder must begin with file:/// and contain the path from the root",
            hint="write the folder without file:, or mount the folder of another machine here",
        )
    return StoragePlace(scheme=FILE, path=_checked_folder(unquote(path, errors="surrogateescape")))


def _checked_folder(text: str) -> str:
    if not text:
        raise BadRepositoryUrl("an empty name is not a place for a repository", hint=URL_HINT)
    if "\0" in text:
        raise BadRepositoryUrl("the name of a folder must not contain character 0", hint=URL_HINT)
    first, *_ = text.split("/")
    if slip := _SLIP.search(first):
        raise BadRepositoryUrl(
            f"{text!r} is not a supported URL, and {slip[0]!r} looks like a mistake in a folder name",
            hint=f"{URL_HINT}; use ./NAME for a folder with any name",
        )
    return text


def _checked_host(netloc: str) -> str:
    if ":" in netloc:
        raise BadRepositoryUrl(
            "a bucket must not have a port", hint="add the address of the server after the bucket: ?endpoint=https://…"
        )
    return netloc


def _checked_prefix(path: str) -> str:
    prefix = path.strip("/") if not path.startswith("//") else path
    names = [unquote(name) for name in prefix.split("/")] if prefix else []
    if path != path.strip():
        raise BadRepositoryUrl("a prefix in a bucket must not end with a blank", hint="write the blank as %20")
    if any(name in _NOT_PLAIN or "/" in name for name in names):
        raise BadRepositoryUrl(
            "a prefix in a bucket must not have an empty part (//), a part . or .., or a part with a slash",
            hint="write it as s3://bucket/one/two",
        )
    return prefix


def _settings(query: str) -> tuple[tuple[str, str], ...]:
    settings = tuple(parse_qsl(query, keep_blank_values=True))
    if len(dict(settings)) < len(settings):
        raise BadRepositoryUrl("a URL has the same parameter twice after ?", hint="remove one of them")
    for name, value in settings:
        if name == _ENDPOINT and value:
            _check_endpoint(value)
        elif _NOT_IN_WORD.search(value):
            raise BadRepositoryUrl(
                f"the value of {name!r} after ? contains a blank, ? or ;", hint="separate the parameters after ? with &"
            )
    return settings


def _check_endpoint(text: str) -> None:
    try:
        parts = urlsplit(text)
        is_plain = bool(parts.scheme.lower() in _HTTP and parts.hostname and (parts.port is None or parts.port))
    except ValueError:
        is_plain = False
    if "@" in text:
        raise BadRepositoryUrl("credentials are not allowed in a URL", hint="set them in the environment")
    if not is_plain or _NOT_IN_WORD.search(text):
        raise BadRepositoryUrl(
            "the endpoint is not the address of a server",
            hint="write it as ?endpoint=https://host:port, with further parameters after &",
        )
