"""Bearer tokens and their permissions: the required role of every request. A file holds the SHA-256 of tokens, never
the tokens.

A token has 256 random bits, so a hash reveals nothing, and a slow hash, as for passwords of people, would add no
protection. One line per token: `NAME ROLE[+records] sha256:HEX`; `#` starts a comment. Roles are in one table; a
request outside of the table needs the highest role. `+records` is a right beside the role: to see keys, values and
headers of records.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from offsite.model.errors import BadOption
from offsite.model.machine import can_others_write
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.serve.access_scope import NO_LIMIT, AccessScope, parse_scope
from offsite.serve.address import Address
from offsite.serve.watched_file import WatchedFile

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_POINTS = r"groups|pins|points|source|over-time|checkpoints(?:/[^/]+(?:/explanation)?)?"
_SEEN = rf"(?:status|repositories|metastores|declared|backups(?:/[^/]+(?:/(?:{_POINTS}))?)?)"
_ACTUATOR = r"/actuator/(?:backups|backupRuntime)(?:/[^/]+)?"
_BEGUN = "checkpoints|runs|verifications|drills"
_RECORDS = "+records"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DAY_S = 24 * 3600
_PREFIX = "offsite_"
_HINT = (
    "a line is: NAME ROLE[+records] [backups=PATTERN,…] [topics=PATTERN,…] [until=YYYY-MM-DD] sha256:HEX; create one "
    "with: offsite tokens add NAME:ROLE"
)


class AccessRole(IntEnum):
    """The permissions of a caller; every role includes the roles before."""

    WATCH = 1
    """See backups and their status: no records, no jobs, no plans."""
    READ = 2
    """See everything except records, and plan."""
    OPERATE = 3
    """Take backups, checkpoints and checks, end jobs, call the doctor."""
    RESTORE = 4
    """Write into a cluster, and delete restore points."""


class Requirement(NamedTuple):
    """`role`: the required role; None: open to everyone. `changes`: the request changes something: the journal records
    the caller, and a read-only coordinator refuses. `records`: the request shows records, or searches in them."""

    role: AccessRole | None
    changes: bool
    records: bool = False

    @property
    def is_more_than_reading(self) -> bool:
        return self.role is not None and self.role > AccessRole.READ


class _Rule(NamedTuple):
    methods: frozenset[str]
    path: re.Pattern[str]
    requirement: Requirement


def _rule(methods: str, path: str, role: AccessRole | None, *, changes: bool, records: bool = False) -> _Rule:
    return _Rule(frozenset(methods.split()), re.compile(path), Requirement(role, changes, records))


_SHOWN = "GET HEAD OPTIONS"
_RULES = (
    _rule("GET HEAD", r"/login|/login/oidc(?:/done)?|/static/[a-z.]+|/healthz", None, changes=False),
    _rule("POST", r"/login|/logout", None, changes=False),
    _rule("GET", r"/api/v1/doctor", AccessRole.OPERATE, changes=False),
    _rule("GET HEAD", rf"/|/openapi\.json|/(?:api/v1/)?{_SEEN}|{_ACTUATOR}", AccessRole.WATCH, changes=False),
    _rule(_SHOWN, r"/(api/v1/)?backups/[^/]+/records(?s:/.*)?", AccessRole.READ, changes=False, records=True),
    _rule(_SHOWN, r"/.*", AccessRole.READ, changes=False),
    _rule("POST", r"/api/v1/(.*/)?plan", AccessRole.READ, changes=False),
    _rule("POST", r"/backups/[^/]+/restore/(?:plan|choice)", AccessRole.READ, changes=False),
    _rule("POST", rf"/(api/v1/)?backups/[^/]+/({_BEGUN})", AccessRole.OPERATE, changes=True),
    _rule("POST", r"/(api/v1/)?backups/[^/]+/searches", AccessRole.OPERATE, changes=True, records=True),
    _rule("POST", r"/(api/v1/)?jobs/[^/]+/cancel", AccessRole.OPERATE, changes=True),
    _rule("POST", r"/actuator/(backups|backupRuntime)(/state/sync)?", AccessRole.OPERATE, changes=True),
)


def find_requirement(method: str, path: str) -> Requirement:
    """Return the requirement of a request. `path`: decoded, without query and without the prefix of a repository."""
    rules = (rule.requirement for rule in _RULES if method in rule.methods and rule.path.fullmatch(path))
    return next(rules, _HIGHEST)


def requirement_at(method: str, address: Address | None) -> Requirement:
    """The same at an address; None: the path has two readings. No page of a repository is open to everyone."""
    requirement = _HIGHEST if address is None else find_requirement(method, address.path)
    return _HIGHEST if address is not None and address.repository and requirement.role is None else requirement


_HIGHEST = Requirement(AccessRole.RESTORE, changes=True)
_NAME = r"(?P<name>[A-Za-z0-9._@-]{1,60})"
_ROLE = rf"(?P<role>{'|'.join(role.name.lower() for role in AccessRole)})(?P<records>\+records)?"
_LIMITS = r"(?P<limits>(?:\s+(?:backups|topics|until)=\S+)*)"
_LINE = re.compile(rf"{_NAME}\s+{_ROLE}{_LIMITS}\s+sha256:(?P<hash>[0-9a-f]{{64}})")
_FORM = re.compile(f"{_NAME}:{_ROLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request, by the name of the token. `records`: the caller may see keys, values and headers of
    records, and whatever else holds parts of them. `until`: the last day (UTC) of the rights; None: no end."""

    name: str
    role: AccessRole
    records: bool = False
    scope: AccessScope = NO_LIMIT
    until: date | None = None

    def is_over(self, now_s: int) -> bool:
        return self.until is not None and now_s >= _end_s(self.until)

    @property
    def limits(self) -> str:
        """The limits as in a token file, with a blank in front; empty: none."""
        return f"{self.scope.text}{'' if self.until is None else f' until={self.until.isoformat()}'}"

    @property
    def rights(self) -> str:
        """Role and right as in a token file."""
        return f"{self.role.name.lower()}{_RECORDS if self.records else ''}"

    def may(self, requirement: Requirement) -> bool:
        has_role = requirement.role is None or self.role >= requirement.role
        return has_role and (self.records or not requirement.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    caller: Caller
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The valid tokens."""

    active: tuple[KnownToken, ...]

    def at(self, now_s: int) -> Tokens:
        """The tokens that have not expired."""
        return Tokens(active=tuple(token for token in self.active if not token.caller.is_over(now_s)))

    def authenticate(self, token: str) -> Caller | None:
        """Return the owner of a token. All tokens are compared, each in constant time."""
        digest, caller = _digest(token), None
        for known_token in self.active:
            if hmac.compare_digest(known_token.sha256, digest):
                caller = known_token.caller
        return caller

    def hash_of(self, name: str) -> str:
        """Return the hash of the token of that name; empty: none."""
        return next((known_token.sha256 for known_token in self.active if known_token.caller.name == name), "")

    def find_caller(self, name: str) -> Caller | None:
        """Return the caller of that name, if a token for the name still exists."""
        return next((known_token.caller for known_token in self.active if known_token.caller.name == name), None)


OWNER = Caller(name="owner", role=AccessRole.RESTORE, records=True)
"""The person who started a coordinator without a token file."""


def make_owner_tokens() -> Tokens:
    """Return the tokens of a coordinator without a token file: its owner may do everything, by a session only, because
    no token has the hash. The hash is drawn at every start, so no session of an earlier start is valid."""
    return Tokens(active=(KnownToken(caller=OWNER, sha256=secrets.token_hex(32)),))


class TokenFile(WatchedFile[Tokens]):
    """The present tokens of a file: a removed line takes effect at once. While the file is unreadable or invalid, no
    token is valid. Raises the errors of `read_tokens`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_tokens, nothing=Tokens(active=()), event="tokens")


