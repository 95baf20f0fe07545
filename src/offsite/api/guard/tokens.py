"""Bearer tokens: who may do what. A file holds their SHA-256, never the tokens.

A token is 256 random bits, so nobody can guess it from its hash, and a slow hash, as for passwords that people choose,
would protect nothing. One line for each: `NAME ROLE sha256:HEX`; `#` begins a comment.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from offsite.api.guard.roles import Role
from offsite.model.errors import BadOption
from offsite.model.journal import warned
from offsite.model.untrusted.file_access import can_others_write
from offsite.model.untrusted.text import NotUtf8, decode_text

_NAME, _ROLE = r"(?P<name>[A-Za-z0-9._@-]{1,60})", f"(?P<role>{'|'.join(role.name.lower() for role in Role)})"
_LINE = re.compile(rf"{_NAME}\s+{_ROLE}\s+sha256:(?P<hash>[0-9a-f]{{64}})")
_FORM = re.compile(f"{_NAME}:{_ROLE}")
_PREFIX = "offsite_"
_HINT = "a line is: NAME ROLE sha256:HEX; make one with: offsite tokens add NAME:ROLE --token-file FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever asks, by the name of the token."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    caller: Caller
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens that count."""

    known: tuple[KnownToken, ...]

    def caller(self, token: str) -> Caller | None:
        """Whoever has that token. All are compared, each in constant time."""
        digest, found = _digest(token), None
        for each in self.known:
            if hmac.compare_digest(each.sha256, digest):
                found = each.caller
        return found

    def hash_of(self, name: str) -> str:
        """The hash of the token of that name, empty where there is none."""
        return next((each.sha256 for each in self.known if each.caller.name == name), "")

    def still(self, name: str) -> Caller | None:
        """The caller of that name, if there still is a token for it."""
        return next((each.caller for each in self.known if each.caller.name == name), None)


OWNER = Caller(name="owner", role=Role.RESTORE)
"""Whoever started a coordinator that has no file of tokens."""


def owner_alone() -> Tokens:
    """The tokens of such a coordinator: its owner may do everything, by a session alone, since no token has that
    hash. It is drawn anew each time, so that no session of an earlier start counts."""
    return Tokens(known=(KnownToken(caller=OWNER, sha256=secrets.token_hex(32)),))


class TokenFile:
    """The tokens of a file as it is now: whoever takes a line away from it shuts somebody out at once. Raises as
    `read_tokens`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._state()
        self._tokens = read_tokens(path)

    def __call__(self) -> Tokens:
        """While the file cannot be read, or says nothing sound, nobody counts."""
        if (state := self._state()) != self._seen:
            self._seen, self._tokens = state, self._read()
        return self._tokens

    def _read(self) -> Tokens:
        try:
            return read_tokens(self._path)
        except BadOption as error:
            warned("tokens", error=error.id, why=error.message)
            return Tokens(known=())

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def read_tokens(path: Path) -> Tokens:
    """Raises `BadOption` for a file that cannot be read, has no token, or a line that is none."""
    try:
        if can_others_write(path.stat()):
            raise BadOption(
                f"the token file {path} can be written by others, who could let themselves in",
                hint="own it, and: chmod go-w FILE",
            )
        lines = decode_text(path.read_bytes()).splitlines()
    except (OSError, NotUtf8) as error:
        raise BadOption(f"the token file {path} cannot be read: {error}", hint=_HINT) from error
    known = [
        _known(line, f"line {number} of {path}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len({each.caller.name for each in known}) < len(known):
        raise BadOption(f"the token file {path} has one name twice", hint="give each token a name of its own")
    if not known:
        raise BadOption(f"the token file {path} holds no token", hint=_HINT)
    return Tokens(known=tuple(known))


def new_token(form: str, path: Path) -> str:
    """A new token for `NAME:ROLE`, whose hash is appended to the file. It is told here only. Raises `BadOption`."""
    found = _FORM.fullmatch(form)
    if found is None:
        raise BadOption(f"{form[:80]!r} is no NAME:ROLE", hint="write it as alice:read, ci:operate or admin:restore")
    if path.exists() and read_tokens(path).still(found["name"]):
        raise BadOption(f"{path} has a token of {found['name']}", hint="take its line away first, or choose a new name")
    token = _PREFIX + secrets.token_urlsafe(32)
    path.touch(mode=0o600)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{found['name']} {found['role']} sha256:{_digest(token)}\n")
    return token


def _known(line: str, where: str) -> KnownToken:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise BadOption(f"{where} is no token", hint=_HINT)
    return KnownToken(caller=Caller(name=found["name"], role=Role[found["role"].upper()]), sha256=found["hash"])


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
