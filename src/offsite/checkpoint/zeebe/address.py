"""The address of a Zeebe cluster's management API, and our identity there: read from user input, never shown.

A secret is read only from a file. Secrets appear in no error, no log, no repr, and on no command line.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from offsite.model.errors import BadOption

DEFAULT_NAME = "zeebe"
MANAGEMENT_PORT = 9600
"""Default port of the management API of a Zeebe gateway."""

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)", re.DOTALL)
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*/?")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_SECRET = re.compile(r"[!-~]+")
_FORM_HINT = "write it as http://HOST:9600, or NAME=http://HOST:9600"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeAddress:
    """A cluster's management API. `path`: the prefix of `/actuator`, without a final slash."""

    name: str
    is_tls: bool
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeCluster:
    """A participating cluster. `authorization`: the header with our identity, empty for none."""

    address: ZeebeAddress
    authorization: str = field(default="", repr=False)


def parse_address(text: str) -> ZeebeAddress:
    """Parse `http://HOST:9600`, or `NAME=http://HOST:9600`. Raises `BadOption` without repeating the text, which may
    contain a password."""
    named = _NAMED.fullmatch(text)
    name, url = (named[1], named[2]) if named else (DEFAULT_NAME, text)
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        raise BadOption("--zeebe is not a URL", hint=_FORM_HINT) from None
    _check(split, url)
    return ZeebeAddress(
        name=name,
        is_tls=split.scheme == "https",
        host=split.hostname or "",
        port=port or (443 if split.scheme == "https" else MANAGEMENT_PORT),
        path=split.path.removesuffix("/").removesuffix("/actuator"),
    )


def _check(split: SplitResult, url: str) -> None:
    if "@" in split.netloc:
        raise BadOption(
            "--zeebe contains a user or a password", hint="put the credentials into a file: --zeebe-token-file"
        )
    if split.scheme not in {"http", "https"} or not _HOST.fullmatch(split.hostname or ""):
        raise BadOption("--zeebe is not a URL of a management API", hint=_FORM_HINT)
    if "?" in url or "#" in url or not _PATH.fullmatch(split.path):
        raise BadOption("--zeebe contains more than the address of a management API", hint=_FORM_HINT)


def parse_authorizations(text: str) -> dict[str, str]:
    """Parse a token file: the `Authorization` header by name; the empty name holds for the rest. A line is `Bearer
    TOKEN` or `Basic USER:PASSWORD`, after `NAME=` for a single cluster. Raises `BadOption` with only the number of the
    line."""
    headers: dict[str, str] = {}
    for number, line in _lines(text):
        named = _NAMED.fullmatch(line)
        name, words = (named[1], named[2].split()) if named and " " in named[2].strip() else ("", line.split())
        header = _header(words)
        if header is None or name in headers:
            raise BadOption(
                f"line {number} of the file of --zeebe-token-file has no credentials",
                hint="a line is 'Bearer TOKEN' or 'Basic USER:PASSWORD', after 'NAME=' if it is for one cluster only",
            )
        headers[name] = header
    if not headers:
        raise BadOption("the file of --zeebe-token-file is empty", hint="write a line 'Bearer TOKEN' into it")
    return headers


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if (stripped := line.strip()) and not stripped.startswith("#"):
            yield number, stripped


def _header(words: list[str]) -> str | None:
    if len(words) != 2 or not _SECRET.fullmatch(words[1]):
        return None
    match words[0].lower():
        case "bearer":
            return f"Bearer {words[1]}"
        case "basic" if ":" in words[1]:
            return f"Basic {base64.b64encode(words[1].encode()).decode()}"
    return None