def read_tokens(path: Path) -> Tokens:
    """Raises `BadOption` for an unreadable file, a file without tokens, or an invalid line."""
    try:
        if can_others_write(path.stat()):
            raise BadOption(
                f"the token file {path} can be written by other users, who could add tokens",
                hint="become its owner, and: chmod go-w FILE",
            )
        lines = decode_text(path.read_bytes()).splitlines()
    except (OSError, NotUtf8) as error:
        raise BadOption(f"the token file {path} cannot be read: {error}", hint=_HINT) from error
    tokens = [
        _known(line, f"line {number} of {path}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len({token.caller.name for token in tokens}) < len(tokens):
        raise BadOption(f"the token file {path} has a name twice", hint="give each token its own name")
    if not tokens:
        raise BadOption(f"the token file {path} contains no token", hint=_HINT)
    return Tokens(active=tuple(tokens))


def new_token(form: str, path: Path, *, backups: str = "", topics: str = "", until: str = "") -> str:
    """Return a new token for `NAME:ROLE` or `NAME:ROLE+records`, and append its hash to the file. The token is shown
    only here. Raises `BadOption`."""
    match = _FORM.fullmatch(form)
    if match is None:
        raise BadOption(
            f"{form[:80]!r} is not NAME:ROLE", hint="write it as alice:read, bob:read+records or admin:restore"
        )
    caller = with_limits(_caller(match["name"], match, form), form, backups=backups, topics=topics, until=until)
    if path.exists() and read_tokens(path).find_caller(match["name"]):
        raise BadOption(f"{path} has a token of {match['name']}", hint="delete its line first, or choose a new name")
    token = _PREFIX + secrets.token_urlsafe(32)
    path.touch(mode=0o600)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{caller.name} {caller.rights}{caller.limits} sha256:{_digest(token)}\n")
    return token


def _known(line: str, where: str) -> KnownToken:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise BadOption(f"{where} is not a token", hint=_HINT)
    texts = [part.partition("=") for part in match["limits"].split()]
    limits = {name: text for name, _, text in texts}
    if len(limits) < len(texts):
        raise BadOption(f"{where} has a limit twice", hint="put commas between patterns")
    caller = with_limits(_caller(match["name"], match, where), where, **limits)
    return KnownToken(caller=caller, sha256=match["hash"])


def with_limits(caller: Caller, where: str, *, backups: str = "", topics: str = "", until: str = "") -> Caller:
    """Return the caller with limits as in a token file. Raises `BadOption`."""
    scope = parse_scope(backups.split(",") if backups else (), topics.split(",") if topics else (), where)
    return replace(caller, scope=scope, until=_date(until, where) if until else None)


def _date(text: str, where: str) -> date:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise BadOption(f"{where}: {text[:60]!r} is not a date", hint="write the last day as until=2026-12-31 (UTC)")


def _end_s(last_day: date) -> int:
    """The end of a day, in seconds since the epoch."""
    return int(datetime(last_day.year, last_day.month, last_day.day, tzinfo=UTC).timestamp()) + _DAY_S


def parse_rights(name: str, role: str, where: str) -> Caller:
    """Return a caller with the rights of `ROLE` or `ROLE+records`. Raises `BadOption`."""
    match = re.fullmatch(_ROLE, role)
    if match is None:
        roles = ", ".join(access.name.lower() for access in AccessRole)
        raise BadOption(f"{where}: {role[:60]!r} is not a role", hint=f"roles are {roles}, each with +records or not")
    return _caller(name, match, where)


def _caller(name: str, match: re.Match[str], where: str) -> Caller:
    caller = Caller(name=name, role=AccessRole[match["role"].upper()], records=bool(match["records"]))
    if caller.records and caller.role < AccessRole.READ:
        raise BadOption(f"{where}: {caller.rights} does not exist", hint="records are seen with read+records or more")
    return caller


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
